/* SPDX-License-Identifier: MIT */
#include "base/retry.h"

#include "base/backoff.h"
#include "base/span.h"

static int64_t retry_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t retry_delay_ms(const struct retry_policy *policy, int failures)
{
	int64_t ceiling_ms = retry_least(policy->ceiling_ms, SPAN_MAX_MS);
	double delay = (double)retry_least(policy->floor_ms, SPAN_MAX_MS);

	if (policy->exponent > 1)
		for (int i = 1; i < failures && delay < (double)ceiling_ms; i++)
			delay = backoff_grow(delay, policy->exponent, ceiling_ms);
	return backoff_round_ms(delay, ceiling_ms);
}

int64_t retry_jitter_ms(int64_t delay_ms, uint64_t random)
{
	int64_t fifth = delay_ms / 5;
	int64_t delay = delay_ms - (fifth > 0 ? (int64_t)(random % (uint64_t)(fifth + 1)) : 0);

	return delay > 0 ? delay : 1;
}
