/* SPDX-License-Identifier: MIT */
/*
 * crontab - a line that starts check_deferred, as it stands in a crontab or as short as it can be, and when it does.
 * What its rule means is read elsewhere (sql/functions/schedule/__crontab.sql).
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
 * Read one. text: RULE OPTIONS, or RULE [USER] [/path/]check_deferred OPTIONS, up to a > or a |; of a service the same
 * without a rule, and with OPTIONS the dashes may be left out. What the rule is is not looked at, and interval_us is 1.
 * Returns 0, or DEFERRED_EINVAL or ENOMEM; the caller's to clear in either case.
 */
int crontab_read(const char *text, bool service, struct crontab_line *line, struct deferred_error *err);
void crontab_clear(struct crontab_line *line);

/* Two lines with one pid file would be one: that is refused. Returns 0 or DEFERRED_EINVAL. */
int crontab_apart(const struct crontab_line *lines, size_t n, struct deferred_error *err);

/* On average, of four years; 0: there is none. */
int64_t crontab_interval_us(const struct crontab_when *when);

/* All ticks from begin_us to end_us, microseconds since 2000, counted from begin_us on: those minutes at which the
 * clocks of this machine show what the rule says. Given, to be freed with free(). NULL: out of memory. */
int64_t *crontab_ticks(const struct crontab_when *when, int64_t begin_us, int64_t end_us, size_t *n);

#endif
