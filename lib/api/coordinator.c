/* SPDX-License-Identifier: MIT */
/*
 * Invariants, with r the coordinator's round:
 *
 * 1. A live track is in round r, or in round r - 1 with all its steps made. It enters a round when it asks for a
 *    step of it. Either way it stands between r * range and (r + 1) * range.
 * 2. `missing` is the number of live tracks that have not been counted as having made the steps of round r.
 *    When it falls to 0 and a track lives, the round ends: r + 1, all of them missing again.
 * 3. Only a compare-and-exchange that sees its own generation makes a step. Destroying a track changes the
 *    generation and so ends its steps at that instant. An old handle cannot move a slot that was reused.
 * 4. The mutex guards rounds, counting, creating and destroying. Only `word` changes outside it, and only upwards
 *    from a number of steps below the range. A call that finds all steps made takes the mutex.
 * 5. If a round began because a track was destroyed, each track first gets one report of that. A later call enters
 *    the round. A walker that destroys its track when a flag falls has seen the flag. A walker with the report
 *    therefore sees it too, and does not make the step that would put it ahead.
 */
#include "deferred_coordinator.h"

#include "base/error.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE 64 /* bytes of a cache line */

/* The place of a track; stays until the coordinator goes, so that old handles point at something. */
struct place {
	_Alignas(LINE) _Atomic uint64_t word; /* generation << 32 | steps made in its round */
	_Atomic uint64_t stamp;               /* its round * 2; odd while round and word change together */
	struct deferred_coordinator *c;
	uint64_t range;     /* the coordinator's, here to save a second cache line */
	struct place *next; /* of all places */
	struct place *next_free;
	uint64_t told;      /* the last round for which a track's end was reported */
	bool live, counted; /* counted: in its round, as having made all steps */
};

struct deferred_coordinator {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a round began, or a track was destroyed */
	uint64_t range, round;
	uint64_t live, missing;
	uint64_t resumed; /* the last round that a track's end began, or helped to begin */
	bool gone;        /* a track that was missing in this round was destroyed */
	struct place *places, *first_free, **last_free;
};

