/* SPDX-License-Identifier: MIT */
#include "front/account_cache.h"

#include "base/clock.h"
#include "base/log.h"
#include "front/db_connection.h"
#include "program/account_key.h"
#include "store/account.h"
#include "store/message.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct account_cache {
	char *conninfo, *key_file;
	struct db_connection db;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct accounts *accounts;
	struct account_cache_waiter *waiting;
	const char *trouble; /* why requests are refused; NULL: they are not */
	bool stopping;
	/* Of the thread alone. */
	int64_t sweep_from;
	char complaint[512]; /* the last logged error; it is not logged again until another one occurs */
};

static void log_once(struct account_cache *cache, const struct deferred_error *err)
{
	if (strcmp(cache->complaint, err->message) == 0)
		return;
	snprintf(cache->complaint, sizeof(cache->complaint), "%s", err->message);
	log_error(LOG_L_ERROR, err, "accounts");
}

static void set_trouble(struct account_cache *cache, const char *trouble)
{
	pthread_mutex_lock(&cache->lock);
	cache->trouble = trouble;
	pthread_mutex_unlock(&cache->lock);
}

static bool check_connection(struct db_connection *db, int rc, const struct deferred_error *err)
{
	enum error_class class = error_class(err->sqlstate);

	if (rc == DEFERRED_ELOST || rc == DEFERRED_ECONNECT || class == ERROR_CONNECTION || class == ERROR_READ_ONLY ||
	    class == ERROR_SCHEMA) {
		db_connection_drop(db, err);
		return false;
	}
	if (class == ERROR_PREPARED)
		pg_set_unnamed(db->pg);
	return true;
}

/* Requests of an account whose keys cannot be read are refused. Other accounts are not affected. Returns how many keys
 * cannot be read. err describes the first. */
static size_t read_keys(const unsigned char master[ACCOUNT_MASTER_BYTES], const struct account_row *row,
			struct account *account, struct deferred_error *err)
{
	size_t unreadable = 0;

	for (int i = 0; i < SIGN_KEYS; i++) {
		if (account_key_decrypt(master, row->name, i + 1, row->cipher[i], row->cipher_len[i],
					account->keys.key[i], &account->keys.len[i], err) < 0) {
			account->keys.len[i] = 0;
			unreadable++;
		}
	}
	return unreadable;
}

/* If no key of any account can be read, the key file is wrong. Then all requests are refused. */
static void judge_keys(struct account_cache *cache, size_t n, size_t unreadable, struct deferred_error *first)
{
	struct deferred_error err = { 0 };

	set_trouble(cache, unreadable > 0 && unreadable == n * SIGN_KEYS
				   ? "the key file is not the one of the accounts' keys: the log says more"
				   : NULL);
	if (unreadable == 0) {
		cache->complaint[0] = '\0';
	} else if (unreadable == n * SIGN_KEYS) {
		error_set(&err, DEFERRED_ECONFIG, "accounts",
			  "'%s' is another key file than the accounts' keys were encrypted with: all requests are "
			  "refused",
			  cache->key_file);
		error_hint(&err, "get that one back, from a copy or from another machine that serves them");
		log_once(cache, &err);
	} else {
		if (unreadable > 1) {
			error_set(&err, DEFERRED_ECONFIG, "accounts", "%s, and %zu more", first->message,
				  unreadable - 1);
			error_hint(&err, "%s", first->hint);
		}
		log_once(cache, unreadable > 1 ? &err : first);
	}
}

static int load_accounts(struct account_cache *cache, struct pg *pg, struct accounts **fresh,
			 struct deferred_error *err)
{
	struct deferred_error first = { 0 };
	size_t unreadable = 0;
	unsigned char master[ACCOUNT_MASTER_BYTES];
	struct account_row *rows = NULL;
	struct accounts *a;
	size_t n = 0;
	int rc = store_account_ls(pg, &rows, &n, err);

	/* Without accounts there need not be a key yet. */
	if (rc == 0 && n > 0)
		rc = account_key_load(cache->key_file, master, err);
	if (rc < 0) {
		store_account_free(rows, n);
		return rc;
	}
	a = accounts_new(n);
	for (size_t i = 0; i < n; i++) {
		struct account *account = &a->list[i];

		account->name = arena_copy(&a->arena, rows[i].name, strlen(rows[i].name));
		account->enabled = rows[i].enabled;
		json_read_properties(&a->arena, rows[i].properties, &account->properties);
		unreadable += read_keys(master, &rows[i], account, &first);
	}
	judge_keys(cache, n, unreadable, &first);
	accounts_sort(a);
	explicit_bzero(master, sizeof(master));
	store_account_free(rows, n);
	*fresh = a;
	return 0;
}

static bool reload_accounts(struct account_cache *cache)
{
	struct deferred_error err = { 0 };
	struct pg *pg = db_connection_get(&cache->db, NULL);
	struct accounts *fresh = NULL, *old;
	int rc;

	if (!pg)
		return false;
	rc = load_accounts(cache, pg, &fresh, &err);
	if (rc < 0) {
		if (check_connection(&cache->db, rc, &err)) {
			log_once(cache, &err);
			set_trouble(cache, "the accounts cannot be read: the log says why");
		}
		return false;
	}
	pthread_mutex_lock(&cache->lock);
	old = cache->accounts;
	cache->accounts = fresh;
	pthread_mutex_unlock(&cache->lock);
	accounts_release(old);
	return true;
}

