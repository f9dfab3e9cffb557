/* SPDX-License-Identifier: MIT */
/*
 * verdict - what becomes of a job after an attempt: whether it is over, whether the attempt counts, when the job is due
 * again. Pure.
 */
#ifndef VERDICT_H
#define VERDICT_H

#include "base/attempt.h"
#include "base/retry.h"

#include <stdbool.h>
#include <stdint.h>

#define VERDICT_SNOOZE_MIN_MS 1000

struct verdict_in {
	bool stopping;                 /* the worker was asked to stop, */
	enum job_outcome stop_outcome; /* and what it cuts off is called so */
	bool fenced;                   /* its leases are about to end, or have ended */
	int max_attempts;              /* of a job that does not say */
	struct retry_policy backoff;   /* the same */
};

/* Sets `counts`, `final` and `delay_ms` of an attempt that has ended. Sets its outcome, where it ended because it was
 * asked to. *random is the state of a generator, see base/random.h. */
void verdict(struct attempt *attempt, const struct verdict_in *in, uint64_t *random);

#endif
