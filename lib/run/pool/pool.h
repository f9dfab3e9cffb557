/* SPDX-License-Identifier: MIT */
/*
 * pool - the runners of one run. They are started when there is work, get jobs in small portions, and are replaced when
 * they die. The pool enforces time limits, and knows nothing of the database.
 *
 *     pool.c           settings, messages and deaths of runners
 *     pool_watch.c     limits: what is killed, retired or tried again, and when
 *     pool_dispatch.c  which runner gets which job
 *     pool_figures.c   how much there is to do
 *     pool_members.c   the runners; pool_jobs.c: jobs that are not in one
 *
 * Order of calls: pool_init(), then pool_add() with claimed jobs. The loop calls pool_dispatch(), polls pool_pollfds()
 * for at most pool_wait_ms(), and calls pool_read() and pool_tick(). After SIGCHLD it calls pool_reap(). pool_take()
 * returns attempts that ended. pool_take_unknown() returns jobs whose function is unknown here.
 *
 * Jobs of one key are run one after the other. When one of them has not succeeded, the others are given back.
 *
 * A retired runner is given nothing more, finishes what it runs, and leaves.
 */
#ifndef POOL_H
#define POOL_H

#include "base/clock.h"
#include "run/begun.h"
#include "crashes.h"
#include "run/runner.h"

struct pool {
	struct runner_setup setup; /* the list of skipped plugins is the pool's own */
	struct begun *begun; /* jobs with leases of their own are marked there before they begin; NULL: they are not */
	size_t runners_max;  /* runners that may live at the same time */
	size_t short_of;     /* the same before one more could not be started */
	uint64_t short_ns;   /* no more are tried until then; 0: not the case */
	bool short_logged;
	size_t runners_keep;     /* runners that stay, once started, however long they have nothing to do */
	uint64_t idle_ns;        /* the others are retired when they were idle for this long; 0: never */
	uint64_t load_limit_ns;  /* a runner that is not ready after this time is killed */
	uint64_t leave_limit_ns; /* when the run ends, one that has nothing to do and does not leave */
	int64_t default_timeout_ms, kill_after_ms;

	/* jobs claimed and not yet given to a runner, in the order to start them */
	struct job *pending, **pending_tail;
	size_t pending_len;
	size_t waiting;        /* of these, jobs that wait until their batch is full, the last time we looked */
	uint64_t waits_ns;     /* until then; 0: none does */
	struct job *unknown;   /* their function is unknown here */
	struct job *late;      /* their time to start has passed, or they waited for a job of their key in vain */
	size_t dropped;        /* jobs that were given back because one of their key had not succeeded */
	struct job *abandoned; /* nobody can say how they end: their leases must not be given up */

	struct pool_member {
		struct runner *runner; /* NULL: the place is free */
		uint64_t spawned_ns;
		uint64_t kill_ns;   /* SIGKILL is due; 0: it is not */
		uint64_t killed_ns; /* it was first sent SIGKILL; 0: not yet */
		bool logged_alive;  /* that it does not die was logged */
		uint64_t cancel_ns; /* SIGKILL is due if it still runs the job that it was asked to end; 0: none */
		bool load_failed;   /* it was killed because it did not become ready */
		bool retired;
		bool skips;                 /* it skips a plugin */
		uint64_t idle_since_ns;     /* it has had nothing to do since */
		uint64_t cpu_ns, cpu_at_ns; /* processor time used and waited for, when that was read; 0: not yet */
	} * member;
	size_t places; /* members there is room for */
	size_t alive;  /* runners, retired ones included */

	struct attempt *ended, **ended_tail;
	struct functions functions;
	struct crashes crashes;

	double run_us;        /* moving average of the time of a call for each of its jobs; < 0: unknown */
	size_t batch;         /* most jobs of a call of the function that was called last; 0: none was */
	size_t failed_starts; /* runners in a row that died before they were ready */
	uint64_t sweep_ns;
	bool stopping;
	struct deferred_error fatal; /* code != 0: runners cannot work, and the run must end */
};

int pool_init(struct pool *pool, const struct runner_setup *setup, struct deferred_error *err);
void pool_clear(struct pool *pool); /* kills and reaps what is left */

/* The settings have changed. Those of the pool itself apply at once. Every runner is retired, so that jobs that have
 * not begun go to fresh ones, which load the plugins again. */
