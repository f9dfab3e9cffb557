/* SPDX-License-Identifier: MIT */
/*
 * crontab - a crontab line that starts check_deferred, in its full or its shortest form, and the times at which it
 * does. sql/functions/schedule/__crontab.sql interprets its rule.
 */
#ifndef CRONTAB_H
#define CRONTAB_H

#include "base/error.h"
#include "forecast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRONTAB_QUEUES 32

/* Fields as bits: bit n stands for the number n. */
struct crontab_when {
	int64_t minutes, hours, days, months, weekdays;
	bool both_days; /* of day and weekday; else one of them will do */
};

struct crontab_line {
	const char *rule; /* NULL: a service */
	struct crontab_when when;
	int64_t interval_us; /* about what lies between two starts; 0: a service */
	int64_t cnt;
	int runners;
	bool replace;
	const char *pidfile; /* NULL: none is named */
	const char *queue[CRONTAB_QUEUES];
	size_t queues; /* 0: all */
	char *words;   /* what the pointers point into */
};

/*
 * Read a line. text is RULE OPTIONS or RULE [USER] [/path/]check_deferred OPTIONS, up to a > or a |. The line of a
 * service has no rule. The dashes of OPTIONS may be left out. The rule is not interpreted, and interval_us is 1.
 * Returns 0, or DEFERRED_EINVAL or ENOMEM; the caller's to clear in either case.
 */
int crontab_read(const char *text, bool service, struct crontab_line *line, struct deferred_error *err);
void crontab_clear(struct crontab_line *line);

/* Two lines with one pid file would be one: that is refused. Returns 0 or DEFERRED_EINVAL. */
int crontab_apart(const struct crontab_line *lines, size_t n, struct deferred_error *err);

/* On average, of four years; 0: there is none. */
int64_t crontab_interval_us(const struct crontab_when *when);

/* All ticks from begin_us to end_us, in microseconds since 2000, relative to begin_us. A tick is a minute at which the
 * local clock matches the rule. The caller frees the array with free(). NULL: out of memory. */
int64_t *crontab_ticks(const struct crontab_when *when, int64_t begin_us, int64_t end_us, size_t *n);

#endif
