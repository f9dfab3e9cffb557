/* SPDX-License-Identifier: MIT */
#include "retry.h"

#include "backoff.h"

int64_t retry_delay_ms(const struct retry_policy *policy, int failures)
{
	double delay = (double)policy->floor_ms;

	if (policy->exponent > 1)
		for (int i = 1; i < failures && delay < (double)policy->ceiling_ms; i++)
			delay = backoff_grow(delay, policy->exponent, policy->ceiling_ms);
	return backoff_round_ms(delay, policy->ceiling_ms);
}

int64_t retry_jitter_ms(int64_t delay_ms, uint64_t random)
{
	int64_t fifth = delay_ms / 5;
	int64_t delay = delay_ms - (fifth > 0 ? (int64_t)(random % (uint64_t)(fifth + 1)) : 0);

	return delay > 0 ? delay : 1;
}
