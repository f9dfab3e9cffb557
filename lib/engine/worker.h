/* SPDX-License-Identifier: MIT */
/*
 * worker - the engine: claim, run, record, until the count is spent or nothing is ready.
 *
 * One thread, one event loop. While runners execute one batch, a single round trip records the batch before and claims
 * the next. All leases belong to this process, which renews them. If the server does not confirm that in time, the
 * process kills its runners before a lease can end.
 *
 * With the setting "loop" a run goes on when nothing is ready. It looks again at growing intervals (deferred_backoff),
 * and at the moment when the next delayed job is due.
 *
 * Four tiers. A file calls only lower tiers (tests/harness/test_tiers.py):
 *
 *     pure/     values in, values out
 *     step/     each file has its own state, takes what it needs as arguments, and returns what happened
 *     cycle/    composes steps: the round trip, its rollback, the session
 *     worker.c  the loop: a table of steps
 */
#ifndef WORKER_H
#define WORKER_H

#include "port/config.h"
#include "base/error.h"
#include "engine/step/record.h"
#include "run/runner.h"

#include <stdatomic.h>

enum worker_event {
	WORKER_READY,     /* registered; jobs will be run */
	WORKER_RELOADING, /* SIGHUP came */
	WORKER_RELOADED,  /* and has been dealt with, well or not */
	WORKER_STOPPING,
	WORKER_ALIVE, /* the event loop turns */
};

/* The loop shows this to other threads, once a turn. Times are those of clock_ns(). */
struct worker_pulse {
	_Atomic uint64_t turned_ns; /* the last turn began; 0: none has */
	_Atomic uint64_t lost_ns;   /* the connection was lost; 0: there is one */
	_Atomic uint64_t asked_ns;  /* the server owes an answer since then; 0: it does not */
	_Atomic bool stopping;
	_Atomic bool fenced; /* leases were not renewed in time */
};

/* With "loop" the worker reads it again after reload(). */
struct worker_setup {
	const struct config *config;
	const struct runner_setup *runners;
	const char *const *queues; /* NULL: all */
	size_t queues_len;
	const char *instance; /* names the lock on the pidfile: main.c of check_deferred */
	const char *pidfile;  /* PIDFILE.begun notes what has begun */
	const char *host;
	const char *who;     /* " (pidfile ..., queue ...)" where other workers may write to the same log, else "" */
	uint64_t started_ns; /* clock_ns() when this process began: the next start comes so long after it */
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
	struct worker_pulse *pulse;                         /* NULL: nobody looks at it */
	void *data;
};

/* The results of a run, for its last log line. */
struct worker_summary {
	struct record_counts counts;
	double seconds;
};

/*
 * Makes one run. Returns 0 when it came to its end, also by SIGTERM. Nothing is lost in any other case. Claimed jobs
 * are given back, or the next run of this instance claims them again, at the latest when their leases end.
 *
 * - DEFERRED_ECONNECT, DEFERRED_ELOST: the server is unreachable or lost
 * - DEFERRED_ESCHEMA: the schema is missing or too old
 * - DEFERRED_EPLUGIN, DEFERRED_ECONFIG: runners cannot be used
 * - DEFERRED_EDB: the server refuses
 * - DEFERRED_ESYSTEM: the system does
 */
int worker_run(const struct worker_setup *setup, struct worker_summary *summary, struct deferred_error *err);

/* Sent along with SIGTERM by a successor, see pidfile.h: attempts cut off are recorded as superseded. */
#define WORKER_SUPERSEDED 0x0def

#endif
