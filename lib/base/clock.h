/* SPDX-License-Identifier: MIT */
/* clock - the boot-time clock: goes on while the host sleeps, is the same in all processes, never jumps. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline int64_t clock_ms(void)
{
	return (int64_t)(clock_ns() / NS_PER_MS);
}

/* The time in ms from now, for pthread_cond_clockwait() with CLOCK_MONOTONIC. */
static inline struct timespec clock_deadline(int64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += ms % 1000 * (int64_t)NS_PER_MS;
	ts.tv_sec += ms / 1000 + ts.tv_nsec / (int64_t)NS_PER_S;
	ts.tv_nsec %= (int64_t)NS_PER_S;
	return ts;
}

#endif