static void end_expired(struct account_cache *cache)
{
	struct deferred_error err = { 0 };
	struct pg *pg = db_connection_get(&cache->db, NULL);
	int64_t expired = 0;
	int rc;

	if (!pg)
		return;
	rc = store_message_sweep(pg, &cache->sweep_from, &expired, &err);
	if (rc < 0 && check_connection(&cache->db, rc, &err))
		log_error(LOG_L_WARNING, &err, "sweep");
	else if (expired > 0)
		log_line(LOG_L_DEBUG, "sweep: %lld messages have expired", (long long)expired);
}

/* Waits for a request for fresh accounts, at most ms. Locked. */
static void wait_for_reason(struct account_cache *cache, int64_t ms)
{
	struct timespec until = clock_deadline(ms);

	while (!cache->stopping && !cache->waiting &&
	       pthread_cond_clockwait(&cache->changed, &cache->lock, CLOCK_MONOTONIC, &until) == 0)
		;
}

static void pause_unlocked(struct account_cache *cache, int64_t ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	pthread_mutex_unlock(&cache->lock);
	nanosleep(&ts, NULL);
	pthread_mutex_lock(&cache->lock);
}

static void wake_all(struct account_cache_waiter *waiting, bool fresh)
{
	struct account_cache_waiter *next;

	for (; waiting; waiting = next) {
		next = waiting->next;
		waiting->fresh = fresh;
		waiting->wake(waiting->wake_data);
	}
}

static struct account_cache_waiter *take_waiting(struct account_cache *cache)
{
	struct account_cache_waiter *waiting = cache->waiting;

	cache->waiting = NULL;
	return waiting;
}

static void *refresh_accounts(void *arg)
{
	struct account_cache *cache = arg;
	uint64_t swept_ns = 0;

	pthread_mutex_lock(&cache->lock);
	while (!cache->stopping) {
		struct account_cache_waiter *waiting = take_waiting(cache);

		pthread_mutex_unlock(&cache->lock);
		wake_all(waiting, reload_accounts(cache));
		if (clock_ns() - swept_ns >= ACCOUNT_CACHE_EVERY_MS * NS_PER_MS) {
			end_expired(cache);
			swept_ns = clock_ns();
		}
		pthread_mutex_lock(&cache->lock);
		if (!cache->stopping) {
			pause_unlocked(cache, ACCOUNT_CACHE_PAUSE_MS);
			wait_for_reason(cache, ACCOUNT_CACHE_EVERY_MS - ACCOUNT_CACHE_PAUSE_MS);
		}
	}
	wake_all(take_waiting(cache), false);
	pthread_mutex_unlock(&cache->lock);
	db_connection_close(&cache->db);
	return NULL;
}

static void account_cache_free(struct account_cache *cache)
{
	pthread_cond_destroy(&cache->changed);
	pthread_mutex_destroy(&cache->lock);
	accounts_release(cache->accounts);
	free(cache->conninfo);
	free(cache->key_file);
	free(cache);
}

struct account_cache *account_cache_start(const char *conninfo, const char *key_file, struct deferred_error *err)
{
	struct account_cache *cache = calloc(1, sizeof(*cache));

	if (!cache) {
		error_set(err, DEFERRED_ENOMEM, "accounts", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->changed, NULL);
	cache->conninfo = strdup(conninfo ? conninfo : "");
	cache->key_file = strdup(key_file);
	if (!cache->conninfo || !cache->key_file) {
		error_set(err, DEFERRED_ENOMEM, "accounts", "out of memory");
		account_cache_free(cache);
		return NULL;
	}
	db_connection_init(&cache->db, cache->conninfo, "accounts");
	errno = pthread_create(&cache->thread, NULL, refresh_accounts, cache);
	if (errno != 0) {
		error_errno(err, DEFERRED_ESYSTEM, "accounts",
			    "cannot start a thread\nraise the limit of processes (ulimit -u)");
		account_cache_free(cache);
		return NULL;
	}
	return cache;
}

struct accounts *account_cache_accounts(struct account_cache *cache)
{
	struct accounts *a;

	pthread_mutex_lock(&cache->lock);
	a = accounts_use(cache->accounts);
	pthread_mutex_unlock(&cache->lock);
	return a;
}

const char *account_cache_trouble(struct account_cache *cache)
{
	const char *trouble;

	pthread_mutex_lock(&cache->lock);
	trouble = cache->trouble ? cache->trouble : cache->accounts ? NULL : "the accounts could not be read yet";
	pthread_mutex_unlock(&cache->lock);
	return trouble;
}

void account_cache_refresh(struct account_cache *cache, struct account_cache_waiter *waiter)
{
	pthread_mutex_lock(&cache->lock);
	waiter->next = cache->waiting;
	cache->waiting = waiter;
	pthread_cond_signal(&cache->changed);
	pthread_mutex_unlock(&cache->lock);
}

void account_cache_stop(struct account_cache *cache)
{
	pthread_mutex_lock(&cache->lock);
	cache->stopping = true;
	pthread_cond_signal(&cache->changed);
	pthread_mutex_unlock(&cache->lock);
	pthread_join(cache->thread, NULL);
	account_cache_free(cache);
}
