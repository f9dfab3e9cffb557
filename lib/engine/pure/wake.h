/* SPDX-License-Identifier: MIT */
/*
 * wake - what wakes a service that is asleep: the polling interval and, with the setting "listen", notifications. Pure:
 * it takes the answers of the server and returns what to send next.
 *
 * A service is asleep while its plan says that nothing is ready. The states are in enum wake_state, and the table of
 * steps is at the head of wake.c. An event sets the time of a step. Sending or answering that step clears the time. So
 * no event can make a service repeat a step without end. A failed step is not lost: the plan claims again after it.
 */
#ifndef WAKE_H
#define WAKE_H

#include "base/ids.h"
#include "deferred.h"
#include "plan.h"

enum wake_state {
	WAKE_OFF,   /* this connection is not notified */
	WAKE_AWAKE, /* other sessions defer jobs without notifying us */
	WAKE_ARMED, /* other sessions notify us: we hold the locks of sql/functions/worker/__waits.sql */
};

enum wake_step {
	WAKE_NOTHING,
	WAKE_CLAIM,  /* a claim, because of a notification */
	WAKE_PEEK,   /* the same, by a look without a claim */
	WAKE_ARM,    /* the locks, then a claim */
	WAKE_LOOK,   /* have the transactions ended that were open when the locks were taken? */
	WAKE_DISARM, /* the locks are released; with a claim, or without */
	WAKE_STEPS,
};

struct wake {
	enum wake_state state;
	uint64_t at[WAKE_STEPS]; /* the step is due then; UINT64_MAX: it is not */
	bool woken;              /* the next claim to end is the first one after a notification */
	int useless;             /* notifications in a row that brought nothing */
	int rank;                /* among the workers that wait for the same queues */
	struct deferred_backoff arm, look;
	struct store_ids open; /* transactions that may have deferred a job without notifying us; sorted */
};

void wake_on(struct wake *k, const struct deferred_backoff *interval); /* the connection is notified from now on */
void wake_off(struct wake *k);                                         /* the connection is lost */

bool wake_asleep(const struct plan *plan, bool stopping);
/* The step that is due, before a claim is considered. It changes the plan accordingly. poll_ns: end of the interval. */
enum wake_step wake_next(struct wake *k, struct plan *plan, bool stopping, uint64_t poll_ns, uint64_t now);
uint64_t wake_deadline(const struct wake *k, bool asleep); /* when a step is due; UINT64_MAX: never */

void wake_notified(struct wake *k, uint64_t now); /* a job is said to be ready in a queue that we serve */

void wake_sent(struct wake *k, enum wake_step step); /* the step is being sent; a claim for any reason is WAKE_CLAIM */
void wake_answered_arm(struct wake *k, bool armed, int rank, struct store_ids *open, uint64_t now); /* takes `open` */
void wake_answered_look(struct wake *k, struct plan *plan, const struct store_ids *open, uint64_t now);
void wake_answered_peek(struct wake *k, struct plan *plan, bool work);
void wake_answered_claim(struct wake *k, bool got_some);
void wake_rearm(struct wake *k); /* the queues served may be others: take the locks again */

#endif
