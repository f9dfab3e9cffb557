/* SPDX-License-Identifier: MIT */
/*
 * filter - the options by which ls, cancel and retry choose jobs. Order of calls: filter_option() for each of FILTER_OPTIONS,
 * cli_connect(), filter_times(), then the statements of store/admin.h with filter.by.
 */
#ifndef FILTER_H
#define FILTER_H

#include "cmd.h"

#include "store/admin.h"

/* Codes that are nobody's letter. */
enum filter_code { FILTER_STATE = 1100, FILTER_FN, FILTER_QUEUE, FILTER_LABEL, FILTER_KEY, FILTER_RULE, FILTER_SINCE, FILTER_UNTIL, FILTER_BY, FILTER_TAG, FILTER_ERROR };

#define FILTER_OPTIONS                                                                                                                    \
	{ "state", required_argument, NULL, FILTER_STATE }, { "fn", required_argument, NULL, FILTER_FN },                                 \
	{ "queue", required_argument, NULL, FILTER_QUEUE }, { "label", required_argument, NULL, FILTER_LABEL },                           \
	{ "key", required_argument, NULL, FILTER_KEY }, { "rule", required_argument, NULL, FILTER_RULE },                                 \
	{ "since", required_argument, NULL, FILTER_SINCE }, { "until", required_argument, NULL, FILTER_UNTIL },                           \
	{ "by", required_argument, NULL, FILTER_BY }, { "tag", required_argument, NULL, FILTER_TAG }

#define FILTER_USAGE "[--queue Q] [--fn FN] [--label TEXT] [--key KEY] [--rule NAME] [--tag TEXT]... [--since TIME] [--until TIME] [--by ROLE]"

struct filter {
	struct store_admin_filter jobs;
	int given;             /* options, of them state */
	const char *moment[2]; /* since and until as they were given; NULL: not, or as a span */
	int64_t ago_ms[2];     /* the same as spans; -1: not */
	char time[2][64];
	const char *tags[CLI_TAGS_MAX];
};

void filter_init(struct filter *filter);

/* Take in the option of this code and value. A state is one of `states`, which ends with NULL. False: it was reported, return EX_USAGE. */
bool filter_option(const struct cli *cli, struct filter *filter, int code, const char *value, const char *const *states);

/* Set jobs.since and jobs.until by the clock of the database, once for all statements. Returns 0 or the exit code. */
int filter_times(const struct cli *cli, struct filter *filter);

/* cancel or retry, of ids or by a filter. done: as for cli_each_id(). states: those it takes, ends with NULL. */
int filter_run(struct cli *cli, int argc, char **argv, const char *done, enum store_admin_verb verb, const char *const *states,
	       int (*one)(struct pg *pg, int64_t id, struct deferred_error *err));

#endif
