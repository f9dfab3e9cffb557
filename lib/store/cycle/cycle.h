/* SPDX-License-Identifier: MIT */
/*
 * store_cycle - one round trip of two transactions. The first records attempts, releases jobs, renews and closes
 * leases. The second claims new jobs. Either may be missing. Only the first must be durable. The second need not be,
 * and so holds its locks for a moment only (sql/functions/claim/__claim.sql):
 *
 *     store_cycle_begin(); any of store_cycle_follow() ... store_cycle_keep(); store_cycle_claim();
 *     store_cycle_send(); store_cycle_poll() whenever the socket is ready, until done; the results lie in
 *     the cycle; store_cycle_clear(). Where it failed, `recorded_ok` and `claimed_ok` tell what has been committed all
 *     the same.
 */
#ifndef STORE_CYCLE_H
#define STORE_CYCLE_H

#include "base/error.h"
#include "base/job.h"
#include "base/lanes.h"
#include "base/step.h"
#include "port/pg.h"
#include "base/progress.h"
#include "base/ids.h"
#include "store/store_worker.h"

#include <stdbool.h>

/* The result of renewing a lease, or of a job of it that is not ours any more. */
struct store_lease {
	int64_t id, receipt; /* id 0: the lease */
	int64_t left_ms;     /* of a lease: until it ends */
	enum job_gone gone;  /* of a job: why */
};

#define ROUND_MAX 192 /* two names of queues, each with a priority */

struct store_cycle {
	struct pg *pg;
	bool claims;                  /* jobs were asked for */
	bool writes;                  /* there is a first transaction */
	bool first_ended;             /* its end has been read */
	bool recorded_ok, claimed_ok; /* committed: the first one, or there is none; the second */
	bool promotes;                /* delayed jobs were looked at */
	bool tracks;                  /* steps were reported */
	bool claims_limited;          /* jobs under limits were asked for */
	bool arms, opens, peeks;      /* store_cycle_arm(), _open(), _peek() */
	/* results */
	struct store_ids recorded;
	struct store_ids plain, refused; /* sent with job_done.sql, and those of them that are not recorded */
	struct store_ids locked;         /* asked to be released and not, for their rows were locked */
	struct store_lease *leases;      /* asked to be renewed, and jobs that are gone, sorted: store_cycle_lease() */
	size_t leases_len;
	struct store_parents { /* set by store_cycle_parents() for the first jobs, in their order */
		char *text;    /* "": it waited for none */
		char *steps;   /* "": it has none */
	} * parents;
	size_t parents_len;
	struct store_step { /* set by store_cycle_steps() */
		int64_t id;
		char outcome; /* the first letter of that of deferred.__step_save() */
		char *why;    /* "": it says it all */
	} * steps;
	size_t steps_len;
	int *outcomes; /* asked with store_cycle_outcomes(): as store_recorded() */
	size_t outcomes_len;
	struct job *claimed, **claimed_tail;
	size_t claimed_len, claimed_alone;
	bool busy;                   /* another claim was at it */
	bool more;                   /* jobs or queues were not looked at: asking again at once makes sense */
	char round[ROUND_MAX];       /* of the claim under limits: where it is in its round through all queues */
	char lanes_round[ROUND_MAX]; /* the same of a claim of all lanes; empty: it has ended */
	bool cut;                    /* the limit of bytes of params kept some jobs from being taken */
	bool looks;                  /* all lanes were asked */
	int64_t look_us;             /* so long was spent on those that had nothing */
	int64_t waiting;             /* ready jobs that were left, as far as it looked */
	struct lanes lanes;          /* those that gave something */
	bool limits;                 /* there may be jobs under limits; known where jobs were asked for */
	struct job *limited, **limited_tail; /* claimed under limits */
	size_t limited_len;
	bool limited_keyed;      /* nothing but keys limits them: a claim may take several jobs of each */
	int64_t limited_seen;    /* jobs, or limits, that another claim was at */
	int64_t limited_us;      /* the claim under limits took so long */
	int64_t limited_wait_ms; /* until a rate allows the next one; 0: not known */
	int64_t promoted;
	struct store_track track;
	struct store_due { /* only where store_cycle_next_due() asked */
		bool known;
		int64_t next_ms; /* until the next delayed job is due; 0: it is, or there is none */
		int64_t first_us,
			now_us;  /* when the first one is or was due, INT64_MAX: none; now; on the server, since 2000 */
		int64_t took_us; /* to find it */
		int64_t tick_ms; /* until the next tick of a schedule; -1: there is none */
		int64_t lease_ms; /* until a lease of another worker may end; 0: none has one */
	} due;
	bool armed;            /* arms: all locks were taken */
	int rank;              /* arms */
	struct store_ids open; /* arms, opens: transactions in progress */
	bool work;             /* peeks: a job is ready or due */
	struct store_kept {    /* only where store_cycle_keep() asked */
		bool registered;
		int schema_version, schema_oldest; /* as of migrate_accepts() */
		bool fold_more; /* the sums of the log are behind */
	} kept;
	struct store_losses losses; /* of leases that have ended */
	bool unwatched;             /* disarms, or arms: the lock by which others see that we live is not held */
	bool out_of_memory;
	/* what the claim was sent with */
	int64_t seed;
	uint64_t sent_ns;
};

