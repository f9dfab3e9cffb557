/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/visible.h"

#include <stdarg.h>
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

void log_line(enum log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES / 2], shown[VISIBLE_MAX];
	size_t n = 0;
	va_list ap;

	if (!log_enabled(level))
		return;
	if (to_journal) {
		n = (size_t)snprintf(line, sizeof(line), "<%d>", levels[level].journal);
	} else {
		struct timespec now;
		struct tm tm;

		clock_gettime(CLOCK_REALTIME, &now);
		gmtime_r(&now.tv_sec, &tm);
		n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
		n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03ldZ %s[%d] ", now.tv_nsec / 1000000, program, (int)getpid());
	}
	n += (size_t)snprintf(line + n, sizeof(line) - n, "%s: ", levels[level].name);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (const char *p = text; *p && n < sizeof(line) - VISIBLE_MAX - 1; n += strlen(shown)) {
		p += visible_char(p, shown);
		strcpy(line + n, shown);
	}
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return; /* nowhere left to say it */
}
