/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/error.h"
#include "base/outlet.h"
#include "base/job.h"
#include "base/text/plural.h"
#include "base/text/visible.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192

static const struct {
	const char *name;
	int journal; /* syslog priority */
} levels[] = {
	[LOG_L_ERROR] = { "error", 3 },
	[LOG_L_WARNING] = { "warning", 4 },
	[LOG_L_INFO] = { "info", 6 },
	[LOG_L_DEBUG] = { "debug", 7 },
};

static const char *program = "deferred";
static _Atomic enum log_level threshold = LOG_L_INFO;
static bool to_journal;
static _Atomic enum log_format format = LOG_TEXT;
static struct outlet out;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER; /* threads of the HTTP front */

/* JOURNAL_STREAM is DEVICE:INODE of the stream systemd made; it is ours only if fd 2 still is that. */
static bool stderr_is_journal(void)
{
	const char *s = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return s && sscanf(s, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	       (unsigned long long)st.st_dev == dev && (unsigned long long)st.st_ino == ino;
}

void log_init(const char *name, enum log_level level)
{
	program = name;
	threshold = level;
	to_journal = stderr_is_journal();
}

void log_set_level(enum log_level level)
{
	threshold = level;
}

bool log_enabled(enum log_level level)
{
	return level <= threshold;
}

void log_set_format(enum log_format wanted)
{
	format = wanted;
}

struct line {
	enum log_format format;
	size_t len;
	char text[LINE_MAX_BYTES];
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *fmt, ...)
{
	size_t room = sizeof(line->text) - line->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line->text + line->len, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		line->len += (size_t)n < room ? (size_t)n : room - 1;
}

/* A text as visible.h shows it, as long as `keep` bytes are left; between quotes with what is special there escaped. */
static void add_visible(struct line *line, const char *text, bool quoted, size_t keep)
{
	char shown[VISIBLE_MAX];

	while (*text && line->len + keep + 2 * VISIBLE_MAX < sizeof(line->text)) {
		text += visible_char(text, shown);
		for (const char *p = shown; *p; p++) {
			if (quoted && (*p == '"' || *p == '\\'))
				line->text[line->len++] = '\\';
			line->text[line->len++] = *p;
		}
	}
}

static void log_add_time(struct line *line)
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	line->len += strftime(line->text + line->len, sizeof(line->text) - line->len, "%Y-%m-%dT%H:%M:%S", &tm);
	add(line, ".%03ldZ", now.tv_nsec / 1000000);
}

/* Each field but the first, which is the time. */
static void log_add_name(struct line *line, const char *name)
{
	add(line, line->format == LOG_JSON ? ",\"%s\":" : " %s=", name);
}

static void add_number(struct line *line, const char *name, int64_t value)
{
	log_add_name(line, name);
	add(line, "%lld", (long long)value);
}

/* In logfmt a plain word is not quoted. Anything that a reader could take for more than a word is quoted, as in
 * JSON. */
