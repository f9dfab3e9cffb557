/* SPDX-License-Identifier: MIT */
/*
 * due - everything that a worker does at some time, in one table. The worker sends and sleeps by this table, so it
 * never sleeps past something that it would send. Pure.
 */
#ifndef DUE_H
#define DUE_H

#include <stdbool.h>
#include <stdint.h>

enum due_reason {
	DUE_FENCE,   /* leases end: functions that run under them are killed */
	DUE_STOP,    /* the grace ends: functions that still run are killed */
	DUE_STUCK,   /* a runner is at one job for long: its other jobs go to other runners */
	DUE_RETRY,   /* connect, or send again what failed */
	DUE_CONNECT, /* see how a connection comes on, or whether to give up */
	DUE_SILENT,  /* the server has not answered: the connection counts as lost */
	DUE_SCALE,   /* more runners, or fewer */
	DUE_ALIVE,   /* report to the supervisor */
	DUE_TICK,
	DUE_WATCH,
	/* and what a round trip is for */
	DUE_RENEW,
	DUE_RECORD,
	DUE_OUTCOMES,
	DUE_PARENTS,
	DUE_STEP,
	DUE_SET_ASIDE,
	DUE_RETURN,
	DUE_BALANCE,
	DUE_CLAIM,
	DUE_HOUSEKEEPING,
	DUE_POLL,
	DUE_LISTEN,
	DUE_REASONS
};

struct due {
	uint64_t ns[DUE_REASONS]; /* UINT64_MAX: not at all, or not while nothing can be sent */
};

void due_clear(struct due *due); /* nothing is due */
void due_add(struct due *due, enum due_reason reason, bool holds, uint64_t ns);
bool due_now(const struct due *due, enum due_reason reason, uint64_t now);
uint64_t due_first_ns(const struct due *due);

#endif