struct store_claim {
	int64_t worker, lease_ms, seed;
	int window, n;
	int limited, rated;       /* asked for under limits, and of these with a rate */
	int run;                  /* and of these with the same key, if it allows one job at once */
	int alone;                /* the maximum of jobs with a lease of their own: those that can begin at once */
	int bytes;                /* of params, that many at most, unless one job has more */
	const char *const *known; /* functions to be handed out; NULL: all */
	size_t known_len;
	const struct lanes *lanes; /* to be asked, */
	bool look;                 /* and all others */
	const char *round;         /* store_cycle.round of the last claim under limits; empty: none */
	bool new_round;            /* a new round begins there */
	const char *lanes_round;   /* store_cycle.lanes_round of the last claim of all lanes */
	bool new_lanes_round;
};

void store_cycle_begin(struct store_cycle *cycle, struct pg *pg);
/* How long what is added from here on to the first transaction waits for a lock; without, a second. */
int store_cycle_patience(struct store_cycle *cycle, int64_t ms, struct deferred_error *err);
int store_cycle_follow(struct store_cycle *cycle, const struct attempt *attempt, struct deferred_error *err);
/* final: their jobs leave the queue; else they are due again after delay_ms. Reorders the array. */
int store_cycle_record(struct store_cycle *cycle, struct attempt **attempts, size_t n, bool final,
		       struct deferred_error *err);
int store_cycle_release(struct store_cycle *cycle, struct job *const *jobs, size_t n,
			struct deferred_error *err); /* but those locked */
int store_cycle_renew(struct store_cycle *cycle, struct job *const *jobs, size_t n,
		      struct deferred_error *err); /* by their lease_ms */
const struct store_lease *store_cycle_lease(const struct store_cycle *cycle,
					    const struct job *job); /* NULL: it was not asked for */
int store_cycle_close(struct store_cycle *cycle, const int64_t *receipts, size_t n,
		      struct deferred_error *err); /* leases of which nothing is in hand */
/* What does the log say of attempts whose recording was refused? */
int store_cycle_outcomes(struct store_cycle *cycle, struct attempt *const *attempts, size_t n,
			 struct deferred_error *err);
/* How did those end that these jobs waited for? The answer may be about some of them, one at least, in their order. */
int store_cycle_parents(struct store_cycle *cycle, struct job *const *jobs, size_t n, struct deferred_error *err);
/* Save steps. Delete the steps of jobs whose success is being recorded. */
int store_cycle_steps(struct store_cycle *cycle, struct job_step *const *steps, size_t n, struct deferred_error *err);
int store_cycle_steps_end(struct store_cycle *cycle, struct attempt *const *attempts, size_t n,
			  struct deferred_error *err);
/* How far functions say they are; and of attempts that are being recorded, that this is of no use any more. */
int store_cycle_progress(struct store_cycle *cycle, const struct job_progress *progress, size_t n,
			 struct deferred_error *err);
int store_cycle_progress_end(struct store_cycle *cycle, struct attempt *const *attempts, size_t n,
			     struct deferred_error *err);
/* Jobs whose leases have ended, whoever held them, become ready. within_ms: of leases that ended so short a time ago;
 * 0: of all. */
int store_cycle_lost(struct store_cycle *cycle, int32_t max_attempts, int64_t within_ms, struct deferred_error *err);
/* Notify others of released jobs. */
int store_cycle_wake(struct store_cycle *cycle, const int64_t *ids, size_t n, struct deferred_error *err);
/* Take the locks that make who defers a job notify us, and list the transactions in progress; give them back. */
int store_cycle_arm(struct store_cycle *cycle, const struct store_scope *scope, struct deferred_error *err);
int store_cycle_disarm(struct store_cycle *cycle, const struct store_scope *scope, struct deferred_error *err);
int store_cycle_open(struct store_cycle *cycle, struct deferred_error *err);
int store_cycle_peek(struct store_cycle *cycle, const struct store_scope *scope, int64_t from_us,
		     struct deferred_error *err);
/* Delayed jobs that are due become ready. Here and below, from_us: looked for from then on, on the server, since 2000;
 * INT64_MIN: all. */
int store_cycle_promote(struct store_cycle *cycle, int64_t from_us, struct deferred_error *err);
/* Up to claim->n jobs, and up to claim->limited under limits. Last: nothing is recorded after it. */
int store_cycle_claim(struct store_cycle *cycle, const struct store_scope *scope, const struct store_claim *claim,
		      struct deferred_error *err);
int store_cycle_track(struct store_cycle *cycle, const struct store_track *track, struct deferred_error *err);
/* When is the next delayed job due? */
int store_cycle_next_due(struct store_cycle *cycle, int64_t worker, int64_t from_us, struct deferred_error *err);
/* Housekeeping of a service, in a cycle of its own: it updates its row, adds partitions ahead, and folds a slice of the
 * log. It sets due too. */
int store_cycle_keep(struct store_cycle *cycle, const struct store_scope *scope, int64_t worker, int64_t from_us,
		     struct deferred_error *err);
int store_cycle_send(struct store_cycle *cycle, struct deferred_error *err);
int store_cycle_poll(struct store_cycle *cycle, bool *done, struct deferred_error *err);
void store_cycle_clear(struct store_cycle *cycle); /* frees jobs that were not taken out of claimed and limited */

#endif
