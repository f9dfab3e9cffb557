/* SPDX-License-Identifier: MIT */
/* record - how jobs ended, into the database and back: recorded, refused or given back. */
#ifndef RECORD_H
#define RECORD_H

#include "engine/pure/ledger.h"
#include "run/pool/pool.h"
#include "store/cycle/cycle.h"

#define RECORD_CRASHED_MAX 8 /* functions. The breaker finds the crashes of others in the sums. */

/* Attempts and jobs by how they ended, for the last log line of a run. */
struct record_counts {
	long long attempts, ok, retried, dead, cancelled, snoozed, released, refused;
	long long unready; /* could not run on this host, which is no attempt */
};

struct record {
	struct record_counts counts;
	bool blocked; /* nothing can be recorded: a table is locked, or the server refuses each try */
	struct record_crash {
		char fn[128];
		int64_t n;
	} crashed[RECORD_CRASHED_MAX]; /* recorded crashes that the breaker does not know yet */
	size_t crashed_len;
};

/* Each adds what the ledger has in one state to the cycle being made. */
/* LEDGER_RECORDING. *adds: jobs become ready by that. */
int record_add(const struct ledger *ledger, struct store_cycle *cycle, bool *adds, struct deferred_error *err);
int record_add_outcomes(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err);
int record_add_returns(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err);
/* The first transaction of the cycle is committed. */
struct record_answer {
	size_t returned;  /* jobs that were given back */
	bool lease_ended; /* a result was refused because its lease had ended, maybe long ago by a clock that was set */
};
struct record_answer record_after(struct record *record, struct pool *pool, struct ledger *ledger,
				  const struct store_cycle *cycle);

/* The log has this outcome of an attempt. Returns false if the lease had ended. */
bool record_settle(struct record *record, struct pool *pool, struct attempt *attempt, int outcome);
/* An attempt of a job that is not ours any more has ended: the log has its row already. Frees the attempt. */
void record_gone(struct record *record, struct pool *pool, struct ledger *ledger, struct attempt *attempt);
/* Nothing else is to begin, since it could not be recorded either. */
bool record_take_crash(struct record *record, struct record_crash *crash); /* false: there is none */
void record_block(struct record *record);
bool record_waits(const struct record *record, const struct ledger *ledger);

#endif
