/* SPDX-License-Identifier: MIT */
#include "run/runner_output.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void log_output_line(struct runner_output *o, const struct child *child, const struct calls *calls)
{
	const struct job *job;

	if (o->line_len == 0)
		return;
	job = calls_running_job(calls);
	if (job)
		log_job(LOG_L_INFO, job, "job %lld %s: %.*s", (long long)job->id, job->fn, (int)o->line_len, o->line);
	else
		log_line(LOG_L_INFO, "runner %d: %.*s", (int)child->pid, (int)o->line_len, o->line);
	o->line_len = 0;
}

/* The backtrace behind the mark is not logged, and its beginning is kept. Other bytes than text become "?". */
static void add_trace(struct runner_output *o, const char *data, size_t n)
{
	for (size_t i = 0; i < n && o->trace_len < OUTPUT_TRACE_MAX; i++)
		if (data[i] != FRAME_CRASH_MARK)
			o->trace[o->trace_len++] =
				(data[i] >= ' ' && data[i] <= '~') || data[i] == '\n' ? data[i] : '?';
}

static void add_tail(struct runner_output *o, const char *data, size_t n)
{
	size_t keep = n < OUTPUT_TAIL_MAX ? n : OUTPUT_TAIL_MAX;

	if (o->tail_len + keep > OUTPUT_TAIL_MAX) {
		size_t drop = o->tail_len + keep - OUTPUT_TAIL_MAX;

		memmove(o->tail, o->tail + drop, o->tail_len - drop);
		o->tail_len -= drop;
	}
	memcpy(o->tail + o->tail_len, data + n - keep, keep);
	o->tail_len += keep;
}

static void add_lines(struct runner_output *o, const struct child *child, const struct calls *calls, const char *data,
		      size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (data[i] == '\n' || o->line_len == sizeof(o->line))
			log_output_line(o, child, calls);
		if (data[i] != '\n')
			o->line[o->line_len++] = data[i];
	}
}

static void add_output(struct runner_output *o, const struct child *child, const struct calls *calls, const char *data,
		       size_t n)
{
	const char *mark = o->crashing ? NULL : memchr(data, FRAME_CRASH_MARK, n);
	size_t before = o->crashing ? 0 : mark ? (size_t)(mark - data) : n;

	add_tail(o, data, before);
	add_lines(o, child, calls, data, before);
	if (mark) {
		log_output_line(o, child, calls);
		o->crashing = true;
		o->trace_len = 0;
	}
	add_trace(o, data + before, n - before);
}

void runner_output_read(struct runner_output *o, struct child *child, const struct calls *calls)
{
	uint64_t began_ns = clock_ns();
	char buf[4096];
	ssize_t n = 1;

	if (child->output < 0)
		return;
	for (int reads = 0; child_may_read(child, reads, began_ns) && (n = read(child->output, buf, sizeof(buf))) > 0;
	     reads++)
		add_output(o, child, calls, buf, (size_t)n);
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		close(child->output);
		child->output = -1;
		log_output_line(o, child, calls);
	}
}
