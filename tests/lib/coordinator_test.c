/* SPDX-License-Identifier: MIT */
/* Tracks that must stay level, moved by one thread, by two and by sixty-four. Also run under ThreadSanitizer. */
#include "deferred_coordinator.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "deferred.h"

#define THREADS 64

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static struct deferred_coordinator *new_coordinator(int64_t range)
{
	struct deferred_coordinator *c;

	assert_int_equal(deferred_coordinator_new(&c, range, NULL), 0);
	return c;
}

static struct deferred_track new_track(struct deferred_coordinator *c)
{
	struct deferred_track track;

	assert_int_equal(deferred_track_create(c, &track, NULL), 0);
	return track;
}

/* ---- one thread: the rules ------------------------------------------------------------------------ */

static void a_track_that_made_its_range_waits_for_the_other(void **state)
{
	struct deferred_coordinator *c = new_coordinator(3);
	struct deferred_track a = new_track(c), b = new_track(c);

	(void)state;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 3; i++)
			assert_int_equal(deferred_track_move(a, 1), 1);
		assert_int_equal(deferred_track_move(a, 1), 0);
		for (int i = 0; i < 2; i++)
			assert_int_equal(deferred_track_move(b, 1), 1);
		assert_int_equal(deferred_track_move(a, 1), 0);
		assert_int_equal(deferred_track_move(b, 1), 1); /* the last one opens the next round for both */
		assert_int_equal(deferred_track_position(a), 3 * (round + 1));
		assert_int_equal(deferred_track_position(b), 3 * (round + 1));
	}
	deferred_coordinator_free(c);
}

static void steps_are_granted_in_batches_up_to_what_is_left_of_the_round(void **state)
{
	struct deferred_coordinator *c = new_coordinator(10);
	struct deferred_track a = new_track(c), b = new_track(c);

	(void)state;
	assert_int_equal(deferred_track_move(a, 4), 4);
	assert_int_equal(deferred_track_move(a, 100), 6);
	assert_int_equal(deferred_track_move(a, 100), 0);
	assert_int_equal(deferred_track_move(b, INT64_MAX), 10);
	assert_int_equal(deferred_track_move(b, 3), 3);
	assert_int_equal(deferred_track_move(a, 10), 10);
	assert_int_equal(deferred_track_position(a) - deferred_track_position(b), 7);
	deferred_coordinator_free(c);
}

static void a_track_alone_is_held_up_by_nobody(void **state)
{
	struct deferred_coordinator *c = new_coordinator(1);
	struct deferred_track a = new_track(c);

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(deferred_track_move(a, 5), 1);
	assert_int_equal(deferred_track_position(a), 1000);
	deferred_coordinator_free(c);
}

static void destroying_a_track_releases_the_others(void **state)
{
	struct deferred_coordinator *c = new_coordinator(5);
	struct deferred_track a = new_track(c), b = new_track(c), slow = new_track(c);

	(void)state;
	assert_int_equal(deferred_track_move(a, 5), 5);
	assert_int_equal(deferred_track_move(b, 5), 5);
	assert_int_equal(deferred_track_move(slow, 2), 2);
	assert_int_equal(deferred_track_move(a, 1), 0);
	assert_int_equal(deferred_track_destroy(slow), 0);
	assert_int_equal(deferred_track_move(a, 1), 0); /* to look whether it goes on, once */
	assert_int_equal(deferred_track_move(a, 1), 1);
	assert_int_equal(deferred_track_move_wait(b, 1, -1), 0);
	assert_int_equal(deferred_track_move_wait(b, 1, -1), 1);
	/* One that had made its steps held nobody up, and its going must not count twice. */
	assert_int_equal(deferred_track_move(b, 4), 4);
	assert_int_equal(deferred_track_destroy(b), 0);
	assert_int_equal(deferred_track_move(a, 10), 4);
	assert_int_equal(deferred_track_move(a, 10), 5);
	/* Nor is one that ended told of for longer than the round that this began. */
	b = new_track(c);
	assert_int_equal(deferred_track_move(b, 10), 5);
	assert_int_equal(deferred_track_move(a, 10), 5);
	deferred_coordinator_free(c);
}

