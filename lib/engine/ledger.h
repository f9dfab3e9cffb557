/* SPDX-License-Identifier: MIT */
/*
 * ledger - the jobs that are ours to answer for and not with the runners, each in one state: those that have left them,
 * until the database has what became of it, and those that wait to be told of the jobs they waited for.
 *
 *     ENDED ----> RECORDING --> (recorded)       RETURNED ----> RETURNING --> (given back)
 *       ^  \       |  |   \                          ^             |
 *       |   \------+  |    REFUSED --> (settled)     +-------------+  the cycle failed, or its row was locked
 *       |  the cycle  |
 *       |    failed   v
 *       +---------- APART   sent in a cycle of its own, for it may be what made the others fail
 *
 *     CHILD <---> ASKING --> (taken out with the answer, to the runners; or RETURNED)
 *
 * Besides, the leases that may have nothing in hand any more: a lease is given up with the last of its jobs.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include "base/attempt.h"
#include "base/ids.h"

enum ledger_state {
	LEDGER_NONE,      /* not there; from ledger_each(): it leaves, and is freed */
	LEDGER_ENDED,     /* an attempt has ended */
	LEDGER_RECORDING, /* the cycle under way records it */
	LEDGER_APART,     /* its recording failed in company */
	LEDGER_REFUSED,   /* its recording was refused: the next cycle asks why */
	LEDGER_RETURNED,  /* to be given back */
	LEDGER_RETURNING, /* the cycle under way gives it back */
	LEDGER_CHILD,     /* not begun: to be told first how the jobs ended that it waited for */
	LEDGER_ASKING,    /* the cycle under way asks that */
	LEDGER_STATES
};

struct ledger {
	struct job *first, **tail;
	size_t n[LEDGER_STATES];    /* jobs in each state */
	uint64_t ended_ns;          /* since when the oldest ENDED one waits */
	struct store_ids closing;   /* receipts of leases that may have nothing in hand any more */
	struct store_ids closed;    /* those that the cycle under way deletes */
	struct store_ids abandoned; /* of leases with a job whose attempt cannot be recorded: they end by themselves */
};

void ledger_init(struct ledger *ledger);
void ledger_clear(struct ledger *ledger); /* frees what is there */

/* What comes in; the ledger owns it then. */
void ledger_end(struct ledger *ledger, struct attempt *attempt, uint64_t now); /* with its job */
void ledger_return(struct ledger *ledger, struct job *job);
void ledger_child(struct ledger *ledger, struct job *job);

/* What is there. */
size_t ledger_len(const struct ledger *ledger);
struct job **ledger_jobs(const struct ledger *ledger, enum ledger_state state,
			 size_t *n); /* to be freed; NULL: out of memory */
struct attempt **ledger_attempts(const struct ledger *ledger, enum ledger_state state,
				 size_t *n); /* the same, of one with attempts */
uint64_t ledger_due_ns(const struct ledger *ledger,
		       enum ledger_state state); /* APART, RETURNED: when the first may go on; UINT64_MAX: none */

/* Calls fn for each job in a state, in the order in which they came; it returns the state that the job is in from then
 * on. */
typedef enum ledger_state ledger_fn(void *data, struct job *job);
void ledger_each(struct ledger *ledger, enum ledger_state state, ledger_fn *fn, void *data);

/* Those in a state leave, as a list in the order in which they came, which is the caller's. None has ended. */
struct job *ledger_take(struct ledger *ledger, enum ledger_state state);

/* A cycle begins, ... */
void ledger_record(struct ledger *ledger);                     /* all that ended */
void ledger_record_apart(struct ledger *ledger, uint64_t now); /* instead: the first set apart whose time has come */
void ledger_give_back(struct ledger *ledger, uint64_t now);    /* all returned ones whose time has come */
void ledger_ask(struct ledger *ledger);                        /* all children */
/* ... and came to nothing: what it recorded goes on as told, what it gave back is returned, what it asked is to be
 * asked. */
void ledger_undo(struct ledger *ledger, enum ledger_state recording);

/* Leases. Without memory one is not given up: it ends by itself. */
void ledger_left(struct ledger *ledger, int64_t receipt);    /* a job of that lease has left us */
void ledger_abandon(struct ledger *ledger, int64_t receipt); /* the lease is to end by itself */
void ledger_close(struct ledger *ledger,
		  const struct store_ids *held);  /* the cycle deletes those of which nothing is held; sorted */
void ledger_closed(struct ledger *ledger);        /* it did */
void ledger_forget_leases(struct ledger *ledger); /* with the connection: what is left of them ends by itself */

#endif
