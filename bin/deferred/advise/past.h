/* SPDX-License-Identifier: MIT */
/* past - options of `simulate` and `advise`, and how both print what program/outlook.h tells. */
#ifndef PAST_H
#define PAST_H

#include "cmd.h"

#include "program/lines.h"
#include "program/outlook.h"

/* Options of both. own of the command begins with these. */
enum { PAST_QUEUE = 1, PAST_SINCE, PAST_SCALE, PAST_START, PAST_BETWEEN, PAST_OWN };
#define PAST_OPTIONS \
	{ "queue", "NAME", "only this queue", PAST_QUEUE, "all queues" }, \
		{ "since", "SPAN", "replay this much history", PAST_SINCE, "7d" }, \
		{ "scale", "X", "multiply the arrivals", PAST_SCALE, "1" }, \
		{ "start", "SPAN", "time from a start to its first attempt", PAST_START, "200ms" }, \
	{ \
		"between", "SPAN", "time between attempts of a runner", PAST_BETWEEN, "25ms" \
	}

/* One of these options. False: it was reported, return EX_USAGE. */
bool past_option(struct outlook *o, const struct cli *cli, int c);

/* A number in [min, max]. False: as above. */
bool past_real(const struct cli *cli, const char *what, const char *text, double min, double max, double *value);

/* Read what was. Returns 0 or the exit code; it was reported. */
int past_read(struct outlook *o, struct cli *cli);

/* A line that was given, or a service. Returns as past_read(). */
int past_line(struct lines *lines, const struct cli *cli, const char *text, bool service);

/* Lines go to standard output. */
extern const struct outlook_sink past_lines;

/* Waits by queue, after a replay, as a table. */
void past_waits(const struct outlook *o);

/* The same as JSON, unless rc is an error. Returns as past_read(). */
int past_print(const struct cli *cli, struct params_text *t, int rc, const struct deferred_error *err);

#endif
