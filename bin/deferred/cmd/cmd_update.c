/* SPDX-License-Identifier: MIT */
#include "filter.h"
#include "port/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const states[] = { "ready", "delayed", "waiting", NULL };

/* With ids, --queue and --label are changes too. */
enum {
	CHANGES = 2000,
	CHANGE_QUEUE = CHANGES,
	CHANGE_LABEL,
	CHANGE_PRIORITY,
	CHANGE_DELAY,
	CHANGE_RUN_AT,
	CHANGE_MAX_ATTEMPTS,
	CHANGE_TIMEOUT,
	OPT_PARAMS
};

/* The members of deferred.update(), in the same order. */
static const char *const members[] = { "queue", "label", "priority", "delay", "run_at", "max_attempts", "timeout" };

static const struct program_option options[] = {
	FILTER_OPTIONS(states, NULL),
	{ "to-queue", "NAME", "move the jobs to this queue", CHANGE_QUEUE },
	{ "to-label", "TEXT", "new label", CHANGE_LABEL, .empty = true },
	{ "priority", "N", "new priority", CHANGE_PRIORITY },
	{ "delay", "SPAN", "do not start earlier than after this time", CHANGE_DELAY },
	{ "run-at", "TIME", "do not start before this time", CHANGE_RUN_AT },
	{ "max-attempts", "N", "attempts before a job is dead", CHANGE_MAX_ATTEMPTS, .empty = true },
	{ "timeout", "SPAN", "limit of one attempt", CHANGE_TIMEOUT, .empty = true },
	{ "params", "JSON", "new params; -: from standard input", OPT_PARAMS },
	{ "dry-run", NULL, "count the jobs and change nothing", 'n' },
	{ 0 },
};

/* A text is NULL where nothing changes, and empty where a member goes back to its default. */
struct changes {
	const char *text[sizeof(members) / sizeof(members[0])];
	const char *params; /* JSON; NULL: as they are */
	int n;
};

static void take_change(struct changes *changes, int code, const char *text)
{
	changes->n += !changes->text[code - CHANGES];
	changes->text[code - CHANGES] = text;
}

/* As deferred.update() takes them; free() it. The server checks the values. */
static char *changes_json(const struct cli *cli, const struct changes *changes, int *rc)
{
	struct params_text t = { 0 };
	struct deferred_error err = { 0 };
	char *text = NULL, *whole = NULL;

	*rc = EX_USAGE;
	params_open(&t, NULL, '{');
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		const char *value = changes->text[i];
		const char *span = i == CHANGE_DELAY - CHANGES     ? "--delay"
				   : i == CHANGE_TIMEOUT - CHANGES ? "--timeout"
								   : NULL;

		if (value && span && !cli_has_unit(cli, span, value)) {
			free(t.p);
			return NULL;
		}
		if (value && *value)
			params_string(&t, members[i], value);
		else if (value)
			params_number(&t, members[i], NAN); /* null */
	}
	params_close(&t, '}');
	if (params_take(&t, &text, &err) < 0 ||
	    (changes->params && params_check(changes->params, strlen(changes->params), &err) < 0)) {
		*rc = cli_fail(cli, &err);
	} else if (!changes->params) {
		return text;
	} else if (asprintf(&whole, "%.*s%s\"params\": %s}", (int)strlen(text) - 1, text, changes->n > 0 ? ", " : "",
			    changes->params) < 0) {
		whole = NULL;
		*rc = cli_fail(cli, (error_set(&err, DEFERRED_ENOMEM, "update", "out of memory"), &err));
	}
	free(text);
	return whole;
}

static const char *changes_of_ids; /* for cli_each_id(), which gives its function the id only */

static int update_one(struct pg *pg, int64_t id, struct deferred_error *err)
{
	return store_admin_update(pg, id, changes_of_ids, err);
}

static int update_run(struct cli *cli, int argc, char **argv, struct filter *filter, struct changes *changes, bool dry)
{
	bool ids = optind < argc;
	char *json;
	int rc;

	if (ids && filter->jobs.queue)
		take_change(changes, CHANGE_QUEUE, filter->jobs.queue);
	if (ids && filter->jobs.label)
		take_change(changes, CHANGE_LABEL, filter->jobs.label);
	if (ids && dry)
		return cli_misuse(cli, "give a filter, such as --fn send_mail", "option '--dry-run' needs a filter");
	if (ids && filter->given > !!filter->jobs.queue + !!filter->jobs.label)
		return cli_misuse(cli, "give either ids or a filter", "argument '%.64s' contradicts the filter",
				  argv[optind]);
	if (!ids && filter->given == 0)
		return cli_misuse(cli, "give ids, such as 17 18, or a filter, such as --fn send_mail",
				  "job ids or a filter are missing");
	if (changes->n == 0 && !changes->params)
		return cli_misuse(cli, "for example --priority 5 or --to-queue slow", "a change is missing");
	if (!(json = changes_json(cli, changes, &rc)))
		return rc;
	changes_of_ids = filter->jobs.changes = json;
	rc = ids ? cli_each_id(cli, argc, argv, "changed", update_one)
		 : filter_run_bulk(cli, filter, "changed", STORE_ADMIN_UPDATE, dry);
	free(json);
	return rc;
}

static int cmd_update_run(struct cli *cli, int argc, char **argv)
{
	struct changes changes = { 0 };
	const char *params = NULL;
	struct filter filter;
	char *given = NULL;
	bool dry = false;
	int c, rc = EX_OK;

	filter_init(&filter);
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == 'n')
			dry = true;
		else if (c == OPT_PARAMS)
			params = optarg;
		else if (c < FILTER_STATE)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		else if (c >= CHANGES)
			take_change(&changes, c, optarg);
		else if (!filter_option(cli, &filter, c, optarg, states))
			return EX_USAGE;
	}
	if (params)
		changes.params = cli_params(cli, params, &given, &rc);
	if (rc == EX_OK)
		rc = update_run(cli, argc, argv, &filter, &changes, dry);
	free(given);
	return rc;
}

const struct cmd cmd_update = {
	"update",
	"ID... CHANGE...\n[--dry-run] FILTER... CHANGE...",
	"change jobs that wait",
	cmd_update_run,
	"deferred_producer",
};
