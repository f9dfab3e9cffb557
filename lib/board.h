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
 * call before it sets DONE; what the parent finds on the board when the runner has died is therefore the
 * truth: DONE calls are done, RUNNING is the one that died, QUEUED ones were not started.
 *
 * Plugins run in the runner and may scribble here: the parent checks what it reads.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#define BOARD_SLOTS 256
#define BOARD_NAME_MAX 256

enum { BOARD_FREE, BOARD_QUEUED, BOARD_RUNNING, BOARD_DONE, BOARD_RECALLED };

struct board_slot {
	_Atomic uint32_t state;
	int32_t result;          /* enum deferred_result, or -1: it crashed in a process of its own */
	int32_t exit_code;       /* -1: none */
	int32_t signal;          /* 0: none */
	int64_t retry_after_ms;  /* -1: not asked for */
	uint64_t started_ns, finished_ns; /* clock_ns() */
	uint64_t user_us, sys_us, max_rss_kb;
	uint64_t bytes_sent;     /* frames of the runner up to this call, in all */
};

struct board {
	_Atomic uint32_t stop;       /* set by the parent: functions should come to an end */
	_Atomic uint32_t crashing;   /* a backtrace is being printed: for the log row, not for the log */
	_Atomic uint32_t loading;    /* the runner is inside dlopen() of loading_file */
	char loading_file[BOARD_NAME_MAX];
	struct board_slot slot[BOARD_SLOTS];
};

#endif
