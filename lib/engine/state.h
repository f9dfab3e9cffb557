/* SPDX-License-Identifier: MIT */
/*
 * state - what the files of the engine share; included by them alone.
 *
 *     worker.c    the loop: start, turn, stop
 *     verdict.c   what becomes of a job after an attempt (pure)
 *     said.c      what the log is told of one
 *     plan.c      how many jobs to ask for, and what the answers mean (pure)
 *     ledger.c    jobs that have left the runners, each in a state, until the database has what became of it
 *     due.c       what is to be done when: to be sent, and to be woken for
 *     cycle.c     the round trip that records and claims
 *     record.c    what it records, and what of that was accepted
 *     parents.c   jobs that waited for others, told how those ended
 *     mend.c      what becomes of one that failed
 *     stall.c     what one that is not answered waits for
 *     progress.c  what functions say of their progress
 *     lease.c     leases: renewing them, and giving up before they end
 *     watch.c     other workers: who of them is dead
 *     link.c      the connection lost and found again
 *     balance.c   workers of a group kept level
 *     idle.c      what a service does between jobs: when to look again, housekeeping
 *     wake.c      when a service asks to be notified, and what it does then (pure)
 *     listen.c    being woken by NOTIFY
 *     scale.c     how many runners there are
 *     delayed.c   where delayed jobs are looked for
 *     tick.c      ticks of schedules become jobs
 *     tell.c      what is wrong, told
 *     offer.c     which functions there are here, told for people
 */
#ifndef WORKER_STATE_H
#define WORKER_STATE_H

#include "run/pool.h"
#include "base/retry.h"
#include "store/cycle.h"
#include "store/worker.h"
#include "engine/due.h"
#include "engine/ledger.h"
#include "engine/plan.h"
#include "engine/verdict.h"
#include "engine/wake.h"
#include "engine/worker.h"

#define WORKER_PLACE_MAX 1024

/* See balance.c. All zero: not in use. */
struct balance {
	bool on;
	char group[64];
	int64_t range;
	bool live;                 /* in the group, as the server last said: others wait for us */
	bool idle;                 /* the last claim found nothing ready */
	int64_t round, steps;      /* round last granted, and its steps */
	int64_t base;              /* `charged` when it began */
	uint64_t sent_ns, next_ns; /* last report; while waiting, the next one */
	struct deferred_backoff backoff;
};

/* A service between jobs. */
struct worker_idle {
	struct deferred_backoff interval;
	uint64_t poll_ns; /* next look; 0: not set */
	uint64_t due_ns;  /* the next delayed job is due; 0: none is known */
	uint64_t keep_ns; /* next housekeeping */
	bool keeping;     /* the cycle under way does it */
};

/* A service that is woken by NOTIFY. */
struct worker_listen {
	bool wanted;     /* the setting */
	bool begun;      /* tried on this connection */
	bool complained; /* of a pooler */
	struct wake wake;
	uint64_t check_ns;   /* a job of ours may have been cancelled: look at our leases then; 0: not so */
	uint64_t checked_ns; /* when that was done last */
};

/* A number of runners that follows the queue. */
struct worker_scale {
	size_t min, max;    /* equal: the number is fixed */
	size_t runners;     /* now; 0: the number is fixed */
	uint64_t idle_ns;   /* as long as that fewer must have done */
	size_t processors;  /* we may use */
	uint64_t tick_ns;   /* next decision to grow */
	int ticks;          /* since the last step, and since all runners were there */
	uint64_t window_ns; /* busy_max counts since */
	size_t busy_max;    /* runners busy at the same time, at most */
	size_t waiting;     /* ready jobs that the last claim left */
	double runner_share,
		attempt_share; /* of a processor that a runner wants, that an attempt got; < 0: not known */
	double cpu_demand;     /* the larger of them */
	bool full_logged;
};

/* See watch.c. */
#define WATCH_SUSPECTS 64
struct worker_watch {
	bool again;        /* our own lock is to be taken again, */
	uint64_t again_ns; /* and not before */
	bool others;       /* there are some */
	uint64_t look_ns;  /* not before */
	struct {
		struct store_silent who;
		uint64_t since_ns;
	} suspect[WATCH_SUSPECTS]; /* gone since */
	size_t suspects;
};

