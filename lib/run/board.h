/* SPDX-License-Identifier: MIT */
/*
 * board - memory shared by check_deferred and one runner, in which calls are ticked off.
 *
 * A call travels to the runner as a frame (frame.h) and is known by its slot. Its state moves
 *
 *     FREE -> QUEUED -> RUNNING -> DONE -> FREE
 *                   \-> RECALLED -> FREE
 *
 * QUEUED, RECALLED and DONE -> FREE are set by the parent, the others by the runner. QUEUED is left by
 * compare-and-swap, so a call is either started or recalled, never both. The runner sends the texts of a
 * call before it sets DONE, and takes calls in the order they were given. The calls of a batch are RUNNING together.
 *
 * Plugins run in the runner and may overwrite the board, so its contents are only claims of the runner. The parent
 * itself knows which calls it sent, in which order, and when the first can have begun (calls.c). A function in a
 * process of its own gets a page for its call instead of the board.
 */
#ifndef BOARD_H
#define BOARD_H

#include "base/progress.h"
#include "deferred_plugin.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define BOARD_SLOTS 256

enum { BOARD_FREE, BOARD_QUEUED, BOARD_RUNNING, BOARD_DONE, BOARD_RECALLED };

/* The function closed, or put something else into the place of, the socket that its answer goes through. */
#define BOARD_ANSWER_LOST (-3)

/* The time limit ended the job of a program, whose runner goes on. */
#define BOARD_TIMED_OUT (-4)

/* A command or a program answered for its batch in a way that cannot be understood. */
#define BOARD_BROKEN (-5)

struct board_slot {
	_Atomic uint32_t state;
	int32_t result;         /* enum deferred_result, or -1: it crashed in a process of its own; or as above */
	int32_t exit_code;      /* -1: none */
	int32_t signal;         /* 0: none */
	int64_t retry_after_ms; /* -1: not asked for */
	uint64_t started_ns, finished_ns; /* clock_ns() */
	uint64_t user_us, sys_us, max_rss_kb;
	uint64_t bytes_sent;        /* frames of the runner up to this call, in all */
	_Atomic uint32_t cancelled; /* set by the parent: the function should come to an end */
	_Atomic uint32_t step;      /* set by the parent: BOARD_STEP() of the last step that it answered; 0: none */
};

/* The answer to a step: its number, and enum deferred_step. */
#define BOARD_STEP(number, result) ((number) << 3 | (uint32_t)-(result))

/* The last report about a call: it costs the function no system call and wakes nobody, however often it
 * comes.
 * The sequence number is odd while it is being written, and moves on by 2 with each report. */
struct board_progress {
	_Atomic uint32_t seq;
	int64_t done, total;  /* below 0: not told */
	uint64_t reported_ns; /* clock_ns() */
	uint32_t text_len;
	char text[PROGRESS_TEXT_MAX];
};

struct board {
	_Atomic uint32_t stop; /* set by the parent: functions should come to an end */
	struct board_slot slot[BOARD_SLOTS];
	struct board_progress progress[BOARD_SLOTS];
};
_Static_assert(2 * DEFERRED_BATCH_MAX <= BOARD_SLOTS, "one batch runs, and the next one waits behind it");

/* The same for one call in a process of its own. The runner copies what it needs of it to and from the board. */
struct board_page {
	_Atomic uint32_t stop;
	struct board_progress progress;
	struct board_slot slot;
};

/* In the runner. text may be longer than what is kept. */
static inline void board_report(struct board_progress *p, int64_t done, int64_t total, const char *text, size_t len,
				uint64_t now)
{
	uint32_t seq = atomic_load_explicit(&p->seq, memory_order_relaxed) | 1; /* odd already: its writer was killed */

	atomic_store_explicit(&p->seq, seq, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	p->done = done;
	p->total = total;
	p->reported_ns = now;
	p->text_len = (uint32_t)(len < PROGRESS_TEXT_MAX ? len : PROGRESS_TEXT_MAX);
	if (p->text_len > 0)
		memcpy(p->text, text, p->text_len);
	/* Never 0, which stands for none. */
	atomic_store_explicit(&p->seq, seq + 1 ? seq + 1 : 2, memory_order_release);
}

/* In the parent. False: nothing was reported, or it is just being written. */
static inline bool board_read_progress(const struct board_progress *p, struct board_progress *copy)
{
	uint32_t seq = atomic_load_explicit(&p->seq, memory_order_acquire);

	if (seq == 0 || (seq & 1))
		return false;
	memcpy(copy, p, sizeof(*copy));
	atomic_thread_fence(memory_order_acquire);
	copy->seq = seq;
	if (copy->text_len > PROGRESS_TEXT_MAX)
		copy->text_len = PROGRESS_TEXT_MAX;
	return atomic_load_explicit(&p->seq, memory_order_relaxed) == seq;
}

#endif
