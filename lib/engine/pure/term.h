/* SPDX-License-Identifier: MIT */
/* term - for how long a lease is good. Pure. */
#ifndef TERM_H
#define TERM_H

#include "base/job.h"

uint64_t term_renew_after_ns(int64_t lease_ms); /* a lease is renewed this long after it was granted */
/* A claim is given up this long after it was granted, a little before the server sees the lease end. */
uint64_t term_fence_after_ns(int64_t granted_ms);
bool term_is_over(const struct job *job, uint64_t now); /* the claim of this job is to be given up */

#endif
