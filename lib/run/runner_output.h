/* SPDX-License-Identifier: MIT */
/* runner_output - what a runner prints: lines for the log, the last of them for an error, and backtraces. */
#ifndef RUNNER_OUTPUT_H
#define RUNNER_OUTPUT_H

#include "run/calls.h"
#include "run/child.h"

#define OUTPUT_LINE_MAX 1024
#define OUTPUT_TAIL_MAX 2048
#define OUTPUT_TRACE_MAX 4096

struct runner_output {
	char line[OUTPUT_LINE_MAX]; /* not yet ended */
	size_t line_len;
	char tail[OUTPUT_TAIL_MAX]; /* the last bytes it printed */
	size_t tail_len;
	bool crashing;                /* it prints a backtrace */
	char trace[OUTPUT_TRACE_MAX]; /* the first bytes of the backtrace */
	size_t trace_len;
};

/* Read what there is, or as much as fits into a turn. Lines are logged for the job that runs. */
void runner_output_read(struct runner_output *output, struct child *child, const struct calls *calls);

#endif
