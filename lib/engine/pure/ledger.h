/* SPDX-License-Identifier: MIT */
/*
 * ledger - claimed jobs that are not with the runners, each in one state. A job that has left the runners stays until
 * the database knows its end. A child stays until it knows the ends of the jobs it waited for. Pure.
 *
 *     ENDED ----> RECORDING --> (recorded)       RETURNED ----> RETURNING --> (given back)
 *       ^  \       |  |   \                          ^             |
 *       |   \------+  |    REFUSED --> (settled)     +-------------+  the cycle failed, or its row was locked
 *       |  the cycle  |
 *       |    failed   v
 *       +---------- SET_ASIDE   sent in a cycle of its own, since it may be what made the others fail
 *
 *     CHILD <---> ASKING --> (taken out with the answer, to the runners; or RETURNED)
 *
 * The ledger also has the leases that may have no job in hand any more. A lease is closed with the last of its jobs.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include "base/attempt.h"
#include "base/ids.h"

enum ledger_state {
	LEDGER_NONE,      /* not in the ledger; from ledger_each(): the job leaves, and is freed */
	LEDGER_ENDED,     /* an attempt has ended */
	LEDGER_RECORDING, /* the cycle under way records it */
	LEDGER_SET_ASIDE, /* its recording failed in company */
	LEDGER_REFUSED,   /* its recording was refused: the next cycle asks why */
	LEDGER_RETURNED,  /* to be given back */
	LEDGER_RETURNING, /* the cycle under way gives it back */
	LEDGER_CHILD,     /* not begun: it learns first how the jobs ended that it waited for, and its steps */
	LEDGER_ASKING,    /* the cycle under way asks for that */
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

/* The ledger owns these jobs then. */
void ledger_end(struct ledger *ledger, struct attempt *attempt, uint64_t now); /* with its job */
void ledger_return(struct ledger *ledger, struct job *job);
void ledger_child(struct ledger *ledger, struct job *job);

size_t ledger_len(const struct ledger *ledger);
struct job **ledger_jobs(const struct ledger *ledger, enum ledger_state state,
			 size_t *n); /* to be freed; NULL: out of memory */
struct attempt **ledger_attempts(const struct ledger *ledger, enum ledger_state state,
				 size_t *n); /* the same, of one with attempts */
uint64_t ledger_due_ns(const struct ledger *ledger,
		       enum ledger_state state); /* SET_ASIDE, RETURNED: the first is due then; UINT64_MAX: none */

/* Calls fn for each job in a state, in the order in which they came. fn returns the next state of the job. */
typedef enum ledger_state ledger_fn(void *data, struct job *job);
void ledger_each(struct ledger *ledger, enum ledger_state state, ledger_fn *fn, void *data);

/* Takes out all jobs in a state, in the order in which they came. None of them has ended. */
struct job *ledger_take(struct ledger *ledger, enum ledger_state state);

/* A cycle begins, ... */
void ledger_record(struct ledger *ledger); /* all that ended */
void ledger_record_set_aside(struct ledger *ledger,
			     uint64_t now);                 /* instead: the first that was set aside and is due */
void ledger_give_back(struct ledger *ledger, uint64_t now); /* all returned ones that are due */
void ledger_ask(struct ledger *ledger);                     /* all children */
/* ... and came to nothing: RECORDING becomes `recording`, RETURNING becomes RETURNED, ASKING becomes CHILD. */
void ledger_undo(struct ledger *ledger, enum ledger_state recording);

/* Leases. Without memory a lease is not closed: it ends by itself. */
void ledger_left(struct ledger *ledger, int64_t receipt);    /* a job of that lease has left us */
void ledger_abandon(struct ledger *ledger, int64_t receipt); /* the lease ends by itself */
void ledger_leave_recording(struct ledger *ledger);          /* so have those that are being recorded */
void ledger_close(struct ledger *ledger,
		  const struct store_ids *held);  /* the cycle closes leases without held jobs; held is sorted */
void ledger_closed(struct ledger *ledger);        /* it did */
void ledger_forget_leases(struct ledger *ledger); /* with the connection: they end by themselves */

#endif
