/* SPDX-License-Identifier: MIT */
#include "front/keeper.h"

#include "program/account_key.h"
#include "base/clock.h"
#include "front/link.h"
#include "base/log.h"
#include "store/account.h"
#include "store/message.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct keeper {
	char *conninfo, *key_file;
	struct link link;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct accounts *accounts;
	struct keeper_waiter *waiting;
	const char *trouble; /* why nobody, or nobody new, is let in; NULL: nothing */
	bool stopping;
	/* Of the thread alone. */
	int64_t sweep_from;
	char complaint[512]; /* what was logged last, so that it is said once, and again only when it is another */
};

static void complain(struct keeper *k, const struct deferred_error *err)
{
	if (strcmp(k->complaint, err->message) == 0)
		return;
	snprintf(k->complaint, sizeof(k->complaint), "%s", err->message);
	log_line(LOG_L_ERROR, "accounts: %s%s%s", err->message, err->hint[0] ? ": " : "", err->hint);
}

static void set_trouble(struct keeper *k, const char *trouble)
{
	pthread_mutex_lock(&k->lock);
	k->trouble = trouble;
	pthread_mutex_unlock(&k->lock);
}

static bool usable(struct link *link, int rc, const struct deferred_error *err)
{
	enum error_class class = error_class(err->sqlstate);

	if (rc == DEFERRED_ELOST || rc == DEFERRED_ECONNECT || class == ERROR_CONNECTION || class == ERROR_READ_ONLY ||
	    class == ERROR_SCHEMA) {
		link_drop(link, err);
		return false;
	}
	if (class == ERROR_PREPARED)
		pg_set_unnamed(link->pg);
	return true;
}

/*
 * An account whose keys cannot be read has none, and so lets nobody in; the others are not to suffer. Returns how many
 * of them cannot; err describes the first of all.
 */
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

/* Of n accounts so many keys cannot be read. All at once is the fault of the key file: then nobody at all is let in. */
static void judge_keys(struct keeper *k, size_t n, size_t unreadable, struct deferred_error *first)
{
	struct deferred_error err = { 0 };

	set_trouble(k, unreadable > 0 && unreadable == n * SIGN_KEYS
			       ? "the key file is not the one of the accounts' keys: the log says more"
			       : NULL);
	if (unreadable == 0) {
		k->complaint[0] = '\0';
	} else if (unreadable == n * SIGN_KEYS) {
		error_set(&err, DEFERRED_ECONFIG, "accounts",
			  "'%s' is another key file than the accounts' keys were encrypted with: all requests are "
			  "refused",
			  k->key_file);
		error_hint(&err, "get that one back, from a copy or from another machine that serves them");
		complain(k, &err);
	} else {
		if (unreadable > 1)
			error_set(&err, DEFERRED_ECONFIG, "accounts", "%s, and %zu more", first->message,
				  unreadable - 1);
		complain(k, unreadable > 1 ? &err : first);
	}
}

static int load_accounts(struct keeper *k, struct pg *pg, struct accounts **fresh, struct deferred_error *err)
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
		rc = account_key_load(k->key_file, master, err);
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
	judge_keys(k, n, unreadable, &first);
	accounts_sort(a);
	explicit_bzero(master, sizeof(master));
	store_account_free(rows, n);
	*fresh = a;
	return 0;
}

static bool load(struct keeper *k)
{
	struct deferred_error err = { 0 };
	struct pg *pg = link_get(&k->link, NULL);
	struct accounts *fresh = NULL, *old;
	int rc;

	if (!pg)
		return false;
	rc = load_accounts(k, pg, &fresh, &err);
	if (rc < 0) {
		if (usable(&k->link, rc, &err)) {
			complain(k, &err);
			set_trouble(k, "the accounts cannot be read: the log says why");
		}
		return false;
	}
	pthread_mutex_lock(&k->lock);
	old = k->accounts;
	k->accounts = fresh;
	pthread_mutex_unlock(&k->lock);
	accounts_release(old);
	return true;
}

static void sweep(struct keeper *k)
{
	struct deferred_error err = { 0 };
	struct pg *pg = link_get(&k->link, NULL);
	int64_t expired = 0;
	int rc;

	if (!pg)
		return;
	rc = store_message_sweep(pg, &k->sweep_from, &expired, &err);
	if (rc < 0 && usable(&k->link, rc, &err))
		log_line(LOG_L_WARNING, "sweep: %s", err.message);
	else if (expired > 0)
		log_line(LOG_L_DEBUG, "sweep: %lld messages have expired", (long long)expired);
}

