/* SPDX-License-Identifier: MIT */
/*
 * retry - when a failed job is due again: arithmetic, no I/O.
 *
 * The wait after the n-th failure is floor * exponent^(n-1), at most ceiling. The last fifth of it is random, so that
 * jobs which failed together do not return together.
 */
#ifndef RETRY_H
#define RETRY_H

#include <stdint.h>

struct retry_policy {
	int64_t floor_ms, ceiling_ms; /* > 0 */
	double exponent;              /* >= 1 */
};

/* Delay after failure number `failures` (from 1), before the random part. */
int64_t retry_delay_ms(const struct retry_policy *policy, int failures);

/* The same with its random part taken from `random`, any 64 bits: 80 to 100 % of the delay, >= 1. */
int64_t retry_jitter_ms(int64_t delay_ms, uint64_t random);

#endif
