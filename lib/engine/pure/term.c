/* SPDX-License-Identifier: MIT */
#include "engine/pure/term.h"

#include "base/clock.h"

#define RENEW_MAX_NS (5 * NS_PER_S) /* a worker learns with a renewal that a job was cancelled */

uint64_t term_renew_after_ns(int64_t lease_ms)
{
	uint64_t third = (uint64_t)lease_ms * NS_PER_MS / 3;

	return third < RENEW_MAX_NS ? third : RENEW_MAX_NS;
}

uint64_t term_fence_after_ns(int64_t granted_ms)
{
	uint64_t lease_ns = (uint64_t)granted_ms * NS_PER_MS, margin = lease_ns / 10;

	return lease_ns - (margin < NS_PER_S ? margin : NS_PER_S);
}

bool term_is_over(const struct job *job, uint64_t now)
{
	return now >= job->lease_ns + term_fence_after_ns(job->granted_ms);
}