static void a_destroyed_track_is_an_error_wherever_it_is_used(void **state)
{
	struct deferred_coordinator *c = new_coordinator(5);
	struct deferred_track a = new_track(c), copy = a, b, none = { NULL, 0 };

	(void)state;
	assert_int_equal(deferred_track_move(a, 2), 2);
	assert_int_equal(deferred_track_destroy(a), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(deferred_track_move(copy, 1), DEFERRED_ENOTFOUND);
		assert_int_equal(deferred_track_move_wait(copy, 1, 1000), DEFERRED_ENOTFOUND);
		assert_int_equal(deferred_track_position(copy), DEFERRED_ENOTFOUND);
		assert_int_equal(deferred_track_destroy(copy), DEFERRED_ENOTFOUND);
		/* The second time with another track in its place. */
		b = new_track(c);
		assert_ptr_equal(b.place, a.place);
		assert_int_equal(deferred_track_move(b, 1), 1);
		assert_int_equal(deferred_track_destroy(a), DEFERRED_ENOTFOUND);
		assert_int_equal(deferred_track_move(b, 1), 1);
		assert_int_equal(deferred_track_destroy(b), 0);
	}
	assert_int_equal(deferred_track_move(none, 1), DEFERRED_ENOTFOUND);
	assert_int_equal(deferred_track_position(none), DEFERRED_ENOTFOUND);
	assert_int_equal(deferred_track_destroy(none), DEFERRED_ENOTFOUND);
	deferred_coordinator_free(c);
}

static void who_comes_late_starts_in_the_round_under_way(void **state)
{
	struct deferred_coordinator *c = new_coordinator(10);
	struct deferred_track a = new_track(c), late;

	(void)state;
	assert_int_equal(deferred_track_move(a, 10), 10);
	assert_int_equal(deferred_track_move(a, 10), 10);
	assert_int_equal(deferred_track_move(a, 7), 7); /* at 27, in the round from 20 to 30 */
	late = new_track(c);
	assert_int_equal(deferred_track_position(late), 20);
	assert_int_equal(deferred_track_move(a, 10), 3);
	assert_int_equal(deferred_track_move(a, 10), 0);
	assert_int_equal(deferred_track_move(late, 20), 10);
	assert_int_equal(deferred_track_move(late, 20), 10);
	assert_int_equal(deferred_track_position(late) - deferred_track_position(a), 10);
	deferred_coordinator_free(c);
}

static void nonsense_is_refused(void **state)
{
	struct deferred_coordinator *c = NULL;
	struct deferred_error err;
	struct deferred_track a;

	(void)state;
	memset(&err, 'x', sizeof(err)); /* it need not be initialised */
	assert_int_equal(deferred_coordinator_new(&c, 0, &err), DEFERRED_EINVAL);
	assert_int_equal(err.code, DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "range 0 is not from 1"));
	assert_int_equal(deferred_coordinator_new(&c, -5, NULL), DEFERRED_EINVAL);
	assert_int_equal(deferred_coordinator_new(&c, INT64_C(1) + DEFERRED_RANGE_MAX, NULL), DEFERRED_EINVAL);
	assert_null(c);
	memset(&err, 'x', sizeof(err));
	assert_int_equal(deferred_track_create(NULL, &a, &err), DEFERRED_EINVAL);
	assert_int_equal(err.code, DEFERRED_EINVAL);
	c = new_coordinator(DEFERRED_RANGE_MAX);
	assert_int_equal(deferred_track_create(c, NULL, NULL), DEFERRED_EINVAL);
	a = new_track(c);
	assert_int_equal(deferred_track_move(a, 0), DEFERRED_EINVAL);
	assert_int_equal(deferred_track_move(a, -1), DEFERRED_EINVAL);
	assert_int_equal(deferred_track_move(a, INT64_MIN), DEFERRED_EINVAL);
	assert_int_equal(deferred_track_move(a, INT64_MAX), DEFERRED_RANGE_MAX);
	assert_int_equal(deferred_track_move(a, INT64_MAX), DEFERRED_RANGE_MAX);
	assert_int_equal(deferred_track_position(a), 2 * INT64_C(2147483647));
	deferred_coordinator_free(c);
	deferred_coordinator_free(NULL);
}

/* ---- waiting --------------------------------------------------------------------------------------- */

