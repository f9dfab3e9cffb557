/* SPDX-License-Identifier: MIT */
/*
 * cause - why a job is not done yet, and why jobs wait. It makes a sentence of the facts, with the figure that shows
 * the cause and the command that removes it. Pure: store/why.h reads the facts from the database. `deferred why`,
 * `deferred top` and the page of a job print the result.
 *
 * The facts lie in a struct; its texts are borrowed. An unknown text is NULL, an unknown number CAUSE_UNKNOWN.
 * cause_job_init() and cause_backlog_init() make structs in which all is unknown. Texts are not escaped: the caller
 * passes them through visible.h before it shows them.
 */
#ifndef CAUSE_H
#define CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAUSE_UNKNOWN (-1)

/*
 * X(name, word, level). Programs read the word. The level is the usual one. The first row that applies is the cause,
 * and the answer lists causes in this order.
 */
#define CAUSES_OF_JOB(X) \
	X(NO_SUCH_ID, "no_such_id", LOOK) \
	X(NOT_COMMITTED, "not_committed", LOOK) \
	X(PURGED, "purged", LOOK) \
	X(ROLLED_BACK, "rolled_back", LOOK) \
	X(ENDED, "ended", HEALTHY) \
	X(VANISHED, "worker_vanished", LOOK) \
	X(RUNNING, "running", HEALTHY) \
	X(EXPIRED, "expired", LOOK) \
	X(WAITING, "waiting", HEALTHY) \
	X(DELAYED, "delayed", HEALTHY) \
	X(PAUSED, "paused", LOOK) \
	X(MESSAGE, "message", HEALTHY) \
	X(UNKNOWN_FUNCTION, "unknown_function", ACT) \
	X(LOCKED, "locked", ACT) \
	X(STRANDED, "stranded", ACT) \
	X(RIGHTS, "rights", ACT) \
	X(UNSERVED, "unserved", ACT) \
	X(BREAKER, "breaker", ACT) \
	X(LIMIT, "limit", LOOK) \
	X(RATE, "rate", LOOK) \
	X(KEY, "key", HEALTHY) \
	X(IN_STEP, "in_step", LOOK) \
	X(EXPIRES_FIRST, "expires_first", LOOK) \
	X(BEHIND, "behind", HEALTHY) \
	X(NEXT_START, "next_start", HEALTHY)

/* Those of a backlog that are none of a job. */
#define CAUSES_OF_BACKLOG(X) \
	X(SCHEDULE, "schedule", ACT) \
	X(NOTHING_WAITS, "nothing_waits", HEALTHY) \
	X(DATABASE, "database", ACT) \
	X(ABSENT, "absent", ACT) \
	X(STOPPED, "stopped", ACT) \
	X(FAILING, "failing", ACT) \
	X(SUPERSEDED, "superseded", LOOK) \
	X(COUNT, "count", LOOK) \
	X(SLOWER, "slower", LOOK) \
	X(ONE_FUNCTION, "one_function", LOOK) \
	X(RUSH, "rush", LOOK) \
	X(CAPACITY, "capacity", ACT) \
	X(UNDER_WAY, "under_way", HEALTHY)

enum cause_kind {
#define X(name, word, level) CAUSE_##name,
	CAUSES_OF_JOB(X) CAUSES_OF_BACKLOG(X)
#undef X
		CAUSE_KINDS
};

const char *cause_word(enum cause_kind kind);

/* Healthy: nobody has to act. Look: this may be intended. Act: jobs do not end as they should until somebody acts. */
enum cause_level { CAUSE_HEALTHY, CAUSE_LOOK, CAUSE_ACT };

const char *cause_level_word(enum cause_level level); /* healthy, look or act */

struct cause {
	enum cause_kind kind;
	enum cause_level level;
	char why[640];    /* one sentence, without a full stop */
	char figure[512]; /* what shows it */
	char remedy[512]; /* the command, or what to do; "": nothing */
};

#define CAUSES_MAX 16 /* of one answer */

/* A session of the server. pid 0: there is none. */
struct cause_session {
	int64_t pid, age_s; /* age: of its transaction */
	const char *who, *state, *query;
};

/* A table of ours that is locked as a whole, so that nothing is known of what lies in it. name NULL: none is. */
struct cause_table {
	const char *name;
	bool wanted; /* it is not locked yet: somebody waits to do so, for the holder, and all others behind him */
	struct cause_session holder;
};

/* The workers of a queue, by the newest registrations. Only runs that had work register. */
struct cause_serving {
	bool alive;           /* one that serves it is at work */
	bool others;          /* none does, and others are or were */
	int64_t seen_s;       /* since one was seen; unknown: never */
	int64_t gap_s;        /* usual from one start to the next */
	int64_t started_s;    /* since the last start */
	const char *instance; /* host and pidfile of that */
	bool service;         /* that is, or was, a service, which no cron starts again */
	const char *role;     /* by whose rights it claimed, where that may not run jobs; NULL: it may */
	const char *grants;   /* statements that give deferred_worker back what it needs; NULL: it has all */
};

/* The jobs that ended and arrived lately, of a queue or of all. If nothing was read, minutes is 0. */
struct cause_rates {
	double minutes;                    /* so far back */
	int64_t ended, failed, superseded; /* attempts */
	double run_s;                      /* all of their time */
	double run_p50_s, usual_run_p50_s; /* of the function that took most of it */
	const char *fn;                    /* that one */
	double fn_share;                   /* of run_s, 0 to 1 */
	double arrived, usual_arrived;     /* jobs a minute */
	const char *arrived_by;            /* most of them: role, and function */
	const char *error;                 /* what makes most of the failures */
	int64_t error_n;
	const char *build; /* plugin, version and build of that function, where it changed; NULL: it did not */
};