static uint32_t generation(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

static uint64_t steps(uint64_t word)
{
	return (uint32_t)word;
}

static uint64_t make_word(uint32_t gen, uint64_t made)
{
	return (uint64_t)gen << 32 | made;
}

static uint64_t round_of(struct place *p)
{
	return atomic_load_explicit(&p->stamp, memory_order_relaxed) / 2;
}

/* ---- with the mutex held ------------------------------------------------------------------------ */

static void end_round_if_complete(struct deferred_coordinator *c)
{
	if (c->missing > 0 || c->live == 0)
		return;
	c->round++;
	if (c->gone)
		c->resumed = c->round;
	c->gone = false;
	c->missing = c->live;
	pthread_cond_broadcast(&c->changed);
}

static bool counted_in_round(struct place *p)
{
	return round_of(p) == p->c->round && p->counted;
}

/* The track may have made the last step of the round. */
static void count(struct place *p)
{
	if (p->counted || steps(atomic_load(&p->word)) < p->range)
		return;
	p->counted = true;
	p->c->missing--;
	end_round_if_complete(p->c);
}

/* Puts the track at the beginning of the round under way. A reader of position sees both, or looks again. */
static void enter(struct place *p, uint32_t gen)
{
	uint64_t stamp = p->c->round * 2;

	atomic_store(&p->stamp, stamp + 1);
	p->counted = false;
	atomic_store(&p->word, make_word(gen, 0));
	atomic_store(&p->stamp, stamp);
}

/* Whether the track has to report that another's end began the round. The call counts as the report. */
static bool resume(struct place *p)
{
	struct deferred_coordinator *c = p->c;

	if (c->resumed != c->round || p->told == c->round)
		return false;
	p->told = c->round;
	return true;
}

enum entry { ENTERED, LOOK_AGAIN, NOT_YET };

/* ENTERED: the track can make a step now. */
static enum entry try_enter(struct place *p, uint32_t gen)
{
	if (steps(atomic_load(&p->word)) < p->range)
		return ENTERED; /* another thread was here first */
	count(p);
	if (round_of(p) == p->c->round)
		return NOT_YET;
	if (resume(p))
		return LOOK_AGAIN;
	enter(p, gen);
	return ENTERED;
}

/* ---- coordinator --------------------------------------------------------------------------------- */

int deferred_coordinator_new(struct deferred_coordinator **out, int64_t range, struct deferred_error *err)
{
	static const char where[] = "deferred_coordinator_new";
	struct deferred_coordinator *c;
	pthread_condattr_t attr;
	int e;

	error_clear(err);
	if (!out)
		return error_set(err, DEFERRED_EINVAL, where,
				 "the pointer for the coordinator is NULL\npass an address");
	if (range < 1 || range > DEFERRED_RANGE_MAX) {
		error_set(err, DEFERRED_EINVAL, where, "range %" PRId64 " is not from 1 to %d", range,
			  DEFERRED_RANGE_MAX);
		error_hint(err, "a range is the number of steps by which tracks may differ");
		return DEFERRED_EINVAL;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return error_set(err, DEFERRED_ENOMEM, where, "out of memory");
	c->range = (uint64_t)range;
	c->last_free = &c->first_free;
	e = pthread_mutex_init(&c->lock, NULL);
	if (e != 0) {
		free(c);
		return error_set(err, DEFERRED_ESYSTEM, where,
				 "cannot make a mutex (%s)\nraise the limits of the process", strerror(e));
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	e = pthread_cond_init(&c->changed, &attr);
	pthread_condattr_destroy(&attr);
	if (e != 0) {
		pthread_mutex_destroy(&c->lock);
		free(c);
		return error_set(err, DEFERRED_ESYSTEM, where,
				 "cannot make a condition variable (%s)\nraise the limits of the process", strerror(e));
	}
	*out = c;
	return 0;
}

void deferred_coordinator_free(struct deferred_coordinator *c)
{
	struct place *p;

	if (!c)
		return;
	while ((p = c->places)) {
		c->places = p->next;
		free(p);
	}
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- tracks -------------------------------------------------------------------------------------- */

/* Places are reused first in, first out, so that a generation comes again as late as can be. */
static struct place *take_place(struct deferred_coordinator *c)
{
	struct place *p = c->first_free;

	if (p) {
		c->first_free = p->next_free;
		if (!c->first_free)
			c->last_free = &c->first_free;
		return p;
	}
	p = aligned_alloc(LINE, sizeof(*p));
	if (!p)
		return NULL;
	memset(p, 0, sizeof(*p));
	atomic_init(&p->word, make_word(1, 0)); /* 0 is the generation of a handle that was never filled in */
	atomic_init(&p->stamp, 0);
	p->c = c;
	p->range = c->range;
	p->next = c->places;
	c->places = p;
	return p;
}

int deferred_track_create(struct deferred_coordinator *c, struct deferred_track *track, struct deferred_error *err)
{
	static const char where[] = "deferred_track_create";
	struct place *p;

	error_clear(err);
	if (!c || !track)
		return error_set(err, DEFERRED_EINVAL, where,
				 "the %s is NULL\npass a coordinator and a pointer for the track",
				 c ? "pointer for the track" : "coordinator");
	pthread_mutex_lock(&c->lock);
	p = take_place(c);
	if (p) {
		uint32_t gen = generation(atomic_load(&p->word));

		enter(p, gen);
		p->live = true;
		c->live++;
		c->missing++;
		*track = (struct deferred_track){ p, gen };
	}
	pthread_mutex_unlock(&c->lock);
	return p ? 0 : error_set(err, DEFERRED_ENOMEM, where, "out of memory");
}

int deferred_track_destroy(struct deferred_track track)
{
	struct place *p = track.place;
	struct deferred_coordinator *c;
	uint32_t next = track.generation + 1;
	int rc = DEFERRED_ENOTFOUND;

	if (!p)
		return rc;
	c = p->c;
	pthread_mutex_lock(&c->lock);
	if (p->live && generation(atomic_load(&p->word)) == track.generation) {
		/* From here on no step is made. All steps "made": nobody with the next generation takes the fast way.
		 * */
		atomic_store(&p->word, make_word(next ? next : 1, p->range));
		if (!counted_in_round(p)) {
			c->missing--;
			c->gone = true;
		}
		c->live--;
		p->live = false;
		p->next_free = NULL;
		*c->last_free = p;
		c->last_free = &p->next_free;
		end_round_if_complete(c);
		pthread_cond_broadcast(&c->changed); /* somebody may wait for this very track */
		rc = 0;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* Steps left of the track's own round; *last: this was the end of them. Returns 0 where none is left. */
static int64_t move_in_round(struct place *p, uint32_t gen, uint64_t n, bool *last)
{
	uint64_t word = atomic_load_explicit(&p->word, memory_order_acquire), left, take;

	do {
		if (generation(word) != gen)
			return DEFERRED_ENOTFOUND;
		left = p->range - steps(word);
		if (left == 0)
			return 0;
		take = n < left ? n : left;
	} while (!atomic_compare_exchange_weak_explicit(&p->word, &word, word + take, memory_order_acq_rel,
							memory_order_acquire));
	*last = take == left;
	return (int64_t)take;
}

static struct timespec deadline_after(int64_t timeout_ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (timeout_ms > INT64_C(3155760000000)) /* a hundred years; time_t must not overflow */
		timeout_ms = INT64_C(3155760000000);
	t.tv_sec += (time_t)(timeout_ms / 1000);
	t.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

/* With the mutex held. deadline NULL: for ever. Returns what wait_for_round() does. */
static int wait_locked(struct place *p, uint32_t gen, bool wait, const struct timespec *deadline)
{
	struct deferred_coordinator *c = p->c;
	enum entry entry;
	int e = 0;

	for (;;) {
		if (generation(atomic_load(&p->word)) != gen)
			return DEFERRED_ENOTFOUND;
		entry = try_enter(p, gen);
		if (entry != NOT_YET)
			return entry;
		if (!wait || e != 0)
			return DEFERRED_ETIMEOUT;
		e = deadline ? pthread_cond_timedwait(&c->changed, &c->lock, deadline)
			     : pthread_cond_wait(&c->changed, &c->lock);
	}
}

/* Until the track can make a step: ENTERED, LOOK_AGAIN, DEFERRED_ETIMEOUT or DEFERRED_ENOTFOUND. */
static int wait_for_round(struct place *p, uint32_t gen, bool wait, const struct timespec *deadline)
{
	int rc;

	pthread_mutex_lock(&p->c->lock);
	/* A thread may be cancelled while it waits, and must not take the mutex along. */
	pthread_cleanup_push(unlock, &p->c->lock);
	rc = wait_locked(p, gen, wait, deadline);
	pthread_cleanup_pop(1);
	return rc;
}

/* The step just made was the last one of the round. */
static void report_last(struct place *p, uint32_t gen)
{
	pthread_mutex_lock(&p->c->lock);
	if (generation(atomic_load(&p->word)) == gen)
		count(p);
	pthread_mutex_unlock(&p->c->lock);
}

int64_t deferred_track_move_wait(struct deferred_track track, int64_t n, int64_t timeout_ms)
{
	struct place *p = track.place;
	struct timespec deadline = { -1, 0 };
	bool last = false;
	int64_t got;

	if (n < 1)
		return DEFERRED_EINVAL;
	if (!p)
		return DEFERRED_ENOTFOUND;
	/* Again only when other threads used up the round that this one entered. */
	while ((got = move_in_round(p, track.generation, (uint64_t)n, &last)) == 0) {
		int rc;

		if (timeout_ms > 0 && deadline.tv_sec < 0)
			deadline = deadline_after(timeout_ms);
		rc = wait_for_round(p, track.generation, timeout_ms != 0, timeout_ms > 0 ? &deadline : NULL);
		if (rc != ENTERED)
			return rc == LOOK_AGAIN ? 0 : rc;
	}
	if (last)
		report_last(p, track.generation);
	return got;
}

int64_t deferred_track_move(struct deferred_track track, int64_t n)
{
	int64_t got = deferred_track_move_wait(track, n, 0);

	return got == DEFERRED_ETIMEOUT ? 0 : got;
}

int64_t deferred_track_position(struct deferred_track track)
{
	struct place *p = track.place;
	uint64_t before, after, word;

	if (!p)
		return DEFERRED_ENOTFOUND;
	do {
		before = atomic_load(&p->stamp);
		word = atomic_load(&p->word);
		after = atomic_load(&p->stamp);
		if (generation(word) != track.generation)
			return DEFERRED_ENOTFOUND;
	} while (before != after || before & 1);
	return (int64_t)(before / 2 * p->range + steps(word));
}
