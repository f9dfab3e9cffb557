/* SPDX-License-Identifier: MIT */
/* balance - workers of a group make equally many attempts. */
#ifndef BALANCE_H
#define BALANCE_H

#include "deferred.h"
#include "port/config.h"
#include "store/cycle/cycle.h"

/* All zero: the worker is in no group. */
struct balance {
	bool on;
	char group[64];
	int64_t range;
	bool live;                 /* in the group, as the server last said: others wait for us */
	bool idle;                 /* the last claim found nothing ready */
	int64_t round, steps;      /* the round last granted, and its steps */
	int64_t base;              /* balance_in.charged when that round began */
	uint64_t sent_ns, next_ns; /* the last report; while waiting, the next one */
	struct deferred_backoff backoff;
};

struct balance_in {
	int64_t worker, lease_ms;
	bool wanted;       /* the worker has use for jobs, as far as it knows itself */
	int64_t charged;   /* attempts made, or to be made with jobs in hand */
	int64_t not_begun; /* of these jobs, those that may still be given back */
};

int balance_begin(struct balance *balance, struct pg *pg, const struct config *config, const struct balance_in *in,
		  struct deferred_error *err);
int64_t balance_left(const struct balance *balance, int64_t charged); /* jobs that may be claimed now */
/* The next report is due then. UINT64_MAX: there is nothing to report. */
uint64_t balance_due_ns(const struct balance *balance, const struct balance_in *in);
int balance_add(const struct balance *balance, struct store_cycle *cycle, const struct balance_in *in,
		struct deferred_error *err); /* a report, to the cycle being made */
/* Before the jobs that the same cycle claimed are charged. */
void balance_after_report(struct balance *balance, const struct store_track *answer, uint64_t sent_ns,
			  const struct balance_in *in);
void balance_after_claim(struct balance *balance, bool got_some, bool idle);

#endif