/* Until somebody asks, or the time has come. Locked. */
static void wait_for_reason(struct keeper *k, int64_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!k->stopping && !k->waiting)
		if (pthread_cond_timedwait(&k->changed, &k->lock, &until) == ETIMEDOUT)
			return;
}

static void pause_unlocked(struct keeper *k, int64_t ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	pthread_mutex_unlock(&k->lock);
	nanosleep(&ts, NULL);
	pthread_mutex_lock(&k->lock);
}

static void wake_all(struct keeper_waiter *waiting, bool fresh)
{
	struct keeper_waiter *next;

	for (; waiting; waiting = next) {
		next = waiting->next;
		waiting->fresh = fresh;
		waiting->wake(waiting->wake_data);
	}
}

static struct keeper_waiter *take_waiting(struct keeper *k)
{
	struct keeper_waiter *waiting = k->waiting;

	k->waiting = NULL;
	return waiting;
}

static void *keep(void *arg)
{
	struct keeper *k = arg;
	uint64_t swept_ns = 0;

	pthread_mutex_lock(&k->lock);
	while (!k->stopping) {
		struct keeper_waiter *waiting = take_waiting(k);

		pthread_mutex_unlock(&k->lock);
		wake_all(waiting, load(k));
		if (clock_ns() - swept_ns >= KEEPER_EVERY_MS * NS_PER_MS) {
			sweep(k);
			swept_ns = clock_ns();
		}
		pthread_mutex_lock(&k->lock);
		if (!k->stopping) {
			pause_unlocked(k, KEEPER_PAUSE_MS);
			wait_for_reason(k, KEEPER_EVERY_MS - KEEPER_PAUSE_MS);
		}
	}
	wake_all(take_waiting(k), false);
	pthread_mutex_unlock(&k->lock);
	link_close(&k->link);
	return NULL;
}

static void keeper_free(struct keeper *k)
{
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->lock);
	accounts_release(k->accounts);
	free(k->conninfo);
	free(k->key_file);
	free(k);
}

struct keeper *keeper_start(const char *conninfo, const char *key_file, struct deferred_error *err)
{
	struct keeper *k = calloc(1, sizeof(*k));
	pthread_condattr_t attr;

	if (!k) {
		error_set(err, DEFERRED_ENOMEM, "keeper", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&k->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&k->changed, &attr);
	pthread_condattr_destroy(&attr);
	k->conninfo = strdup(conninfo ? conninfo : "");
	k->key_file = strdup(key_file);
	if (!k->conninfo || !k->key_file) {
		error_set(err, DEFERRED_ENOMEM, "keeper", "out of memory");
		keeper_free(k);
		return NULL;
	}
	link_init(&k->link, k->conninfo, "accounts");
	errno = pthread_create(&k->thread, NULL, keep, k);
	if (errno != 0) {
		error_errno(err, DEFERRED_ESYSTEM, "keeper", "cannot start a thread");
		keeper_free(k);
		return NULL;
	}
	return k;
}

struct accounts *keeper_accounts(struct keeper *k)
{
	struct accounts *a;

	pthread_mutex_lock(&k->lock);
	a = accounts_use(k->accounts);
	pthread_mutex_unlock(&k->lock);
	return a;
}

const char *keeper_trouble(struct keeper *k)
{
	const char *trouble;

	pthread_mutex_lock(&k->lock);
	trouble = k->trouble ? k->trouble : k->accounts ? NULL : "the accounts could not be read yet";
	pthread_mutex_unlock(&k->lock);
	return trouble;
}

void keeper_refresh(struct keeper *k, struct keeper_waiter *waiter)
{
	pthread_mutex_lock(&k->lock);
	waiter->next = k->waiting;
	k->waiting = waiter;
	pthread_cond_signal(&k->changed);
	pthread_mutex_unlock(&k->lock);
}

void keeper_stop(struct keeper *k)
{
	pthread_mutex_lock(&k->lock);
	k->stopping = true;
	pthread_cond_signal(&k->changed);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
	keeper_free(k);
}
