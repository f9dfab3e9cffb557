/* SPDX-License-Identifier: MIT */
/*
 * log - one line per event on standard error, made for 2>>/var/log/deferred.log:
 *
 *     2026-01-31T23:59:59.123Z check_deferred[4711] warning: job 17 send_mail attempt 2: failed: ...
 *
 * Under systemd (JOURNAL_STREAM names standard error) the line begins with <N> for the journal and
 * carries no time. A line is written by one write(2), and shows what visible.h makes of the text, so
 * that no text of a job can forge a line or split one. A process may have asked not to wait for that: then it may be
 * several.
 *
 * Or one JSON object a line, at most 8 KiB: ts, level, program, pid, event; of a job that is tried job, queue, fn,
 * attempt, and its traceparent, if any; of an attempt that ended also outcome, final, wait_ms, run_ms and retry_ms; and
 * msg, the text that the line above has. Control characters, and bytes that are no UTF-8, are in there as in the text.
 * Or the same fields as logfmt, name=value with a blank between them, where all but words and numbers are quoted as in
 * JSON.
 */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_L_ERROR = 1, LOG_L_WARNING, LOG_L_INFO, LOG_L_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON, LOG_LOGFMT }; /* in the order of the setting's choices */

/* program: name in the lines. Before there are threads. */
void log_init(const char *program, enum log_level level);
void log_set_level(enum log_level level);    /* at any time */
void log_set_format(enum log_format format); /* the same */
bool log_enabled(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * For a process that must not wait for who reads its log: a line that finds no room is kept, or lost when too much is;
 * how many are missing is said in the log as soon as there is room. For one thread; see outlet.h.
 */
void log_never_wait(void);
int log_waits_fd(void);          /* lines are kept: to be polled for POLLOUT, then log_flush(); else -1 */
void log_flush(int patience_ms); /* at the end: so long there may come some room */

/* The same of an attempt that has ended: in the text none of its fields shows but the trace context, at its end. */
struct log_attempt {
	const char *queue, *fn, *outcome, *traceparent; /* the last: "" if none */
	int64_t job;
	int attempt;
	bool final;
	int64_t wait_ms, run_ms, retry_ms; /* retry_ms negative: it is not tried again */
};
void log_attempt(enum log_level level, const struct log_attempt *attempt, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* And of one that has not ended, or whose end was told before: event job, and no outcome, final and times. */
struct job;
void log_job(enum log_level level, const struct job *job, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