enum db_state { DB_READY, DB_BUSY, DB_CONNECTING, DB_WAITING };

#define SAID_MAX 64
#define CRASHED_MAX 8 /* functions; the others are found in the sums */

struct worker {
	const struct worker_setup *setup;
	const struct config *config;
	struct worker_summary sum;
	struct store_scope scope;
	struct retry_policy backoff;
	int64_t cnt, lease_ms, batch, worker_id;
	struct balance balance;
	struct pool pool;

	enum db_state db;
	struct pg *pg;
	struct store_cycle cycle;
	uint64_t lost_ns;         /* when the connection was lost */
	uint64_t retry_ns;        /* next try: to connect, or to send a cycle that failed */
	int tries;                /* of this cycle */
	uint64_t refused_ns;      /* when one failed first */
	uint64_t refused_last_ns; /* and last */
	uint64_t refused_told_ns; /* when that was said last; 0: it was not */
	struct deferred_backoff reconnect;
	struct deferred_error lost; /* why */
	bool lost_told;             /* and why there is no other one yet, where that is something else */

	struct plan plan;
	struct ledger ledger;
	struct begun begun;   /* jobs with leases of their own, for the next start */
	bool alone;           /* the cycle under way records one attempt that was set apart */
	bool unrecordable;    /* nothing can be recorded: a table is locked, or the server refuses each try */
	uint64_t progress_ns; /* not to be looked for before */

	struct {
		char place[WORKER_PLACE_MAX]; /* whose functions they are: plugin folder and config file */
		int64_t known;                /* hash of what the database was told of it within the hour; 0: nothing */
		const struct runner_function *functions; /* those that were compared with it last */
		uint64_t again_ns;                       /* then they are told again */
	} offer;
	char **unknown; /* functions nobody here has, of which jobs were met */
	size_t unknown_len;
	struct {
		char *text;
		uint64_t again_ns; /* not to be said before */
	} said[SAID_MAX];          /* what is missing here, as functions told it */
	size_t said_len;
	int64_t charged;             /* attempts made, or to be made with jobs in hand */
	char round[ROUND_MAX];       /* store_cycle.round of the last claim under limits */
	char lanes_round[ROUND_MAX]; /* and store_cycle.lanes_round of the last claim of all lanes */
	struct lanes lanes;          /* that gave something to the last claim */
	struct {
		/* delayed jobs are looked for that are due from then on, on the server; INT64_MIN: all */
		int64_t from_us;
		uint64_t whole_ns; /* then all again */
		uint64_t lost_ns;  /* leases that have ended are looked for: then all again, not only those of late */
	} delayed;

	struct {
		uint64_t ns;       /* a schedule has its next tick then; UINT64_MAX: none has, as far as we know */
		uint64_t due_ns;   /* the same, were there no again_ns */
		uint64_t again_ns; /* not to be tried before */
		uint64_t busy_ns;  /* there have been no jobs since then, but more that is due; 0: it is not so */
		bool shared;       /* that is for the jobs to have their share of the time */
		bool more;         /* more are due: a run waits for them */
		bool stayed;       /* a run has waited for one that was due shortly, which it does once */
	} tick;

	struct {
		struct pg *pg; /* the session that asks what the other one waits for; NULL: none */
		bool connecting, told;
		uint64_t asked_ns;
	} stall;

	struct {
		char *settings; /* as store_alert() takes them; NULL: nothing is looked for */
		bool due;       /* housekeeping was done */
		struct {
			char fn[128];
			int64_t n;
		} crashed[CRASHED_MAX]; /* attempts that crashed, recorded since the breaker was asked */
		size_t crashed_len;
	} tell;

	/* connected again: what is still ours is asked before anything is claimed, or we might claim what we run */
	bool renew_first;
	bool fenced;         /* leases are about to end, or have ended */
	uint64_t renewal_ns; /* when leases were last to be renewed; one that was not is tried again, */
	uint64_t renew_ns;   /* but not before: it may be locked */

	bool loop;
	struct worker_idle idle;
	struct worker_listen listen;
	struct worker_watch watch;
	struct worker_scale scale;
	uint64_t alive_ns; /* next WORKER_ALIVE */

