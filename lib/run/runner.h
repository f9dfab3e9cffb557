/* SPDX-License-Identifier: MIT */
/*
 * runner - the parent's side of a runner: start it, hand it jobs, learn how they ended, kill it completely.
 *
 * A runner is build/bin/deferred_runner: exec'd, in a process group of its own, killed by the kernel when
 * we die, with a scrubbed environment (DEFERRED_INSTANCE names the instance it belongs to) and nothing open
 * but its socket, its board and a pipe for what it prints.
 *
 * Order of calls: runner_init_process() once; runner_spawn(); then, whenever the fds of runner_pollfds() are
 * ready, runner_read(); runner_take() until NULL for the attempts that have ended; runner_send() and
 * runner_flush() for more jobs. When a child has died, runner_reaped() says so to the one it was; its
 * attempts can then be taken and it is freed.
 *
 * Jobs given to a runner belong to it until they come back as an attempt or by runner_recall().
 */
#ifndef RUNNER_H
#define RUNNER_H

#include "base/attempt.h"
#include "run/board.h"
#include "port/config.h"
#include "base/error.h"
#include "base/progress.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>

/* What every runner of a run is started with. */
struct runner_setup {
	const struct config *config;
	const char *program;    /* path of deferred_runner */
	const char *plugin_dir; /* NULL: no plugins, only commands */
	const char *instance;   /* for DEFERRED_INSTANCE */
	bool switch_user;
	uid_t uid; /* where switch_user */
	gid_t gid;
	const char *user;
	char home[512], shell[256]; /* of that user */
	struct runner_passed_over {
		char *file;
		unsigned int times; /* in a row */
		uint64_t until_ns;  /* runners started from then on load it */
	} * passed_over;            /* plugins with which runners died while loading them */
	size_t passed_over_len;
};

/* A function some runner has loaded. */
struct runner_function {
	char *name;
	char *plugin; /* "NAME VERSION BUILD", or "command"; where it clashes, why it is refused */
	bool clash;   /* it is refused: it is here twice, or others can write its command */
	int64_t timeout_ms;
	int32_t max_attempts; /* -1: it clashes */
	uint32_t flags;
};

struct runner;

/* Make this process the one to which orphans of functions fall, so that they can be swept. Children it has by now are
 * spared. */
void runner_init_process(void);

/* Path of deferred_runner: beside the running program where that was built, in libexec where it was installed. */
const char *runner_program(char path[PATH_MAX]);

int runner_spawn(struct runner **runner, const struct runner_setup *setup, struct deferred_error *err);
void runner_free(struct runner *runner); /* must have been reaped or given up, or never spawned */

pid_t runner_pid(const struct runner *runner);
bool runner_ready(const struct runner *runner); /* plugins are loaded */

/* Fill in two pollfds: socket and output pipe (fd -1 where there is none). */
void runner_pollfds(const struct runner *runner, struct pollfd fds[2]);

/* Read what there is, or as much of it as fits into a turn: then the fds are still ready. Returns 0, or a negative code
 * with err when the runner must not go on: DEFERRED_EPLUGIN or DEFERRED_ECONFIG (its plugins cannot be used at all; the
 * run is over; only before it is ready) or DEFERRED_EFAILED (it wrote nonsense to its socket or board: kill it). */
int runner_read(struct runner *runner, struct deferred_error *err);

/* Functions it reported since the last call; the caller takes them over. */
struct runner_function *runner_take_functions(struct runner *runner, size_t *len);

/* Give it a job. Returns false when it has no free slot. */
bool runner_send(struct runner *runner, struct job *job, int64_t timeout_ms, const char *plugin, bool plain_crash);
bool runner_remove_file(struct runner *runner, const char *path); /* false: it has too much of that to do already */
int runner_flush(struct runner *runner);                          /* 0, or -1: it cannot be written to any more */

/* Next attempt that has ended; NULL: none. */
struct attempt *runner_take(struct runner *runner);

/* Take back the jobs it has not started, as a list. The first of those it has is taken for started while it lives. */
struct job *runner_recall(struct runner *runner);

/* Do not read what it sends, or read it again. What functions have sent and the database does not have yet is in our
 * memory. */
void runner_pause(struct runner *runner, bool pause);

/* Jobs in it, started or not. */
size_t runner_load(const struct runner *runner);

/* The job it says it is at: NULL if none. timeout_ms as given to runner_send(). */
const struct job *runner_running(struct runner *runner, uint64_t *started_ns, int64_t *timeout_ms);

/* The same, or else the first of those it has, which it is about to begin, or has and does not say so. NULL if it has
 * none. */
const struct job *runner_current(const struct runner *runner);

/* When it is to be killed unless something comes of it. timeout_ms: as given to runner_send(), where the time of the
 * first job will be up then; 0 where the runner will have stalled. UINT64_MAX: never. */
uint64_t runner_limit_ns(struct runner *runner, int64_t *timeout_ms);

/* For each job it holds. */
void runner_each_job(const struct runner *runner, void (*f)(void *data, struct job *job), void *data);

void runner_ask_stop(struct runner *runner);

/* The current job was cancelled: the function is asked to end, a command gets SIGTERM. */
void runner_ask_cancelled(struct runner *runner);

/* What the function that runs said last of its progress. */
bool runner_progress(const struct runner *runner, struct job_progress *progress); /* false: nothing */

/* Signal its whole process group. why: what the attempt that runs now is to be recorded as. */
void runner_kill(struct runner *runner, int sig, enum job_outcome why, const char *text);
bool runner_killed(const struct runner *runner);
bool runner_deaf(const struct runner *runner); /* its end of the socket is closed: it cannot be given anything more */

/* Its end of the conversation: no more calls; it leaves when it has done what it has. */
void runner_quit(struct runner *runner);

/* It was killed, which takes unusually long: say why it was. */
void runner_tell_alive(const struct runner *runner);

/* It was killed and does not die: it is stuck in the kernel. The jobs it has not begun come back by runner_recall().
 * Returns the one it is at, or NULL. That job may still run, so only the end of its lease may free it. */
struct job *runner_give_up(struct runner *runner);

/* It has died with this wait status. The attempt it was at ends as the status says; what it had not started
 * comes back by runner_recall(). Returns the plugin file that it died in loading, else NULL (borrowed). */
const char *runner_reaped(struct runner *runner, int status);

#endif