static void waiting_ends_in_time(void **state)
{
	struct deferred_coordinator *c = new_coordinator(1);
	struct deferred_track a = new_track(c), b = new_track(c);
	int64_t began;

	(void)state;
	assert_int_equal(deferred_track_move_wait(a, 1, 0), 1);
	assert_int_equal(deferred_track_move_wait(a, 1, 0), DEFERRED_ETIMEOUT);
	began = now_ms();
	assert_int_equal(deferred_track_move_wait(a, 1, 50), DEFERRED_ETIMEOUT);
	assert_true(now_ms() - began >= 49);
	assert_int_equal(deferred_track_move(b, 1), 1);
	assert_int_equal(deferred_track_move_wait(a, 1, INT64_MAX), 1);
	deferred_coordinator_free(c);
}

struct waiter {
	struct deferred_track track;
	_Atomic int64_t got;
};

static void *wait_for_a_step(void *data)
{
	struct waiter *w = data;

	w->got = deferred_track_move_wait(w->track, 1, -1);
	return NULL;
}

static void a_waiting_thread_is_woken(void **state)
{
	struct deferred_coordinator *c = new_coordinator(1);
	struct deferred_track b = new_track(c);
	struct waiter w = { new_track(c), 0 };
	pthread_t thread;

	(void)state;
	/* by a step of the other; by the other's end; by the end of its own track */
	for (int how = 0; how < 3; how++) {
		assert_int_equal(deferred_track_move(w.track, 1), 1);
		w.got = 0;
		assert_int_equal(pthread_create(&thread, NULL, wait_for_a_step, &w), 0);
		sleep_ms(20);
		assert_int_equal(w.got, 0);
		if (how == 0) {
			assert_int_equal(deferred_track_move(b, 1), 1);
		} else if (how == 1) {
			assert_int_equal(deferred_track_destroy(b), 0);
		} else {
			assert_int_equal(deferred_track_destroy(w.track), 0);
		}
		pthread_join(thread, NULL);
		assert_int_equal(w.got, how == 2 ? DEFERRED_ENOTFOUND : how == 1 ? 0 : 1);
		if (how == 0)
			assert_int_equal(deferred_track_move(b, 1), 1); /* level again, and in a new round */
		else if (how == 1)
			b = new_track(c);
	}
	deferred_coordinator_free(c);
}

static void a_thread_cancelled_while_it_waits_leaves_no_lock_behind(void **state)
{
	struct deferred_coordinator *c = new_coordinator(1);
	struct deferred_track b = new_track(c);
	struct waiter w = { new_track(c), 0 };
	pthread_t thread;

	(void)state;
	assert_int_equal(deferred_track_move(w.track, 1), 1);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_a_step, &w), 0);
	sleep_ms(20);
	assert_int_equal(pthread_cancel(thread), 0);
	pthread_join(thread, NULL);
	assert_int_equal(deferred_track_move(b, 1), 1);
	assert_int_equal(deferred_track_move(b, 1), 1);
	assert_int_equal(deferred_track_move(b, 1), 0);
	assert_int_equal(deferred_track_destroy(w.track), 0);
	assert_int_equal(deferred_track_move(b, 1), 0);
	assert_int_equal(deferred_track_move(b, 1), 1);
	deferred_coordinator_free(c);
}

/* ---- races ----------------------------------------------------------------------------------------- */

/*
 * A walker's own count stands still while it looks at the others', so what it then sees is one moment, and the
 * bound has to hold exactly: `made` is raised after a step was granted, never ahead of it, so another's may
 * be too low in that moment, but never too high. Each looks at those ahead of it, so both directions are seen.
 */
struct race {
	struct deferred_coordinator *c;
	int64_t range, batch;
	int walkers;
	bool by_polling;
	atomic_bool stop;
	atomic_int broken;
	_Atomic int64_t greatest, looks;
	struct walker {
		struct race *race;
		int number;
		struct deferred_track track;
		_Alignas(64) _Atomic int64_t made;
		_Atomic int64_t ended_with;
		atomic_bool dead;
		pthread_t thread;
	} walker[THREADS];
};

static void look_at_others(struct race *r, struct walker *w)
{
	int64_t own = w->made;

	for (int i = 0; i < r->walkers; i++) {
		int64_t ahead;

		if (r->walker[i].dead)
			continue;
		ahead = r->walker[i].made - own;
		r->looks++;
		if (ahead > r->range)
			r->broken++;
		if (ahead > r->greatest)
			r->greatest = ahead;
	}
}