	bool stopping;
	enum job_outcome stop_outcome;
	uint64_t stop_ns;      /* grace ends; 0: not stopping */
	uint64_t successor_ns; /* the next start came; 0: it has not */
	uint64_t random;       /* state of the generator */
};

/* worker.c */
uint64_t worker_random(struct worker *w);
void worker_decide(struct worker *w, struct attempt *a); /* see verdict.h */
size_t worker_idle_runners(const struct worker *w);
/* Jobs of a function, or all for NULL. The next cycle does it. */
void worker_give_back_unstarted(struct worker *w, const char *fn);

void worker_event(const struct worker *w, enum worker_event event);
void worker_set_up(struct worker *w); /* settings, at the start and after a reload */

/* said.c */
void worker_log_attempt(struct worker *w, const struct attempt *a);
void worker_forget_said(struct worker *w); /* what is said seldom is said anew */

/* stall.c: at each turn */
void worker_stall(struct worker *w, uint64_t now);

/* idle.c; without loop they do nothing */
void worker_idle_set_up(struct worker *w);
void worker_tell_missing_queues(
	struct worker *w); /* those to be served that nobody ever used; between cycles, and before the first */
uint64_t worker_idle_look_ns(const struct worker *w); /* when it looks again, where nothing is ready */
int worker_idle_keep(struct worker *w, uint64_t now, struct deferred_error *err); /* send a cycle of housekeeping */
int worker_idle_kept(struct worker *w, struct deferred_error *err);               /* its answer is there */
void worker_idle_keep_failed(struct worker *w, const struct deferred_error *err);
void worker_idle_done(struct worker *w, uint64_t now); /* a cycle has ended */

/* delayed.c */
void worker_delayed_forget(struct worker *w);              /* what was learnt, with the connection */
void worker_delayed_begin(struct worker *w, uint64_t now); /* before a cycle that looks at delayed jobs */
void worker_delayed_learn(struct worker *w);               /* a cycle has ended */

/* listen.c; without listen they do nothing */
void worker_listen_lost(struct worker *w);                /* with the connection */
void worker_listen_ready(struct worker *w, uint64_t now); /* at each turn: begin, and read what came */
int worker_listen_add(struct worker *w, enum wake_step step, bool claims, struct deferred_error *err); /* to a cycle */
/* A cycle of its own, if the step needs one. */
int worker_listen_cycle(struct worker *w, enum wake_step step, struct deferred_error *err);
void worker_listen_done(struct worker *w, uint64_t now);    /* any cycle has ended */
void worker_listen_checked(struct worker *w, uint64_t now); /* a renewal is being sent */

/* scale.c; with a fixed number of runners they do nothing */
void worker_scale_set_up(struct worker *w);
void worker_scale(struct worker *w, uint64_t now);                    /* at each turn: grow, shrink */
void worker_scale_attempt(struct worker *w, const struct attempt *a); /* one has ended */
void worker_scale_claimed(struct worker *w);                          /* a cycle with a claim has ended */
size_t worker_scale_room(const struct worker *w); /* runners free, those included that would be added */
uint64_t worker_scale_deadline(const struct worker *w);

/* cycle.c */
int worker_start_cycle(struct worker *w, uint64_t now, struct deferred_error *err); /* if there is reason to */
void worker_begin(struct worker *w, struct job *jobs);                              /* to the runners */
int worker_poll_cycle(struct worker *w, uint64_t now, struct deferred_error *err);

/* record.c; what is added to the cycle being made is what the ledger has in that state */
int worker_add_records(struct worker *w, struct deferred_error *err);
int worker_add_close(struct worker *w, struct deferred_error *err);
int worker_add_outcomes(struct worker *w, struct deferred_error *err);
int worker_add_returns(struct worker *w, struct deferred_error *err);
void worker_after_records(struct worker *w);
bool worker_waits_to_record(const struct worker *w); /* nothing else is to begin: it could not be recorded either */
void worker_settle(struct worker *w, struct attempt *a, int outcome); /* the log has this outcome of it */

