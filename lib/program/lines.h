/* SPDX-License-Identifier: MIT */
/* lines - lines of a crontab, and services, to be replayed. They are given, or are those by which workers in the
 * database were started. */
#ifndef LINES_H
#define LINES_H

#include "program/outlook.h"

struct lines {
	struct outlook_lines of; /* .line is the one below */
	struct crontab_line line[FORECAST_LINES];
	const char *text[FORECAST_LINES]; /* as they were given, or would be */
	struct pg_result *seen;           /* holds the texts; NULL: they are the caller's */
};

/* Functions return 0 or a DEFERRED_E... All 0 before the first. text is borrowed. Not to be called with FORECAST_LINES
 * of them. */
int lines_add(struct lines *lines, const char *text, bool service, struct deferred_error *err);

/* Have the database read their rules, as it reads those of schedules. */
int lines_rules(struct lines *lines, struct pg *pg, struct deferred_error *err);

/* If none are given: add those of the workers of the last day that serve the queue; NULL: any queue. In the transaction
 * that is open. */
int lines_seen(struct lines *lines, struct pg *pg, const char *queue, struct deferred_error *err);

/* Replay them, if there are any. The result is in *today, which o borrows, as *today borrows lines. o was read, and
 * promise_can(). Histories hold what was replayed last, so this comes before an advice. */
int lines_today(struct lines *lines, struct outlook *o, struct outlook_today *today, struct deferred_error *err);

void lines_clear(struct lines *lines);

#endif