static void log_add_string(struct line *line, const char *name, const char *value)
{
	static const char of_words[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:";
	bool word = line->format == LOG_LOGFMT && *value && value[strspn(value, of_words)] == '\0';

	log_add_name(line, name);
	add(line, word ? "" : "\"");
	add_visible(line, value, !word, sizeof(line->text) / 2);
	add(line, word ? "" : "\"");
}

static void add_fields(struct line *line, enum log_level level, const struct log_attempt *a, const char *text)
{
	const char *quote = line->format == LOG_JSON ? "\"" : "";

	add(line, line->format == LOG_JSON ? "{\"ts\":" : "ts=");
	add(line, "%s", quote);
	log_add_time(line);
	add(line, "%s", quote);
	log_add_string(line, "level", levels[level].name);
	log_add_string(line, "program", program);
	add_number(line, "pid", getpid());
	log_add_string(line, "event", !a ? "message" : a->outcome ? "attempt" : "job");
	if (a) {
		add_number(line, "job", a->job);
		add_number(line, "attempt", a->attempt);
	}
	if (a && a->outcome) {
		log_add_name(line, "final");
		add(line, a->final ? "true" : "false");
		add_number(line, "wait_ms", a->wait_ms);
		add_number(line, "run_ms", a->run_ms);
		if (a->retry_ms >= 0)
			add_number(line, "retry_ms", a->retry_ms);
		log_add_string(line, "outcome", a->outcome);
	}
	if (a) {
		log_add_string(line, "queue", a->queue);
		log_add_string(line, "fn", a->fn);
		if (a->traceparent[0])
			log_add_string(line, "traceparent", a->traceparent);
	}
	log_add_name(line, "msg");
	add(line, "\"");
	add_visible(line, text, true, sizeof("\"}\n"));
	add(line, line->format == LOG_JSON ? "\"}" : "\"");
}

static void make_line(struct line *line, enum log_level level, const struct log_attempt *a, const char *text)
{
	if (to_journal)
		add(line, "<%d>", levels[level].journal);
	line->format = format;
	if (line->format != LOG_TEXT) {
		add_fields(line, level, a, text);
	} else {
		if (!to_journal) {
			log_add_time(line);
			add(line, " %s[%d] ", program, (int)getpid());
		}
		add(line, "%s: ", levels[level].name);
		add_visible(line, text, false,
			    a && a->traceparent[0] ? sizeof("; traceparent \n") + VISIBLE_MAX * TRACEPARENT_SIZE
						   : sizeof("\n"));
		if (a && a->traceparent[0]) {
			add(line, "; traceparent ");
			add_visible(line, a->traceparent, false, sizeof("\n"));
		}
	}
	line->text[line->len++] = '\n';
}

/* There is room again: what is missing is said where it is missing. */
static void say_lost(void)
{
	struct line line = { .len = 0 };
	char text[200];
	int why, again;
	uint64_t lost = outlet_take_lost(&out, &why);

	if (lost == 0)
		return;
	snprintf(text, sizeof(text), "%llu line%s of this log %s missing here: %s", (unsigned long long)lost,
		 plural(lost), lost == 1 ? "is" : "are", why == EAGAIN ? "nobody read it" : strerror(why));
	make_line(&line, LOG_L_WARNING, NULL, text);
	outlet_put(&out, line.text, line.len);
	if (outlet_take_lost(&out, &again) > 0)
		outlet_lost(&out, lost, why); /* not even that */
}

__attribute__((format(printf, 3, 0)))
static void
write_line(enum log_level level, const struct log_attempt *a, const char *fmt, va_list ap)
{
	char text[LINE_MAX_BYTES / 2];
	struct line line = { .len = 0 };

	if (!log_enabled(level))
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	make_line(&line, level, a, text);
	if (outlet_begun(&out)) {
		pthread_mutex_lock(&out_lock);
		outlet_flush(&out, 0);
		say_lost();
		outlet_put(&out, line.text, line.len);
		pthread_mutex_unlock(&out_lock);
	} else if (write(STDERR_FILENO, line.text, line.len) < 0) {
		return; /* nowhere left to say it */
	}
}

void log_never_wait(void)
{
	outlet_begin(&out, STDERR_FILENO);
}

int log_waits_fd(void)
{
	int fd;

	pthread_mutex_lock(&out_lock);
	fd = outlet_fd(&out);
	pthread_mutex_unlock(&out_lock);
	return fd;
}

void log_flush(int patience_ms)
{
	pthread_mutex_lock(&out_lock);
	outlet_flush(&out, patience_ms);
	say_lost();
	pthread_mutex_unlock(&out_lock);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(level, NULL, fmt, ap);
	va_end(ap);
}

void log_error(enum log_level level, const struct deferred_error *err, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_line(level, "%s: %s%s%s", text, err->message, err->hint[0] ? "; hint: " : "", err->hint);
}

void log_attempt(enum log_level level, const struct log_attempt *attempt, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(level, attempt, fmt, ap);
	va_end(ap);
}

void log_job(enum log_level level, const struct job *job, const char *fmt, ...)
{
	const struct log_attempt about = { .queue = job->queue,
					   .fn = job->fn,
					   .traceparent = job->traceparent,
					   .job = job->id,
					   .attempt = job->attempt };
	va_list ap;

	va_start(ap, fmt);
	write_line(level, &about, fmt, ap);
	va_end(ap);
}