/* parents.c */
struct job *worker_sort_out_children(struct worker *w, struct job *jobs); /* into the ledger; returns the others */
int worker_add_parents(struct worker *w, struct deferred_error *err);
void worker_after_parents(struct worker *w);

/* mend.c */
/* The cycle was rolled back: 0 if the run goes on, else the code it ends with. */
int worker_cycle_failed(struct worker *w, struct deferred_error *err, uint64_t now);

/* progress.c */
size_t worker_new_progress(struct worker *w, uint64_t now); /* reports that are new, by a look each second */
int worker_add_progress(struct worker *w, size_t n, struct deferred_error *err);
int worker_end_progress(struct worker *w, struct deferred_error *err);
void worker_progress_again(struct worker *w); /* what was sent of it may not have arrived */

/* lease.c */
struct worker_oldest {
	uint64_t renew_ns; /* when the first lease we hold should be extended */
	uint64_t fence_ns; /* by then a claim must be given up: a little before the server sees its lease end */
	size_t n;          /* leases we hold */
};
struct worker_oldest worker_oldest_lease(const struct worker *w);
bool worker_lease_is_over(const struct job *job, uint64_t now); /* or about to be */
uint64_t worker_fence_after_ns(const struct worker *w);         /* how long the shortest lease in use is good for */
void worker_fence(struct worker *w, uint64_t now);
int worker_add_renewal(struct worker *w, struct deferred_error *err); /* to the cycle being made */
void worker_after_renewal(struct worker *w);
bool worker_held_receipts(const struct worker *w,
			  struct store_ids *receipts); /* sorted; adds to it; false: out of memory */

/* link.c */
void worker_take_back(struct worker *w, enum ledger_state recording); /* what the cycle was about, which is over */
void worker_lose_connection(struct worker *w, const struct deferred_error *err, uint64_t now);
void worker_connect_again(struct worker *w, uint64_t now);
int worker_lineage(struct worker *w,
		   struct deferred_error *err); /* may we work for the server that we are connected to? */
int worker_register(struct worker *w, struct deferred_error *err); /* at the start */
int worker_register_again(struct worker *w, struct deferred_error *err);

/* watch.c */
int32_t worker_watch_number(struct worker *w);               /* a new one, for a new session */
void worker_watch_connected(struct worker *w, uint64_t now); /* again */
void worker_watch(struct worker *w, uint64_t now);           /* at a turn, between cycles; of a service */
uint64_t worker_watch_due_ns(const struct worker *w);
void worker_tell_losses(const struct store_losses *losses, const char *why);

/* tick.c */
void worker_tick_set_up(struct worker *w, bool due); /* due: some schedule has a tick that is */
void worker_tick_learn(struct worker *w);            /* a cycle has ended */
void worker_tick(struct worker *w, uint64_t now);    /* at a turn, between cycles */
bool worker_tick_stays(struct worker *w,
		       uint64_t now); /* a run that has nothing more to do waits for what is due shortly */

/* tell.c */
void worker_tell_set_up(struct worker *w); /* settings, at the start and after a reload */
void worker_tell_clear(struct worker *w);
void worker_tell(struct worker *w, uint64_t now);         /* at a turn, between cycles: if housekeeping was done */
void worker_note_crash(struct worker *w, const char *fn); /* an attempt that crashed is recorded */
void worker_ask_breaker(struct worker *w, uint64_t now);  /* between cycles: pauses functions that only crash */
void worker_tell_at_end(struct worker *w);
void worker_notice_at_end(struct worker *w); /* dead jobs alone: of a run that did not fold too */

/* offer.c */
void worker_offer_set_up(struct worker *w);
void worker_offer(struct worker *w, uint64_t now); /* at a turn, between cycles: tells, if there is news */

/* balance.c */
int worker_balance_begin(struct worker *w, struct deferred_error *err);
int64_t worker_balance_left(const struct worker *w);                  /* jobs that may be claimed now */
uint64_t worker_balance_due_ns(const struct worker *w);               /* of the next report; UINT64_MAX: none */
int worker_balance_add(struct worker *w, struct deferred_error *err); /* a report, to the cycle being made */
void worker_balance_after_report(struct worker *w);                   /* before what the cycle claimed is charged */
void worker_balance_after_claim(struct worker *w);

#endif
