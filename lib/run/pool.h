/* SPDX-License-Identifier: MIT */
/*
 * pool - the runners of one run: started when there is work, given jobs in small portions, held to the time
 * limits, replaced when they die. Knows nothing of the database.
 *
 * Order of calls: pool_init(); pool_add() with claimed jobs; then round the event loop: pool_dispatch(),
 * poll on pool_pollfds() no longer than pool_wait_ms(), pool_read(), pool_reap() after SIGCHLD, pool_tick();
 * pool_take() for attempts that ended, pool_take_unknown() for jobs whose function nobody here has.
 *
 * A runner may be retired: it is given nothing more, finishes what it is at, and leaves.
 */
#ifndef POOL_H
#define POOL_H

#include "base/clock.h"
#include "run/begun.h"
#include "run/runner.h"

#define POOL_CRASHES 32 /* functions whose crashes are remembered at the same time */

struct pool {
	struct runner_setup setup;
	struct begun *begun; /* jobs with leases of their own are marked there before they begin; NULL: they are not */
	size_t runners_max;  /* so many live at the same time, at most */
	size_t short_of;     /* what that was before one more could not be started */
	uint64_t short_ns;   /* until then no more are tried; 0: not so */
	bool short_told;
	size_t runners_keep; /* so many stay, once started, however long they have nothing to do */
	uint64_t idle_ns;    /* the others are retired after that long; 0: never */
	int64_t default_timeout_ms, kill_after_ms;

	/* jobs claimed and not yet given to a runner, in the order to start them */
	struct job *pending, **pending_tail;
	size_t pending_len;
	struct job *unknown;   /* of no function here */
	struct job *late;      /* their time to start has passed */
	struct job *abandoned; /* nobody can say how they end: their leases must not be given up */

	struct pool_member {
		struct runner *runner; /* NULL: place is free */
		uint64_t spawned_ns;
		uint64_t kill_ns;   /* SIGKILL is due; 0: not */
		uint64_t killed_ns; /* it was first sent SIGKILL; 0: not yet */
		bool told_alive;    /* that it does not die of it */
		uint64_t cancel_ns; /* the same, if it is at a cancelled job still; 0: it was not asked to end one */
		bool load_failed;   /* it was killed for not getting ready */
		bool retired;
		uint64_t idle_since_ns;     /* it has had nothing to do since */
		uint64_t cpu_ns, cpu_at_ns; /* processor time used and waited for, when that was read; 0: not yet */
	} * member;
	size_t places; /* members there is room for */
	size_t alive;  /* runners, retired ones included */

	struct attempt *ended, **ended_tail;
	struct runner_function *functions; /* sorted by name */
	size_t functions_len;
	struct functions_old { /* replaced ones: attempts may still name their plugins */
		struct functions_old *next;
		struct runner_function *functions;
		size_t len;
	} * functions_old;
	bool functions_known;
	struct runner_function *clashes; /* sorted by name */
	size_t clashes_len;

	struct pool_crash { /* functions that crashed, and were told with symbols */
		char fn[128];
		uint64_t until_ns; /* until then they are told without; 0: place is free */
	} crash[POOL_CRASHES];

	double run_us;        /* moving average of what an attempt takes; < 0: unknown */
	size_t failed_starts; /* runners in a row that died before they were ready */
	uint64_t sweep_ns;
	bool stopping;
	struct deferred_error fatal; /* code != 0: runners cannot work; the run must end */
};

int pool_init(struct pool *pool, const struct runner_setup *setup, struct deferred_error *err);
void pool_clear(struct pool *pool); /* kills and reaps what is left */

/* The settings have changed: those of the pool itself are in force at once; every runner is retired, so that jobs
 * not begun go to fresh ones, which load the plugins anew. */
void pool_reload(struct pool *pool, const struct runner_setup *setup);

/* Start the first runner ahead of the first job: it loads its plugins while that is being claimed. */
void pool_warm_up(struct pool *pool);

void pool_add(struct pool *pool, struct job *jobs);
void pool_add_first(struct pool *pool, struct job *jobs); /* ahead of the others */
void pool_dispatch(struct pool *pool);

size_t pool_pollfds(const struct pool *pool, struct pollfd *fds, size_t max); /* how many were filled in */
int pool_wait_ms(const struct pool *pool, uint64_t now);                      /* -1: for ever */
void pool_read(struct pool *pool);
void pool_reap(struct pool *pool);
void pool_tick(struct pool *pool, uint64_t now);

struct attempt *pool_take(struct pool *pool);
struct job *pool_take_unknown(struct pool *pool);
struct job *pool_take_late(struct pool *pool); /* jobs to be given back, as a list */
struct job *
pool_take_abandoned(struct pool *pool); /* the same, of jobs that may still be run by a process that cannot be ended */
const struct runner_function *pool_function(const struct pool *pool, const char *name);
int64_t pool_limit_ms(const struct pool *pool, const struct job *job); /* what an attempt of it may take; 0: any time */
const char *pool_clash(const struct pool *pool, const char *name); /* why this function is refused; NULL: it is not */

/* All jobs not yet started, as a list. */
struct job *pool_recall(struct pool *pool);
/* Those of them that no runner has been given yet. */
struct job *pool_take_pending(struct pool *pool);

/* Take back, into the pool, what waits in a runner that has been at one job for longer than this. */
#define POOL_STUCK_NS (250 * NS_PER_MS)
void pool_recall_stuck(struct pool *pool, uint64_t now);

/* For each job not yet ended. */
void pool_each_job(const struct pool *pool, void (*f)(void *data, struct job *job), void *data);

size_t pool_unstarted(const struct pool *pool); /* pending, or waiting in a runner */
size_t pool_running(const struct pool *pool);   /* being run now */
size_t pool_load(const struct pool *pool);      /* both */
size_t pool_busy(const struct pool *pool);      /* runners with jobs, or being started; all, where jobs are pending */
bool pool_starting(const struct pool *pool);    /* some runner is not ready yet */

/* Share of a processor that runners with jobs used or waited for since the last call, on average; < 0: not known. */
double pool_cpu_demand(struct pool *pool, uint64_t now);

/* What an attempt takes at the moment, microseconds; < 0: not known yet. Counts what is running. */
double pool_run_us(const struct pool *pool, uint64_t now);

/* No more jobs are started; functions are asked to end. */
void pool_stop(struct pool *pool);

/* Kill the runner that is at this job, or all of them with id 0. */
void pool_kill(struct pool *pool, int64_t id, int sig, enum job_outcome why, const char *text);

/* Jobs marked `gone` meanwhile are being run: ask those that were cancelled to end, they are killed after
 * kill_after_ms; kill those that were taken. */
void pool_end_gone(struct pool *pool, uint64_t now);

/* For each job that is being run. */
void pool_each_running(const struct pool *pool, void (*f)(void *data, const struct job *job), void *data);

/* For each job that is being run and whose function has said how far it is. */
void pool_each_progress(const struct pool *pool, void (*f)(void *data, const struct job_progress *progress),
			void *data);

/* Have a file removed by a runner, under its user. False: there is none to do it. */
bool pool_remove_file(struct pool *pool, const char *path);

#endif
