/* SPDX-License-Identifier: MIT */
/*
 * program_process - programs of the config file, and their processes, which execute one job after another.
 *
 *     STARTING -> IDLE <-> BUSY, then LEAVING
 *
 * A process reads messages from descriptor 3 and writes messages to descriptor 4; its descriptors 1 and 2 are a pipe
 * for the log. A process that leaves has its descriptor 3 closed, and its replacement starts at once. The end of a
 * process is noticed by its pidfd alone, because its children may hold its pipes.
 */
#ifndef PROGRAM_PROCESS_H
#define PROGRAM_PROCESS_H

#include "program_message.h"
#include "runner_process.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* Files that a program needs here, with the one that replaces it. */
#define PROGRAM_FILES 10

#define PROCESS_TAIL_MAX 2048
#define PROCESS_TEXT_MAX 4096 /* of an error: what is wrong, and the tail of the output */

struct announced {
	char *name;
	int64_t timeout_ms;
	int32_t max_attempts;
	int32_t batch, batch_wait_ms; /* the most jobs of a list; 0: it takes one job */
	bool progress_resets;
};

struct program {
	struct frame_program limits;
	char *name, *directory;
	char **argv, **watch;
	struct process *now;        /* which gets the next job; NULL: none */
	size_t failures;            /* starts in a row that failed */
	uint64_t retry_ns;          /* no start before that */
	char why[PROCESS_TEXT_MAX]; /* of the last start that failed */
	char version[65];
	bool known, changed;         /* it became ready; it did so again, with another version or other functions */
	struct announced *functions; /* of the process that became ready last */
	size_t functions_len;
	uint64_t looked_ns; /* at the watched paths */
};

struct process {
	struct process *next;
	struct program *program;
	enum { PROCESS_STARTING, PROCESS_IDLE, PROCESS_BUSY, PROCESS_LEAVING } state;
	pid_t pid;
	int to, from, output, pidfd, statm; /* -1: closed */
	clockid_t cpu_clock;
	uint64_t limit_ns; /* it is killed unless it is ready, or has left; UINT64_MAX: never */
	int64_t jobs, jobs_max;
	struct iovec *out; /* to be written */
	size_t out_len, out_cap;
	char *settings;   /* the first of that */
	struct outgoing { /* for each job of the largest batch so far */
		struct message_head call;
		char stop[2][96];
		char stepped[96];
	} * outgoing;
	size_t outgoing_len;
	char *in; /* read and not yet taken */
	size_t in_len, in_cap, in_scanned;
	char line[1024]; /* of its output, not yet ended */
	size_t line_len;
	char tail[PROCESS_TAIL_MAX + 1]; /* the last bytes that it printed for this job */
	size_t tail_len;
	struct announced *functions;
	size_t functions_len;
	struct stat *watched; /* as the paths were when it was started */
};

/* Start a process. False: it failed, as program->why says. */
bool process_start(struct program *program);

/* Wait until a process or one of `more` has something to read, at the latest until limit_ns. If busy is not NULL, the
 * other idle ones are not waited for. */
void process_poll(const struct process *busy, struct pollfd *more, size_t n, uint64_t limit_ns);

/* Append bytes, which stay where they are until they are written. */
void process_send(struct process *p, const void *data, size_t len);
void process_flush(struct process *p);

/* Log the output that is there. */
void process_drain_output(struct process *p);

/* It gets no more jobs. With `replace` another one starts. */
void process_leave(struct process *p, bool replace);

/* End it at once, with its group. */
void process_kill(struct process *p);

bool process_watched_changed(struct process *p, uint64_t now_ns);
uint64_t process_cpu_us(const struct process *p);
uint64_t process_rss_kb(const struct process *p);
bool process_is_large(const struct process *p); /* larger than max_memory */

/* Called with messages, output and the end of the process that has a job. take() returns NULL, or a fault. */
struct process_handlers {
	const char *(*take)(struct process *p, const struct message *message, const char *body);
	void (*faulted)(struct process *p, const char *text);
	void (*ended)(struct process *p, int status, const struct rusage *used);
	void (*log)(const char *line, size_t len);
};
extern const struct process_handlers *process_handlers;

bool process_any(void); /* is there one, perhaps leaving? */

#endif
