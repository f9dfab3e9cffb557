/* SPDX-License-Identifier: MIT */
/* scale - how many runners there are, where the setting "runners" is a range. */
#ifndef SCALE_H
#define SCALE_H

#include "port/config.h"
#include "run/pool/pool.h"
#include "store/cycle/cycle.h"

struct scale {
	size_t min, max;      /* equal: the number is fixed */
	size_t runners;       /* now; 0: the number is fixed */
	uint64_t idle_ns;     /* fewer runners must have been enough for this long */
	size_t processors;    /* we may use */
	uint64_t tick_ns;     /* the next decision to grow */
	int ticks;            /* since the last step, and since all runners were there */
	uint64_t window_ns;   /* busy_max counts since then */
	size_t busy_max;      /* the most runners that were busy at the same time */
	size_t waiting;       /* ready jobs that the last claim left */
	double runner_share;  /* of a processor that a runner wants; < 0: not known */
	double attempt_share; /* of a processor that an attempt got; < 0: not known */
	double cpu_demand;    /* the larger of both */
	bool full_logged;
};

/* With a fixed number of runners these do nothing. */
void scale_set_up(struct scale *scale, struct pool *pool, const struct config *config);
void scale_run(struct scale *scale, struct pool *pool, bool stopping, uint64_t now); /* at each turn: grow, shrink */
void scale_attempt(struct scale *scale, const struct attempt *attempt);              /* one has ended */
/* A cycle has ended. asked: jobs that its claim was for, without limited ones. */
void scale_after_claim(struct scale *scale, const struct store_cycle *cycle, size_t asked);
/* Free runners, and those that would be added. */
size_t scale_room(const struct scale *scale, const struct pool *pool);
uint64_t scale_due_ns(const struct scale *scale, const struct pool *pool);

#endif
