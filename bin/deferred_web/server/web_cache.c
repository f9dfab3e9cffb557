/* SPDX-License-Identifier: MIT */
#include "web_cache.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES 64
#define NICE 10

struct entry {
	char *key; /* NULL: a free entry */
	struct web_cache_answer answer;
	uint64_t until_ns; /* 0: there is no answer */
	bool making;
};

struct web_cache {
	pthread_mutex_t lock;
	pthread_cond_t done; /* an answer, or the thread */
	struct entry entry[ENTRIES];
	uint64_t dropped_ns; /* pages that were begun before are not kept */
	bool ending;
	/* The thread, and what it is to do. */
	pthread_t thread;
	bool has_thread, works;
	void (*work)(void *data);
	void *data;
};

struct web_cache *web_cache_new(struct deferred_error *err)
{
	struct web_cache *c = calloc(1, sizeof(*c));

	if (!c) {
		error_set(err, DEFERRED_ENOMEM, "cache", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->done, NULL);
	return c;
}

/* ---- entries, all with the lock held ---------------------------------------------------------- */

static void clear_answer(struct entry *e)
{
	for (int form = 0; form < 2; form++) {
		if (e->answer.form[form].p)
			explicit_bzero(e->answer.form[form].p, e->answer.form[form].len);
		buf_clear(&e->answer.form[form]);
	}
	e->until_ns = 0;
}

static void free_entry(struct entry *e)
{
	clear_answer(e);
	free(e->key);
	*e = (struct entry){ 0 };
}

/* That entry, or a new one in place of the one that is free or ends first. NULL: all are being made, or no memory. */
static struct entry *entry_of(struct web_cache *c, const char *key)
{
	struct entry *best = NULL;

	for (size_t i = 0; i < ENTRIES; i++) {
		struct entry *e = &c->entry[i];

		if (e->key && strcmp(e->key, key) == 0)
			return e;
		if (!e->making && (!best || (best->key && (!e->key || e->until_ns < best->until_ns))))
			best = e;
	}
	if (!best)
		return NULL;
	free_entry(best);
	best->key = strdup(key);
	return best->key ? best : NULL;
}

/* Until *going is false. */
static void wait_while(struct web_cache *c, const bool *going, int wait_ms)
{
	struct timespec until = clock_deadline(wait_ms);

	while (*going && pthread_cond_clockwait(&c->done, &c->lock, CLOCK_MONOTONIC, &until) == 0)
		;
}

/* ---- answers ---------------------------------------------------------------------------------- */

enum web_cache_found web_cache_get(struct web_cache *c, const char *key, int form, int wait_ms, struct buf *to)
{
	enum web_cache_found found = WEB_CACHE_BUSY;
	struct entry *e;

	pthread_mutex_lock(&c->lock);
	e = entry_of(c, key);
	if (e && e->making && wait_ms > 0) {
		wait_while(c, &e->making, wait_ms);
		e = entry_of(c, key); /* its place may be another's */
	}
	if (e && e->until_ns > clock_ns()) {
		buf_add(to, e->answer.form[form].p, e->answer.form[form].len);
		to->failed |= e->answer.form[form].failed;
		found = WEB_CACHE_THERE;
	} else if (e && !e->making && !c->ending && wait_ms != WEB_CACHE_ONLY_LOOK) {
		clear_answer(e);
		e->making = true;
		found = WEB_CACHE_MAKE;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

void web_cache_put(struct web_cache *c, const char *key, struct web_cache_answer *a)
{
	struct entry *e;

	pthread_mutex_lock(&c->lock);
	e = entry_of(c, key);
	if (e && (a->claimed || !e->making)) {
		clear_answer(e);
		e->making = false;
		if (a->keep_ms > 0 && (a->began_ns == 0 || a->began_ns > c->dropped_ns)) {
			e->answer = *a;
			e->until_ns = clock_ns() + (uint64_t)a->keep_ms * NS_PER_MS;
			*a = (struct web_cache_answer){ 0 };
		}
		pthread_cond_broadcast(&c->done);
	}
	pthread_mutex_unlock(&c->lock);
	for (int form = 0; form < 2; form++)
		buf_clear(&a->form[form]);
}

void web_cache_drop_pages(struct web_cache *c)
{
	pthread_mutex_lock(&c->lock);
	c->dropped_ns = clock_ns();
	for (size_t i = 0; i < ENTRIES; i++)
		if (c->entry[i].answer.began_ns > 0)
			clear_answer(&c->entry[i]);
	pthread_mutex_unlock(&c->lock);
}

void web_cache_tick(struct web_cache *c)
{
	uint64_t now = clock_ns();

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < ENTRIES; i++)
		if (c->entry[i].key && !c->entry[i].making && c->entry[i].until_ns <= now)
			free_entry(&c->entry[i]);
	pthread_mutex_unlock(&c->lock);
}

/* ---- the thread ------------------------------------------------------------------------------- */

static void *run_work(void *data)
{
	struct web_cache *c = data;

	/* On Linux this lowers the priority of this thread only. If it fails, the thread works at the usual one. */
	(void)!nice(NICE);
	c->work(c->data);
	pthread_mutex_lock(&c->lock);
	c->works = false;
	pthread_cond_broadcast(&c->done);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

bool web_cache_work(struct web_cache *c, void (*work)(void *data), void *data, int wait_ms)
{
	bool began;

	pthread_mutex_lock(&c->lock);
	if (c->works || c->ending) {
		pthread_mutex_unlock(&c->lock);
		return false;
	}
	if (c->has_thread)
		pthread_join(c->thread, NULL); /* it has nothing left to do */
	c->work = work;
	c->data = data;
	c->works = c->has_thread = began = pthread_create(&c->thread, NULL, run_work, c) == 0;
	if (began)
		wait_while(c, &c->works, wait_ms);
	pthread_mutex_unlock(&c->lock);
	return began;
}

bool web_cache_is_ending(struct web_cache *c)
{
	bool ending;

	pthread_mutex_lock(&c->lock);
	ending = c->ending;
	pthread_mutex_unlock(&c->lock);
	return ending;
}

void web_cache_free(struct web_cache *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->ending = true;
	pthread_mutex_unlock(&c->lock);
	if (c->has_thread)
		pthread_join(c->thread, NULL);
	for (size_t i = 0; i < ENTRIES; i++)
		free_entry(&c->entry[i]);
	pthread_cond_destroy(&c->done);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