struct cause_job {
	int64_t id;
	struct cause_table table; /* where there is one, nothing else is known */

	/* where it is not there */
	bool there;
	int64_t last_id;             /* last one given out */
	int64_t neighbour_s;         /* since the next one that is there was deferred */
	int64_t kept_s;              /* what purges leave, by age */
	struct cause_session writer; /* the oldest transaction that has written something, and is open */

	const char *state, *queue, *fn, *outcome, *error; /* fn NULL: a message */
	int64_t attempts, failures;                       /* failures: those that count */
	int64_t ended_s;                                  /* since */

	/* a lease on it, perhaps one that has ended */
	bool leased, lease_over, worker_ended, worker_rebooted, worker_there, worker_cut_off;
	int64_t worker, worker_pid, worker_unseen_s, lease_left_s, claimed_s;
	const char *worker_host;
	const char *progress;
	const char *steps;  /* how many it has saved; NULL: none */
	double usual_run_s; /* of its function, 99 % take no longer */

	const char *waits_for;  /* the first of the jobs it waits for, for people; NULL: none is known */
	int64_t flow;           /* it waits for the end of this flow; 0: for none that is known */
	int64_t flow_waits_for; /* which waits for this job of its own */
	int64_t due_in_s;       /* while it is delayed */
	int64_t ready_s;        /* for so long */
	int64_t expires_in_s;   /* below 0: it has */
	bool expires;
	bool paused;
	const char *paused_by;
	int64_t paused_s;
	int64_t queue_ready; /* jobs of the queue that are ready; up to queue_counted */
	int64_t queue_counted;

	bool fn_unknown;
	const char *refused_host, *refused_why; /* a worker has it and refuses it */

	bool row_locked, lane_locked;
	struct cause_session holder;
	bool stranded;

	struct cause_serving serving;
	int64_t taken_s; /* since a consumer took a message of its queue that is still there */

	int64_t broken_s; /* its function is paused by the breaker for so long */

	/* limits that are about it */
	int64_t max_running, running; /* of queue, or where fn_limit of function */
	bool fn_limit;
	const char *pattern; /* that gives the queue its limits; NULL: they are its own */
	const char *running_ids;
	double rate, rate_wait_s; /* a second; time to the next token */
	bool fn_rate, key_rate;   /* whose rate it is; neither: the queue's */
	int64_t key_before;       /* jobs of its concurrency key that come first */
	int64_t key_first;        /* the first of them */
	const char *key_first_state, *key;
	int64_t key_running, key_max;
	const char *own_key_state; /* who holds its key, which is not its concurrency key; NULL: it has none */

	const char *step_group; /* all that serve it wait for others of this group */
	const char *step_for;

	int64_t ahead, ahead_counted; /* jobs that come first, counted so far */
	struct cause_rates rates;     /* of its queue */
};

struct cause_queue {
	const char *name;
	bool paused;
	const char *paused_by;
	int64_t paused_s;
	int64_t ready, running, delayed, oldest_s;
	bool more; /* than were counted */
	int64_t max_running;
	double rate;
	bool limit_used_up;
	const char *pattern; /* that gives the queue its limits; NULL: they are its own */
	bool messages_only;
	struct cause_serving serving;
};

/* Lines and services that used to come, and are missed while others do. It is a copy, for it is not asked for each
 * time. */
struct cause_absent {
	int64_t n; /* how many; the other members describe the one that left last */
	char host[65], pidfile[256];
	bool service;
	int64_t seen_s;          /* since it was seen */
	int64_t every_s, starts; /* usual from one start to the next, and how many there were */
};

/* A worker that is gone and holds jobs until its lease ends. */
struct cause_gone {
	int64_t worker, pid;
	const char *host;
	int64_t jobs; /* 0: there is none */
	int64_t lease_left_s;
};

struct cause_backlog {
	const char *queue;          /* asked for; NULL: all */
	struct cause_table table;   /* where there is one, nothing else is known */
	struct cause_queue *queues; /* those asked for */
	size_t queues_len;

	const char *broken_fn; /* that the breaker has paused: the first of them; NULL: none */
	int64_t broken_s;

	const char *schedule;      /* that fails, or is paused: the worst of them; NULL: none */
	const char *schedule_what; /* failed: a tick could not be deferred; dead: its last job is; paused */
	const char *schedule_error;
	int64_t schedule_s; /* since that tick; unknown: there was none */
	int64_t schedule_job;
	int64_t schedules; /* how many are in this state */

	const char *unknown_fn; /* that jobs wait for and no worker has: the one with most */
	int64_t unknown_jobs, unknown_s;

	struct cause_absent absent;
	struct cause_gone gone;

	bool read_only;
	int64_t connections, connections_max;
	struct cause_session snapshot; /* the longest held */
	int64_t commits, commits_s;    /* sessions whose commit waits for a standby; the first of them for so long */
	const char *standbys;          /* synchronous_standby_names */

	int64_t idle_s; /* since an attempt began or ended */
	int64_t runs,
		runs_by_count; /* of the last runs that ended, those that left jobs after the same number of attempts */
	int64_t count;         /* that number */
	const char *runs_of;   /* host and pidfile */
	struct cause_rates rates;
};

void cause_job_init(struct cause_job *job);
void cause_backlog_init(struct cause_backlog *backlog);

/* Fill in all that applies, the cause first. Returns how many, 1 to CAUSES_MAX. */
size_t cause_of_job(const struct cause_job *job, struct cause causes[CAUSES_MAX]);
size_t cause_of_backlog(const struct cause_backlog *backlog, struct cause causes[CAUSES_MAX]);

#endif
