/* SPDX-License-Identifier: MIT */
/* tick - ticks of schedules that are due become jobs, whatever queues are served here. */
#ifndef TICK_H
#define TICK_H

#include "store/cycle/cycle.h"

struct tick {
	uint64_t ns;       /* the next tick of a schedule; UINT64_MAX: none is known */
	uint64_t due_ns;   /* the same without again_ns */
	uint64_t again_ns; /* not before */
	uint64_t busy_ns;  /* since when there were only ticks, and no jobs; 0: not the case */
	bool shared;       /* again_ns gives jobs their share of the time */
	bool more;         /* more are due: a run waits for them */
	bool waited;       /* a run has waited for one that was due shortly, which it does once */
};

struct tick_in {
	struct pg *pg;
	bool idle;           /* there are no jobs */
	uint64_t started_ns; /* the process started */
};

void tick_set_up(struct tick *tick, bool due); /* due: some schedule has a tick that is */
void tick_learn(struct tick *tick, const struct store_due *due);
/* Returns 1 when ticks became jobs, 0 or DEFERRED_ELOST. */
int tick_run(struct tick *tick, const struct tick_in *in, uint64_t now, struct deferred_error *err);
/* A run has nothing else to do. Returns true if it waits for ticks that are due now or shortly. */
bool tick_wait_at_end(struct tick *tick, uint64_t now);

#endif
