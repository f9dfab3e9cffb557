/* SPDX-License-Identifier: MIT */
#include "kept.h"

#include "base/clock.h"
#include "guard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PLACES 64
#define FAILED_NS (5 * NS_PER_S)
#define NICE 10

static const uint64_t keep_ns[] = {
	[KEPT_DOCTOR] = 60 * NS_PER_S, [KEPT_ADVICE] = 60 * NS_PER_S, [KEPT_METRICS] = 5 * NS_PER_S
};

struct place {
	enum kept_what what;
	char whose[GUARD_NAME_SIZE];
	bool used, under_way;
	uint64_t until_ns; /* 0: there is no answer */
	struct kept_answer answer;
};

struct kept {
	pthread_mutex_t lock;
	pthread_cond_t done; /* the thread, or an answer */
	struct place place[PLACES];
	bool ending;
	/* The thread, and what it is to do. */
	pthread_t thread;
	bool has_thread, works;
	void (*work)(void *data);
	void *data;
};

struct kept *kept_new(struct deferred_error *err)
{
	struct kept *k = calloc(1, sizeof(*k));
	pthread_condattr_t monotonic;

	if (!k) {
		error_set(err, DEFERRED_ENOMEM, "kept", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&k->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&k->done, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return k;
}

/* ---- places, all with the lock held ----------------------------------------------------------- */

static void clear(struct place *p)
{
	buf_clear(&p->answer.html);
	buf_clear(&p->answer.json);
	p->until_ns = 0;
}

static struct place *find(struct kept *k, enum kept_what what, const char *whose)
{
	for (size_t i = 0; i < PLACES; i++)
		if (k->place[i].used && k->place[i].what == what && strcmp(k->place[i].whose, whose) == 0)
			return &k->place[i];
	return NULL;
}

/* One that is free, or the one that was to end first. NULL: all are being worked out. */
static struct place *make(struct kept *k, enum kept_what what, const char *whose)
{
	struct place *best = NULL;

	for (size_t i = 0; i < PLACES; i++) {
		struct place *p = &k->place[i];

		if (!p->under_way && (!best || (best->used && (!p->used || p->until_ns < best->until_ns))))
			best = p;
	}
	if (!best || strlen(whose) >= sizeof(best->whose))
		return NULL;
	clear(best);
	best->used = true;
	best->what = what;
	strcpy(best->whose, whose);
	return best;
}

/* With the lock held: until *going is false. */
static void wait_while(struct kept *k, const bool *going, int wait_ms)
{
	struct timespec until;
	uint64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns = (uint64_t)until.tv_nsec + (uint64_t)wait_ms * NS_PER_MS;
	until.tv_sec += (time_t)(ns / NS_PER_S);
	until.tv_nsec = (long)(ns % NS_PER_S);
	while (*going && pthread_cond_timedwait(&k->done, &k->lock, &until) == 0)
		;
}

/* ---- answers ---------------------------------------------------------------------------------- */

bool kept_claim(struct kept *k, enum kept_what what, const char *whose)
{
	struct place *p;
	bool claimed = false;

	pthread_mutex_lock(&k->lock);
	p = find(k, what, whose);
	if (!p)
		p = make(k, what, whose);
	if (p && !k->ending && !p->under_way && p->until_ns <= clock_ns()) {
		clear(p);
		p->under_way = claimed = true;
	}
	pthread_mutex_unlock(&k->lock);
	return claimed;
}

void kept_put(struct kept *k, enum kept_what what, const char *whose, struct kept_answer *a)
{
	struct place *p;

	pthread_mutex_lock(&k->lock);
	/* It stayed there: it was under way. */
	p = find(k, what, whose);
	p->answer = *a;
	p->under_way = false;
	p->until_ns = clock_ns() + (a->failed ? FAILED_NS : keep_ns[what]);
	pthread_cond_broadcast(&k->done);
	pthread_mutex_unlock(&k->lock);
	*a = (struct kept_answer){ 0 };
}

void kept_give_up(struct kept *k, enum kept_what what, const char *whose)
{
	pthread_mutex_lock(&k->lock);
	find(k, what, whose)->under_way = false;
	pthread_cond_broadcast(&k->done);
	pthread_mutex_unlock(&k->lock);
}

void kept_wait(struct kept *k, enum kept_what what, const char *whose, int wait_ms)
{
	const struct place *p;

	pthread_mutex_lock(&k->lock);
	p = find(k, what, whose);
	if (p)
		wait_while(k, &p->under_way, wait_ms);
	pthread_mutex_unlock(&k->lock);
}

bool kept_show(struct kept *k, enum kept_what what, const char *whose, bool json, struct buf *to)
{
	const struct place *p;
	bool there;

	pthread_mutex_lock(&k->lock);
	p = find(k, what, whose);
	there = p && p->until_ns > clock_ns();
	if (there) {
		const struct buf *b = json ? &p->answer.json : &p->answer.html;

		buf_add(to, b->p, b->len);
		to->failed |= b->failed;
	}
	pthread_mutex_unlock(&k->lock);
	return there;
}

void kept_tick(struct kept *k)
{
	uint64_t now = clock_ns();

	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < PLACES; i++) {
		struct place *p = &k->place[i];

		if (!p->used || p->under_way || p->until_ns > now)
			continue;
		clear(p);
		p->used = false;
	}
	pthread_mutex_unlock(&k->lock);
}

/* ---- the thread ------------------------------------------------------------------------------- */

static void *work(void *data)
{
	struct kept *k = data;

	/* Of this thread alone, as Linux has it. What it may not lower it does as it is. */
	(void)!nice(NICE);
	k->work(k->data);
	pthread_mutex_lock(&k->lock);
	k->works = false;
	pthread_cond_broadcast(&k->done);
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

bool kept_work(struct kept *k, void (*f)(void *data), void *data, int wait_ms)
{
	bool began;

	pthread_mutex_lock(&k->lock);
	if (k->works || k->ending) {
		pthread_mutex_unlock(&k->lock);
		return false;
	}
	if (k->has_thread)
		pthread_join(k->thread, NULL); /* which has nothing left to do */
	k->work = f;
	k->data = data;
	k->works = k->has_thread = began = pthread_create(&k->thread, NULL, work, k) == 0;
	if (began)
		wait_while(k, &k->works, wait_ms);
	pthread_mutex_unlock(&k->lock);
	return began;
}

bool kept_is_ending(struct kept *k)
{
	bool ending;

	pthread_mutex_lock(&k->lock);
	ending = k->ending;
	pthread_mutex_unlock(&k->lock);
	return ending;
}

void kept_free(struct kept *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->ending = true;
	pthread_mutex_unlock(&k->lock);
	if (k->has_thread)
		pthread_join(k->thread, NULL);
	for (size_t i = 0; i < PLACES; i++)
		clear(&k->place[i]);
	pthread_cond_destroy(&k->done);
	pthread_mutex_destroy(&k->lock);
	free(k);
}