static void *walk(void *data)
{
	struct walker *w = data;
	struct race *r = w->race;

	while (!r->stop) {
		int64_t n = r->by_polling ? deferred_track_move(w->track, r->batch)
					  : deferred_track_move_wait(w->track, r->batch, 20);

		if (n > 0)
			w->made += n;
		if (n < 0 && n != DEFERRED_ETIMEOUT) {
			w->ended_with = n;
			w->dead = true;
			break;
		}
		if (n > 0 && (r->walkers <= 8 || w->made % 7 == 0))
			look_at_others(r, w);
		if (n == 0)
			sched_yield();
	}
	return NULL;
}

static struct race *start_race(int walkers, int64_t range, int64_t batch, bool by_polling)
{
	struct race *r = aligned_alloc(64, sizeof(*r));

	assert_non_null(r);
	memset(r, 0, sizeof(*r));
	r->c = new_coordinator(range);
	r->range = range;
	r->batch = batch;
	r->walkers = walkers;
	r->by_polling = by_polling;
	for (int i = 0; i < walkers; i++) {
		r->walker[i].race = r;
		r->walker[i].number = i;
		r->walker[i].track = new_track(r->c);
	}
	for (int i = 0; i < walkers; i++)
		assert_int_equal(pthread_create(&r->walker[i].thread, NULL, walk, &r->walker[i]), 0);
	return r;
}

static void end_race(struct race *r)
{
	int64_t least = INT64_MAX, most = 0;

	r->stop = true;
	for (int i = 0; i < r->walkers; i++)
		pthread_join(r->walker[i].thread, NULL);
	for (int i = 0; i < r->walkers; i++) {
		struct walker *w = &r->walker[i];

		if (w->dead)
			continue;
		assert_int_equal(w->made, deferred_track_position(w->track));
		least = w->made < least ? w->made : least;
		most = w->made > most ? w->made : most;
	}
	print_message("# %d walkers, range %lld, %lld at once: %lld to %lld steps each, greatest difference seen %lld "
		      "in %lld looks\n",
		      r->walkers, (long long)r->range, (long long)r->batch, (long long)least, (long long)most,
		      (long long)r->greatest, (long long)r->looks);
	assert_int_equal(r->broken, 0);
	assert_true(most - least <= r->range);
	assert_true(least > r->range); /* they did go on, round after round */
	assert_true(r->looks > 0);
	deferred_coordinator_free(r->c);
	free(r);
}

/* A look from outside: what did not change between two readings was so when the other was read. */
static void two_walkers_race(int64_t batch, bool by_polling)
{
	struct race *r = start_race(2, 10, batch, by_polling);
	struct deferred_track a = r->walker[0].track, b = r->walker[1].track;
	int64_t began = now_ms(), samples = 0;

	while (now_ms() - began < 100) {
		int64_t before = deferred_track_position(a), other = deferred_track_position(b),
			after = deferred_track_position(a);

		if (before != after)
			continue;
		samples++;
		assert_true(llabs(before - other) <= 10);
	}
	assert_true(samples > 0);
	end_race(r);
}

static void two_walkers_racing_for_100_ms_differ_by_at_most_10(void **state)
{
	(void)state;
	two_walkers_race(1, false);
}

static void the_same_when_they_poll(void **state)
{
	(void)state;
	two_walkers_race(1, true);
}

static void the_same_with_steps_in_batches(void **state)
{
	(void)state;
	two_walkers_race(7, false);
}

static int64_t steps_of_all(struct race *r)
{
	int64_t sum = 0;

	for (int i = 0; i < r->walkers; i++)
		sum += r->walker[i].made;
	return sum;
}

static void of_64_walkers_one_is_killed_and_the_others_go_on(void **state)
{
	struct race *r = start_race(THREADS, 10, 1, false);
	struct walker *victim = &r->walker[17];
	int64_t before;

	(void)state;
	sleep_ms(100);
	/* Its thread dies in the middle of waiting or walking; its track stays, and the others come to a stop. */
	assert_int_equal(pthread_cancel(victim->thread), 0);
	pthread_join(victim->thread, NULL);
	do {
		before = steps_of_all(r);
		sleep_ms(100);
	} while (steps_of_all(r) != before);
	for (int i = 0; i < THREADS; i++)
		assert_true(llabs(deferred_track_position(r->walker[i].track) -
				  deferred_track_position(victim->track)) <= 10);
	victim->dead = true;
	assert_int_equal(deferred_track_destroy(victim->track), 0);
	sleep_ms(100);
	assert_true(steps_of_all(r) > before);
	assert_int_equal(deferred_track_move(victim->track, 1), DEFERRED_ENOTFOUND);
	/* So that the end can join it like the others. */
	assert_int_equal(pthread_create(&victim->thread, NULL, walk, victim), 0);
	sleep_ms(50);
	end_race(r);
}

