/* SPDX-License-Identifier: MIT */
/*
 * worker - the engine: claim, run, record, until the count is spent or nothing is ready.
 *
 * One thread, one event loop. The database and the runners work at the same time: while runners execute one
 * batch, a single round trip records the batch before and claims the next. All leases belong to this process,
 * which renews them and, should the server not confirm that in time, kills its runners before a lease can end.
 *
 * With the setting "loop" a run goes on when nothing is ready: it looks again after a while, which gets longer
 * (deferred_backoff), and at the moment when the next delayed job is due.
 */
#ifndef WORKER_H
#define WORKER_H

#include "port/config.h"
#include "base/error.h"
#include "run/runner.h"

enum worker_event {
	WORKER_READY,     /* registered; jobs will be run */
	WORKER_RELOADING, /* SIGHUP came */
	WORKER_RELOADED,  /* and has been dealt with, well or not */
	WORKER_STOPPING,
	WORKER_ALIVE, /* the event loop turns */
};

/* With "loop" the worker reads it anew after reload(). */
struct worker_setup {
	const struct config *config;
	const struct runner_setup *runners;
	const char *const *queues; /* NULL: all */
	size_t queues_len;
	const char *instance; /* names the lock on the pidfile: main.c of check_deferred */
	const char *pidfile;  /* what has begun is noted beside it */
	const char *host;
	const char *who; /* " (pidfile ..., queue ...)", where others may write to the same log; "": need not be told */
	uint64_t started_ns;     /* clock_ns() when this process began: the next start comes so long after it */
	bool predecessor_killed; /* we ended the previous copy: its attempts were superseded */
	int signal_fd;           /* signalfd with SIGTERM, SIGINT, SIGHUP, SIGCHLD */
	int (*before_work)(void *data,
			   struct deferred_error *err); /* called once there is work, before the first claim */
	/* Called before anything is changed at a server: may we work for it? NULL: for any. */
	int (*lineage)(void *data, const char *system, int64_t timeline, struct deferred_error *err);
	/* Is it proven that the worker of that instance has ended? Else its leases are waited for. */
	bool (*is_dead)(void *data, const char *instance);
	/* With loop, after SIGHUP: put new settings in place of config, runners, queues and who; the old ones are not
	 * used after that. On failure all stays as it was. NULL: SIGHUP ends the run. */
	int (*reload)(void *data, struct deferred_error *err);
	void (*event)(void *data, enum worker_event event); /* NULL: nobody wants to know */
	int64_t alive_ms;                                   /* WORKER_ALIVE at least that often; 0: need not be */
	void *data;
};

/* What a run did, for its last log line. */
struct worker_summary {
	long long attempts, ok, retried, dead, cancelled, snoozed, released, refused;
	long long unready; /* could not run on this host, which is no attempt */
	double seconds;
};

/*
 * Make one run. Returns 0 when it came to its end (also by SIGTERM); DEFERRED_ECONNECT or DEFERRED_ELOST: server
 * unreachable or lost; DEFERRED_ESCHEMA; DEFERRED_EPLUGIN, DEFERRED_ECONFIG: runners cannot be used;
 * DEFERRED_EDB: the server refuses, DEFERRED_ESYSTEM. Nothing is lost in any case: what was claimed is given
 * back, or is claimed again by the next run of this instance, at the latest when its lease ends.
 */
int worker_run(const struct worker_setup *setup, struct worker_summary *summary, struct deferred_error *err);

/* Sent along with SIGTERM by a successor, see pidfile.h: attempts cut off are recorded as superseded. */
#define WORKER_SUPERSEDED 0x0def

#endif
