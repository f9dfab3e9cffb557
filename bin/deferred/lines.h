/* SPDX-License-Identifier: MIT */
/* lines - lines of a crontab and services to be replayed: as they are given, or as workers that were seen in the database were started. */
#ifndef LINES_H
#define LINES_H

#include "cmd.h"

#include "program/outlook.h"

struct lines {
	struct outlook_lines of; /* .line is the one below */
	struct crontab_line line[FORECAST_LINES];
	const char *text[FORECAST_LINES]; /* as they were given, or would be */
	struct pg_result *seen;  /* what texts are borrowed from; NULL: none are */
};

/* Returns 0 or the exit code; it was reported. text is borrowed. All 0 before the first. */
int lines_add(struct lines *lines, const struct cli *cli, const char *text, bool service);

/* What their rules mean the database says, which reads those of schedules too. Returns as lines_add(). */
int lines_rules(struct lines *lines, const struct cli *cli);

/* Where there are none: those that workers of the last day were started by, which serve that queue; NULL: any. Returns as lines_add(). */
int lines_seen(struct lines *lines, const struct cli *cli, const char *queue);

void lines_clear(struct lines *lines);

#endif
