/* SPDX-License-Identifier: MIT */
/*
 * runner - the parent's side of one runner: start it, send it jobs, learn how they ended, and kill it completely.
 *
 *     runner_setup.c   what it is started with
 *     child.c          its process; namespace.c, cgroup.c: what that process is confined to
 *     calls.c          the jobs it has, and what the board says about them
 *     inbox.c          what it sends; asks.c: what its functions ask for
 *     runner_output.c  what it prints
 *     ending.c         how an attempt ended
 *
 * Order of calls: orphan_init() once, then runner_spawn(). When a descriptor of runner_pollfds() is ready, call
 * runner_read(), then runner_take() until it returns NULL. runner_send() and runner_flush() send more jobs. When the
 * process has died, call runner_reaped(), take the attempts, and free the runner.
 *
 * A job belongs to the runner until it comes back as an attempt or by runner_recall().
 */
#ifndef RUNNER_H
#define RUNNER_H

#include "base/attempt.h"
#include "base/error.h"
#include "base/progress.h"
#include "run/calls.h"
#include "run/functions.h"
#include "run/runner_setup.h"

#include <poll.h>

struct runner;

int runner_spawn(struct runner **runner, const struct runner_setup *setup, struct deferred_error *err);
void runner_free(struct runner *runner); /* must have been reaped or given up, or never spawned */

pid_t runner_pid(const struct runner *runner);
bool runner_ready(const struct runner *runner); /* plugins are loaded */

/* Fill in two pollfds: socket and output pipe. A closed one has fd -1. */
void runner_pollfds(const struct runner *runner, struct pollfd fds[2]);

/*
 * Read what there is, or as much of it as fits into a turn. In the second case the fds are still ready.
 *
 * Returns 0, or a negative code with err if the runner must not go on. DEFERRED_EPLUGIN and DEFERRED_ECONFIG: its
 * plugins cannot be used at all, so the run is over; only before it is ready. DEFERRED_EFAILED: it wrote nonsense to
 * its socket or board, and must be killed.
 */
int runner_read(struct runner *runner, struct deferred_error *err);

/* Functions that it reported since the last call. The caller owns them. */
struct runner_function *runner_take_functions(struct runner *runner, size_t *len);

/* Send it a job, or a batch chained by `next`. Returns false, and the chain is as it was, when it has not enough free
 * slots. */
bool runner_send(struct runner *runner, struct job *jobs, const struct call_terms *terms);
bool runner_remove_file(struct runner *runner, const char *path); /* false: too many such requests wait already */
int runner_flush(struct runner *runner);                          /* 0, or -1: it cannot be written to any more */

/* The next attempt that has ended; NULL: none. */
struct attempt *runner_take(struct runner *runner);

/* Take back the jobs it has not started, as a list. While it lives, its first job counts as started. */
struct job *runner_recall(struct runner *runner);

/* Stop reading what it sends, or go on. Results stay in our memory until the database has them. */
void runner_pause(struct runner *runner, bool pause);

/* Jobs in it, started or not. */
size_t runner_load(const struct runner *runner);

/* The job that it says it is running; NULL: none. timeout_ms as given to runner_send(). */
const struct job *runner_running(struct runner *runner, uint64_t *started_ns, int64_t *timeout_ms);

/* The same, or else its first job, which it is about to begin, or runs without saying so. The others of its batch
 * follow. *n is 0 for the first one, and is moved on. NULL: there is no more. */
const struct job *runner_current(const struct runner *runner, unsigned int *n);

/* How many jobs it says it is running. */
size_t runner_running_jobs(struct runner *runner);

/* The time at which the runner must be killed unless it answers; UINT64_MAX: never. If the limit of its first job is
 * the reason, timeout_ms is that limit; 0: it has stalled. */
uint64_t runner_limit_ns(struct runner *runner, int64_t *timeout_ms);

/* Has it a job of this job's key? */
bool runner_has_key(const struct runner *runner, const struct job *job);

/* Call f for each job it has. */
void runner_each_job(const struct runner *runner, void (*f)(void *data, struct job *job), void *data);

void runner_ask_stop(struct runner *runner);

/* Some current jobs were cancelled: the function is asked to end these, and a command whose jobs all were gets SIGTERM.
 */
void runner_ask_cancelled(struct runner *runner);

/* Call f with the last report about each job that runs. */
void runner_each_progress(struct runner *runner, void (*f)(void *data, const struct job_progress *progress),
			  void *data);

/* The step that the running function waits for; NULL: none. Then the answer to it: enum deferred_step. */
struct job_step *runner_step(const struct runner *runner);
void runner_answer_step(struct runner *runner, int result);

/* Signal its whole process group. The attempt that runs now ends as `why`, with this text. */
void runner_kill(struct runner *runner, int sig, enum job_outcome why, const char *text);
bool runner_killed(const struct runner *runner);
bool runner_deaf(const struct runner *runner); /* its end of the socket is closed: it can be given nothing more */

/* End the conversation: it gets no more calls, and leaves when it has finished those it has. */
void runner_quit(struct runner *runner);

/* It was killed, and that takes unusually long: log why it was killed. */
void runner_log_alive(const struct runner *runner);

/*
 * It was killed and does not die, because it is stuck in the kernel. The jobs that it has not begun come back by
 * runner_recall(). Returns the jobs it runs as a list. They may still run, so only the end of their lease may free
 * them.
 */
struct job *runner_give_up(struct runner *runner);

/*
 * It has died with this wait status. The attempt it was running ends as the status says. The jobs it had not started
 * come back by runner_recall(). Returns the plugin file that it died in loading, borrowed, or NULL.
 */
const char *runner_reaped(struct runner *runner, int status);

#endif