static void a_track_destroyed_under_its_walker_ends_that_walker(void **state)
{
	struct race *r = start_race(THREADS, 10, 3, false);

	(void)state;
	sleep_ms(50);
	for (int i = 0; i < THREADS; i += 9) {
		assert_int_equal(deferred_track_destroy(r->walker[i].track), 0);
		pthread_join(r->walker[i].thread, NULL);
		assert_int_equal(r->walker[i].ended_with, DEFERRED_ENOTFOUND);
		assert_int_equal(pthread_create(&r->walker[i].thread, NULL, walk, &r->walker[i]), 0);
	}
	sleep_ms(50);
	end_race(r);
}

static void threads_that_share_a_track_make_its_steps_together(void **state)
{
	struct deferred_coordinator *c = new_coordinator(10);
	struct race *r = aligned_alloc(64, sizeof(*r));
	int64_t sum[2] = { 0, 0 };
	struct deferred_track track[2] = { new_track(c), new_track(c) };

	(void)state;
	assert_non_null(r);
	memset(r, 0, sizeof(*r));
	r->batch = 3;
	for (int i = 0; i < 8; i++) {
		r->walker[i].race = r;
		r->walker[i].track = track[i % 2];
		assert_int_equal(pthread_create(&r->walker[i].thread, NULL, walk, &r->walker[i]), 0);
	}
	sleep_ms(100);
	r->stop = true;
	for (int i = 0; i < 8; i++) {
		pthread_join(r->walker[i].thread, NULL);
		sum[i % 2] += r->walker[i].made;
	}
	/* No step was granted twice, none got lost. */
	assert_int_equal(sum[0], deferred_track_position(track[0]));
	assert_int_equal(sum[1], deferred_track_position(track[1]));
	assert_true(sum[0] > 100 && llabs(sum[0] - sum[1]) <= 10);
	deferred_coordinator_free(c);
	free(r);
}

struct churn {
	struct deferred_coordinator *c;
	atomic_bool *stop;
	struct deferred_track fixed; /* of a walker that is there all the time */
	int64_t range, lives;
	int broken;
	pthread_t thread;
};

static void *come_and_go(void *data)
{
	struct churn *ch = data;

	while (!*ch->stop) {
		struct deferred_track t;

		if (deferred_track_create(ch->c, &t, NULL) < 0)
			break;
		for (int i = 0; i < 25; i++) {
			int64_t own, other, got;

			do
				got = deferred_track_move_wait(t, 1, 1000);
			while (got == 0);
			if (got != 1)
				ch->broken++;
			own = deferred_track_position(t);
			other = deferred_track_position(ch->fixed);
			if (other >= 0 && llabs(own - other) > ch->range)
				ch->broken++; /* other < 0: it was destroyed, the test is about to end */
		}
		if (deferred_track_destroy(t) < 0 || deferred_track_move(t, 1) != DEFERRED_ENOTFOUND ||
		    deferred_track_position(t) >= 0)
			ch->broken++;
		ch->lives++;
	}
	return NULL;
}

