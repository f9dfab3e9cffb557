/* SPDX-License-Identifier: MIT */
/*
 * due - everything that is to be done at some time, in one table: who asks what to send and who asks how long to sleep
 * read the same.
 */
#ifndef DUE_H
#define DUE_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

enum due_reason {
	DUE_FENCE,   /* leases end: what runs under them is killed */
	DUE_STOP,    /* so is what still runs at the end of the grace */
	DUE_STUCK,   /* a runner is at one job for long: the others in its hands go elsewhere */
	DUE_RETRY,   /* connect, or send again what failed */
	DUE_CONNECT, /* see how a connection comes on, or whether to give up */
	DUE_SILENT,  /* the server has not answered: the connection counts as lost */
	DUE_SCALE,   /* more runners, or fewer */
	DUE_ALIVE,   /* tell who supervises us */
	/* and what a cycle is for */
	DUE_RENEW,
	DUE_RECORD,
	DUE_ASK,
	DUE_PARENTS,
	DUE_APART,
	DUE_RETURN,
	DUE_BALANCE,
	DUE_CLAIM,
	DUE_KEEP,
	DUE_LOOK,
	DUE_LISTEN,
	DUE_TICK,
	DUE_WATCH,
	DUE_REASONS
};

struct due {
	uint64_t ns[DUE_REASONS]; /* UINT64_MAX: not at all, or not while nothing can be sent */
	bool leases;              /* some are held */
};

void due_look(struct due *due, const struct worker *w, uint64_t now);
bool due_now(const struct due *due, enum due_reason reason, uint64_t now);
uint64_t due_first_ns(const struct due *due);

#endif