void pool_reload(struct pool *pool, const struct runner_setup *setup);

/* Start the first runner before there is a job: it loads its plugins while that is being claimed. */
void pool_warm_up(struct pool *pool);

void pool_add(struct pool *pool, struct job *jobs);
void pool_add_first(struct pool *pool, struct job *jobs); /* before the others */
void pool_dispatch(struct pool *pool);

size_t pool_pollfds(const struct pool *pool, struct pollfd *fds, size_t max); /* returns how many were filled in */
int pool_wait_ms(const struct pool *pool, uint64_t now);                      /* -1: no limit */
void pool_read(struct pool *pool);
void pool_reap(struct pool *pool);
void pool_tick(struct pool *pool, uint64_t now);

struct attempt *pool_take(struct pool *pool);
struct job *pool_take_unknown(struct pool *pool);
struct job *pool_take_late(struct pool *pool);      /* jobs to be given back, as a list */
struct job *pool_take_abandoned(struct pool *pool); /* the same: a process that cannot be ended may still run them */

int64_t pool_limit_ms(const struct pool *pool, const struct job *job); /* time limit of an attempt; 0: none */

/* All jobs not yet started, as a list. */
struct job *pool_recall(struct pool *pool);
/* Those of them that no runner has been given yet. */
struct job *pool_take_pending(struct pool *pool);
/* This job has not succeeded, or will not run here: give back those of its key that no runner has been given yet. */
void pool_drop_key(struct pool *pool, const struct job *job);
bool pool_has_free(const struct pool *pool); /* a job is pending and does not wait for another one of its key */

/* Take back, into the pool, jobs that wait in a runner which has been running one job for longer than this. */
#define POOL_STUCK_NS (250 * NS_PER_MS)
void pool_recall_stuck(struct pool *pool, uint64_t now);

/* Call f for each job that has not ended. */
void pool_each_job(const struct pool *pool, void (*f)(void *data, struct job *job), void *data);

size_t pool_unstarted(const struct pool *pool); /* jobs pending, or waiting in a runner */
size_t pool_held(const struct pool *pool);      /* of these, jobs that wait for one of their key in a runner */
size_t pool_running(const struct pool *pool);   /* runners that run jobs */
size_t pool_load(const struct pool *pool);      /* jobs, unstarted or run */
size_t pool_busy(const struct pool *pool);      /* runners with jobs, or being started; all, if jobs are pending */
bool pool_starting(const struct pool *pool);    /* some runner is not ready yet */

/* The share of a processor that runners with jobs used or waited for since the last call, on average; < 0: unknown. */
double pool_cpu_demand(struct pool *pool, uint64_t now);

/* The most jobs that a runner takes at once, as far as is known. */
size_t pool_per_call(const struct pool *pool);

/* The time that a job takes at the moment, in microseconds, including running ones; < 0: unknown. A call takes so long
 * for each job of its batch. */
double pool_run_us(const struct pool *pool, uint64_t now);

/* Start no more jobs, and ask functions to end. */
void pool_stop(struct pool *pool);

/* Kill the runner that runs this job, or all runners with id 0. */
void pool_kill(struct pool *pool, int64_t id, int sig, enum job_outcome why, const char *text);

/* Jobs that run may have been marked `gone` meanwhile. Kill those that another claim took. Ask cancelled ones to end:
 * they are killed after kill_after_ms, unless others of their batch were not cancelled. */
void pool_end_gone(struct pool *pool, uint64_t now);

/* Call f for each job that is being run. */
void pool_each_running(const struct pool *pool, void (*f)(void *data, const struct job *job), void *data);

/* Call f for each job that is being run and whose function has reported its progress. */
void pool_each_progress(const struct pool *pool, void (*f)(void *data, const struct job_progress *progress),
			void *data);

/* Call f for each step that a function has saved and waits for. */
void pool_each_step(const struct pool *pool, void (*f)(void *data, struct job_step *step), void *data);
/* Answer the step of this job with enum deferred_step, if there is one. */
void pool_answer_step(const struct pool *pool, int64_t id, int result);

/* Have a file removed by a runner, under its user. False: no runner can do it. */
bool pool_remove_file(struct pool *pool, const char *path);

#endif
