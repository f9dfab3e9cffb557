/* SPDX-License-Identifier: MIT */
/* lines - lines of a crontab and services to be replayed: as they are given, or as workers that were seen in the
 * database were started. */
#ifndef LINES_H
#define LINES_H

#include "program/outlook.h"

struct lines {
	struct outlook_lines of; /* .line is the one below */
	struct crontab_line line[FORECAST_LINES];
	const char *text[FORECAST_LINES]; /* as they were given, or would be */
	struct pg_result *seen;           /* what texts are borrowed from; NULL: none are */
};

/* Functions return 0 or a DEFERRED_E... All 0 before the first. text is borrowed. Not to be called with FORECAST_LINES
 * of them. */
int lines_add(struct lines *lines, const char *text, bool service, struct deferred_error *err);

/* What their rules mean the database says, which reads those of schedules too. */
int lines_rules(struct lines *lines, struct pg *pg, struct deferred_error *err);

/* Where there are none: those that workers of the last day were started by, which serve that queue; NULL: any. In
 * whatever transaction is open. */
int lines_seen(struct lines *lines, struct pg *pg, const char *queue, struct deferred_error *err);

/* What they give today, if there are any: in *today, which is borrowed by o, as lines is by *today. o was read, and
 * promise_can(). Histories hold what was replayed last, so this comes before an advice. */
int lines_today(struct lines *lines, struct outlook *o, struct outlook_today *today, struct deferred_error *err);

void lines_clear(struct lines *lines);

#endif
