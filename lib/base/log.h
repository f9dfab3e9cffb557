/* SPDX-License-Identifier: MIT */
/*
 * log - one line per event on standard error, made for 2>>/var/log/deferred.log:
 *
 *     2026-01-31T23:59:59.123Z check_deferred[4711] warning: job 17 send_mail attempt 2: failed: ...
 *
 * Under systemd (JOURNAL_STREAM names standard error) the line begins with <N> for the journal and carries no time. A
 * line is written by one write(2). Its text passes through visible.h, so that no text of a job can forge or split a
 * line. A process that does not wait for the reader may need several writes.
 *
 * The second form is one JSON object a line, at most 8 KiB. It has ts, level, program, pid, event and msg, the text of
 * the first form. Lines about an attempt add job, queue, fn, attempt, and traceparent if there is one. Lines about its
 * end add outcome, final, wait_ms, run_ms and retry_ms. Control characters, and bytes that are no UTF-8, are in there
 * as in the text. The third form is logfmt: the same fields as name=value, separated by a space. All but words and
 * numbers are quoted as in JSON.
 */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

struct deferred_error;

enum log_level { LOG_L_ERROR = 1, LOG_L_WARNING, LOG_L_INFO, LOG_L_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON, LOG_LOGFMT }; /* in the order of the setting's choices */

/* program: name in the lines. Before there are threads. */
void log_init(const char *program, enum log_level level);
void log_set_level(enum log_level level);    /* at any time */
void log_set_format(enum log_format format); /* the same */
bool log_enabled(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The text, then the message of err and its hint. */
void log_error(enum log_level level, const struct deferred_error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * For a process that must not wait for the reader of its log. A line that finds no room is kept, or lost when too much
 * is kept. The log names the number of lost lines as soon as there is room. For one thread; see outlet.h.
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

/* The same for an attempt that has not ended, or whose end is logged already: event job, without outcome, final and
 * times. */
struct job;
void log_job(enum log_level level, const struct job *job, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
