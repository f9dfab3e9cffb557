/* SPDX-License-Identifier: MIT */
/*
 * filter - the options by which ls, cancel, retry and update choose jobs. Order of calls: filter_option() for each of
 * FILTER_OPTIONS, cli_connect(), filter_times(), then the statements of store/admin.h with filter.by.
 */
#ifndef FILTER_H
#define FILTER_H

#include "cmd.h"

#include "store/admin.h"

/* Codes that are nobody's letter. */
enum filter_code {
	FILTER_STATE = 1100,
	FILTER_FN,
	FILTER_QUEUE,
	FILTER_LABEL,
	FILTER_KEY,
	FILTER_RULE,
	FILTER_BY,
	FILTER_TAG,
	FILTER_ERROR,
	FILTER_SINCE, /* and the times behind it, in the order of struct filter */
	FILTER_UNTIL,
	FILTER_ENDED_SINCE,
	FILTER_ENDED_UNTIL
};
#define FILTER_TIMES 4

#define FILTER_OPTIONS(states, def) \
	{ "state", "STATE", "", FILTER_STATE, def, states }, { "fn", "NAME", "jobs of this function", FILTER_FN }, \
		{ "queue", "NAME", "jobs of this queue", FILTER_QUEUE }, \
		{ "label", "TEXT", "jobs with this label", FILTER_LABEL }, \
		{ "key", "TEXT", "jobs with this key", FILTER_KEY }, \
		{ "rule", "NAME", "jobs that this rule made", FILTER_RULE }, \
		{ "tag", "TEXT", "jobs with this tag; may be repeated", FILTER_TAG }, \
		{ "by", "ROLE", "jobs that this role deferred", FILTER_BY }, \
		{ "since", "TIME", "jobs deferred at this time or later, or so long ago", FILTER_SINCE }, \
		{ "until", "TIME", "jobs deferred before this time, or earlier", FILTER_UNTIL }, \
		{ "ended-since", "TIME", "jobs that ended at this time or later", FILTER_ENDED_SINCE }, \
	{ \
		"ended-until", "TIME", "jobs that ended before this time", FILTER_ENDED_UNTIL \
	}

struct filter {
	struct store_admin_filter jobs;
	int given; /* options, of them state */
	/* Since and until, of the deferral and of the end. */
	const char *moment[FILTER_TIMES]; /* as they were given; NULL: not, or as a span */
	int64_t ago_ms[FILTER_TIMES];     /* the same as spans; -1: not */
	char time[FILTER_TIMES][64];
	const char *tags[CLI_TAGS_MAX];
};

void filter_init(struct filter *filter);

/* Take in the option of this code and value. A time is kept as it was given. A state is one of `states`, which ends
 * with NULL. False: it was reported, return EX_USAGE. */
bool filter_option(const struct cli *cli, struct filter *filter, int code, const char *value,
		   const char *const *states);

/* Set the times of jobs by the clock of the database, once for all statements. Returns 0 or the exit code. */
int filter_times(const struct cli *cli, struct filter *filter);

/* Do it to the jobs of the filter. `done` is as for cli_each_id(). Returns the exit code. */
int filter_run_bulk(struct cli *cli, struct filter *filter, const char *done, enum store_admin_verb verb, bool dry);

/* Cancel or retry, of ids or by a filter. The options are the table of the command.
 * The word `done` is as for cli_each_id(). The list of states ends with NULL. */
int filter_run(struct cli *cli, int argc, char **argv, const struct program_option *options, const char *done,
	       enum store_admin_verb verb, const char *const *states,
	       int (*one)(struct pg *pg, int64_t id, struct deferred_error *err));

#endif
