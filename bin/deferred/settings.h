/* SPDX-License-Identifier: MIT */
/*
 * settings - the options of `deferred queue set` and `deferred function set`: read, checked, and kept under the
 * names and in the units of the columns. A value that has a unit must be written with it; an empty one, like
 * --unset NAME, takes the setting back to its default.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "cmd.h"

#define SETTINGS_MAX 32

struct settings {
	const char *name[SETTINGS_MAX];  /* column */
	const char *value[SETTINGS_MAX]; /* NULL: default */
	char text[SETTINGS_MAX][40];
	size_t n;
	const char *metadata; /* JSON; NULL: not given */
};

/* Which of the settings a command takes. */
enum settings_of { SETTINGS_QUEUE = 1, SETTINGS_FUNCTION = 2 };

/* Fill in the options the command takes, behind the `used` ones that are there; the last is the zero element. */
void settings_options(enum settings_of of, struct program_option *options, int used);

/* Keep what an option says. False: it was wrong, and reported. */
bool settings_read(struct settings *s, const struct cli *cli, enum settings_of of, int code, const char *text);

/* As people write it: "5/s", "1/min". */
#define SETTINGS_RATE_SIZE 32
const char *settings_rate(char buf[SETTINGS_RATE_SIZE], double a_second);
const char *settings_span(char buf[SETTINGS_RATE_SIZE], int64_t ms);

#endif
