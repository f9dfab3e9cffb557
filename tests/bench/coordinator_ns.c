/* SPDX-License-Identifier: MIT */
/*
 * coordinator_ns [STEPS]
 *
 * Prints what deferred_track_move() costs, in nanoseconds a step: by one thread alone, by two threads each on
 * a track of its own, and beside it an atomic addition and a mutex taken and given back, measured in the same run.
 */
#include "deferred_coordinator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long steps = 1000000;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *walk(void *data)
{
	const struct deferred_track *track = data;

	for (long long made = 0; made < steps;) {
		int64_t got = deferred_track_move_wait(*track, 1, -1);

		if (got < 0)
			abort();
		made += got;
	}
	deferred_track_destroy(*track);
	return NULL;
}

static double walkers(int n, int64_t range)
{
	struct deferred_coordinator *c;
	struct deferred_track track[2];
	pthread_t thread[2];
	double began;

	if (deferred_coordinator_new(&c, range, NULL) < 0)
		abort();
	for (int i = 0; i < n; i++)
		if (deferred_track_create(c, &track[i], NULL) < 0)
			abort();
	began = now_ns();
	for (int i = 0; i < n; i++)
		pthread_create(&thread[i], NULL, walk, &track[i]);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	began = now_ns() - began;
	deferred_coordinator_free(c);
	return began / (double)steps;
}

static double additions(void)
{
	static _Atomic long long sum;
	double began = now_ns();

	for (long long i = 0; i < steps; i++)
		atomic_fetch_add(&sum, 1);
	return (now_ns() - began) / (double)steps;
}

static double mutex(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static volatile long long sum;
	double began = now_ns();

	for (long long i = 0; i < steps; i++) {
		pthread_mutex_lock(&lock);
		sum = sum + 1;
		pthread_mutex_unlock(&lock);
	}
	return (now_ns() - began) / (double)steps;
}

int main(int argc, char **argv)
{
	static const int64_t ranges[] = { 10, 100, 1000, 100000, DEFERRED_RANGE_MAX };

	if (argc > 1)
		steps = atoll(argv[1]);
	if (steps < 1) {
		fprintf(stderr, "usage: coordinator_ns [STEPS]\n");
		return 64;
	}
	printf("%-44s %8.1f ns\n", "an atomic addition, one thread", additions());
	printf("%-44s %8.1f ns\n", "a mutex, nobody else wants it", mutex());
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		char what[64];

		snprintf(what, sizeof(what), "move, range %lld, one track", (long long)ranges[i]);
		printf("%-44s %8.1f ns\n", what, walkers(1, ranges[i]));
		snprintf(what, sizeof(what), "move, range %lld, two tracks, each", (long long)ranges[i]);
		printf("%-44s %8.1f ns\n", what, walkers(2, ranges[i]));
	}
	return 0;
}
