/* SPDX-License-Identifier: MIT */
/*
 * frame - messages between check_deferred and a runner: a head, then that many bytes. Both run on one machine from one
 * build, so numbers go as they lie in memory. Frames of a runner are not trusted.
 */
#ifndef FRAME_H
#define FRAME_H

#include "base/traceparent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of the protocol and the build, argument 2 of the runner. Parent and runner must agree on it. */
#define FRAME_BUILD_FORMAT "%s:%zu:%zu:%zu"
#define FRAME_BUILD_ARGS DEFERRED_VERSION, sizeof(struct board), sizeof(struct frame_call), sizeof(struct frame_program)

/* Descriptors a runner is started with. */
#define FRAME_SOCKET_FD 3
#define FRAME_BOARD_FD 4
#define FRAME_STOP_FD 5 /* an eventfd: readable when some call on the board was cancelled */

enum frame_type {
	/* to the runner, in this order before the first call */
	FRAME_SETTING = 1, /* name\0 value\0 */
	FRAME_PROGRAM,     /* struct frame_program, name\0 directory\0, then arguments and watched paths */
	FRAME_COMMAND,     /* struct frame_function, name\0, then the arguments, each ended by \0; or its program */
	FRAME_PASS_OVER,   /* file\0: a plugin that must not be loaded */
	FRAME_START,       /* struct frame_start, plugin_dir\0: load the plugins, then take calls */
	FRAME_CALL,        /* struct frame_call, fn\0 label\0 params\0 parents\0 steps\0 */
	FRAME_REMOVE,      /* path\0, or a ticket of beneath.h: remove this file */
	/* from the runner */
	FRAME_FUNCTION, /* struct frame_function, name\0 plugin\0 */
	FRAME_LOADING,  /* file\0: this plugin is being loaded */
	FRAME_REFUSED,  /* file\0 text\0: a plugin that was not loaded; slot 1: a program that was not started */
	/* message\0 hint\0: the plugins cannot be used. Slot 1: a setting is wrong. 0: a plugin is not trusted. */
	FRAME_FATAL,
	FRAME_READY,
	FRAME_RESULT,       /* text */
	FRAME_ERROR,        /* text */
	FRAME_LOG,          /* int32_t level, text */
	FRAME_FOLLOW,       /* fn\0 params\0 opts\0 ("" if none) */
	FRAME_REMOVE_AFTER, /* the same, for FRAME_REMOVE */
	FRAME_STEP,         /* uint32_t number, name\0 value\0: a step; the board has the answer */
	FRAME_BELL,         /* look at the board */
	FRAME_CLASH,        /* as FRAME_FUNCTION, plugin: which two have it. No call of it is taken */
	FRAME_CHANGED,      /* file\0: this plugin has changed on disk; slot 1: it is gone */
	/* within the runner, from the process that looks what the plugins hold */
	FRAME_ENTRY, /* name\0 file\0: a function and where it is */
};

struct frame_head {
	uint32_t len; /* bytes that follow */
	uint16_t type;
	uint16_t slot; /* of the board, where it is about a call */
};

#define FRAME_FROM_RUNNER_MAX (4u << 20)

/* The limits of the calls and paths that an attempt hands over for its success: their number and their bytes. Each
 * counts FRAME_ASK_BYTES more for its storage. The runner enforces the limits, and the parent checks them again. */
#define FRAME_ASKS_MAX 10000
#define FRAME_ASK_BYTES 64
#define FRAME_ASK_BYTES_MAX (4u << 20)
#define FRAME_ASKS_TEXT \
	"the function asked for more to be deferred or removed than an attempt may: 10000 calls and paths, 4 MiB"

/* From here on the output of the function is the backtrace of its crash. It belongs to the log row, not to the log. */
#define FRAME_CRASH_MARK '\036'

/* Structs without padding, whose bytes would be sent unset. */
struct frame_start {
	uint32_t owner_uid;
	uint16_t isolate_job;
	uint8_t probe;     /* start all programs; a clash of the name of a program says what is wrong with it */
	uint8_t debug;     /* one of these: */
#define FRAME_DEBUG_STOP 1 /* stop by SIGTRAP, whose value is the function, before it is called */
#define FRAME_DEBUG_HERE 2 /* call it in the runner, not in a process of its own with its limits */
	int64_t cpu_ms, memory_bytes, files, processes; /* limits; 0: none */
	int64_t kill_after_ms;
};

struct frame_function {
	int64_t timeout_ms;
	int32_t max_attempts;
	uint32_t flags;               /* of a plugin's function: DEFERRED_...; of a command: */
#define FRAME_NEW_PRIVILEGES 1u       /* what it executes may gain rights, as setuid programs do */
#define FRAME_PROGRESS_RESETS 2u      /* DEFERRED_PROGRESS_RESETS of a plugin */
#define FRAME_OF_PROGRAM (1u << 31)   /* it is a function of a program, which no plugin's is */
	int32_t batch, batch_wait_ms; /* the most jobs that it takes at once; 0: one */
};

struct frame_program {
	int64_t max_jobs, max_memory; /* 0: no limit */
	int64_t start_timeout_ms, timeout_ms;
	int32_t max_attempts;
	uint16_t declared;  /* it offers only functions that the config file names, and is started when one is called */
	uint16_t arguments; /* their number */
};
_Static_assert(sizeof(struct frame_start) == 6 * 8 && sizeof(struct frame_program) == 5 * 8, "no padding");

struct frame_call {
	int64_t id, created_at_us, ready_at_us, tick_us, previous_tick_us, timeout_ms;
	uint32_t plain_crash; /* report a crash without symbols, see crashes.h */
	uint32_t more;        /* calls of the same batch that follow right behind */
	int64_t token; /* of this job's claim (token.h); the receipt, which holds other jobs too, never gets here */
	int32_t attempt;
	uint32_t params_len, parents_len, steps_len;
	char traceparent[TRACEPARENT_SIZE];
};

/* Bytes waiting to be sent, or received and not yet taken. */
struct frame_buf {
	char *data;
	size_t at, len, cap; /* data[at .. len) is live */
};

void frame_buf_clear(struct frame_buf *buf);

/* Append one frame made of up to n parts. Returns 0, or -1 when out of memory. */
struct frame_part {
	const void *data;
	size_t len;
};
int frame_put(struct frame_buf *buf, enum frame_type type, unsigned int slot, const struct frame_part *parts, size_t n);

/* The same for one or two texts, each with its NUL. b may be NULL. */
int frame_put_texts(struct frame_buf *buf, enum frame_type type, const char *a, const char *b);

/* Take the next whole frame. payload points into buf until the next frame_fill(). It is moved over its head, which
 * makes room for a NUL after it, so that text can be read as a string. Returns 1; 0: incomplete; -1: longer than
 * max. */
int frame_take(struct frame_buf *buf, struct frame_head *head, char **payload, size_t max);

/* Read what is there. Returns 1; 0 at the end of the stream; -1 on failure (errno; EAGAIN: nothing there). */
int frame_fill(struct frame_buf *buf, int fd, int flags);

/* Write what fits. Returns 0 when all is out or the socket is full, -1 on failure (errno). */
int frame_flush(struct frame_buf *buf, int fd, int flags);

/* Next NUL-terminated text of a payload; moves *at behind it. NULL: the payload ends before. */
const char *frame_text(const char *payload, size_t len, size_t *at);

#endif