static void tracks_that_come_and_go_keep_the_bound_and_do_not_stop_the_rest(void **state)
{
	struct race *r = start_race(2, 10, 1, false);
	struct churn ch[4];
	int64_t before;

	(void)state;
	for (int i = 0; i < 4; i++) {
		ch[i] = (struct churn){ r->c, &r->stop, r->walker[i % 2].track, 10, 0, 0, 0 };
		assert_int_equal(pthread_create(&ch[i].thread, NULL, come_and_go, &ch[i]), 0);
	}
	before = steps_of_all(r);
	sleep_ms(200);
	assert_true(steps_of_all(r) > before);
	r->stop = true;
	/* The walkers end first, and would hold up those who come and go. */
	for (int i = 0; i < 2; i++)
		pthread_join(r->walker[i].thread, NULL);
	for (int i = 0; i < 2; i++) {
		r->walker[i].dead = true;
		assert_int_equal(deferred_track_destroy(r->walker[i].track), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(ch[i].thread, NULL);
		assert_true(ch[i].lives > 0);
		assert_int_equal(ch[i].broken, 0);
	}
	assert_int_equal(r->broken, 0);
	deferred_coordinator_free(r->c);
	free(r);
}

/*
 * Two walkers that ask a flag before each step and destroy their tracks when it has fallen: what they made is compared
 * afterwards, and they are not. One of them often waits for the other while that one sees the flag and goes.
 */
#define RUNS 2000

struct relay {
	pthread_barrier_t begin, end;
	struct deferred_coordinator *c;
	atomic_bool stop, by_polling;
	struct runner {
		struct relay *relay;
		struct deferred_track track;
		_Alignas(64) _Atomic int64_t made;
		pthread_t thread;
	} runner[2];
};

static void *run_until_the_flag_falls(void *data)
{
	struct runner *me = data;
	struct relay *r = me->relay;

	for (int run = 0; run < RUNS; run++) {
		pthread_barrier_wait(&r->begin);
		while (!r->stop) {
			int64_t n = r->by_polling ? deferred_track_move(me->track, 1)
						  : deferred_track_move_wait(me->track, 1, -1);

			if (n > 0)
				me->made += n;
			else if (r->by_polling)
				sched_yield();
		}
		if (deferred_track_destroy(me->track) < 0)
			me->made = INT64_MIN;
		pthread_barrier_wait(&r->end);
	}
	return NULL;
}

static void walkers_that_stop_at_a_flag_are_within_the_range_afterwards(void **state)
{
	struct relay *r = aligned_alloc(64, sizeof(*r));
	int64_t most = 0;

	(void)state;
	assert_non_null(r);
	memset(r, 0, sizeof(*r));
	r->c = new_coordinator(10);
	pthread_barrier_init(&r->begin, NULL, 3);
	pthread_barrier_init(&r->end, NULL, 3);
	for (int i = 0; i < 2; i++) {
		r->runner[i].relay = r;
		assert_int_equal(pthread_create(&r->runner[i].thread, NULL, run_until_the_flag_falls, &r->runner[i]),
				 0);
	}
	for (int run = 0; run < RUNS; run++) {
		int64_t difference;

		r->stop = false;
		r->by_polling = run % 2;
		for (int i = 0; i < 2; i++) {
			r->runner[i].made = 0;
			r->runner[i].track = new_track(r->c);
		}
		pthread_barrier_wait(&r->begin);
		while (r->runner[run / 2 % 2].made < run % 50)
			sched_yield();
		r->stop = true;
		pthread_barrier_wait(&r->end);
		difference = llabs(r->runner[0].made - r->runner[1].made);
		most = difference > most ? difference : most;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(r->runner[i].thread, NULL);
	print_message("# greatest difference after %d runs: %lld\n", RUNS, (long long)most);
	assert_true(most <= 10);
	deferred_coordinator_free(r->c);
	pthread_barrier_destroy(&r->begin);
	pthread_barrier_destroy(&r->end);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_track_that_made_its_range_waits_for_the_other),
		cmocka_unit_test(steps_are_granted_in_batches_up_to_what_is_left_of_the_round),
		cmocka_unit_test(a_track_alone_is_held_up_by_nobody),
		cmocka_unit_test(destroying_a_track_releases_the_others),
		cmocka_unit_test(a_destroyed_track_is_an_error_wherever_it_is_used),
		cmocka_unit_test(who_comes_late_starts_in_the_round_under_way),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(waiting_ends_in_time),
		cmocka_unit_test(a_waiting_thread_is_woken),
		cmocka_unit_test(a_thread_cancelled_while_it_waits_leaves_no_lock_behind),
		cmocka_unit_test(two_walkers_racing_for_100_ms_differ_by_at_most_10),
		cmocka_unit_test(the_same_when_they_poll),
		cmocka_unit_test(the_same_with_steps_in_batches),
		cmocka_unit_test(of_64_walkers_one_is_killed_and_the_others_go_on),
		cmocka_unit_test(a_track_destroyed_under_its_walker_ends_that_walker),
		cmocka_unit_test(threads_that_share_a_track_make_its_steps_together),
		cmocka_unit_test(tracks_that_come_and_go_keep_the_bound_and_do_not_stop_the_rest),
		cmocka_unit_test(walkers_that_stop_at_a_flag_are_within_the_range_afterwards),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("coordinator", tests, NULL, NULL);
}
