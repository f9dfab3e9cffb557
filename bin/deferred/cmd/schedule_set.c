/* SPDX-License-Identifier: MIT */
/* schedule set: a call and the times at which it is deferred. */
#include "cmd_schedule.h"
#include "port/params.h"
#include "store/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 3 /* ticks: zone and offset are to be seen before the first of them is wrong */

static const char *const missed[] = { "one", "all", "skip", NULL };
static const char *const overlap[] = { "skip", "queue", "allow", "replace", NULL };

/* deferred.schedule() calls them so, with "_" for "-". The server checks the values, which a file brings too. */
static const struct program_option options[] = {
	{ "timezone", "ZONE", "time zone of the rule", 1, "the setting" },
	{ "queue", "NAME", "queue of the jobs", 2, "default" },
	{ "missed", "WHAT", "ticks that were not stored in time", 3, "one", missed },
	{ "late", "SPAN", "with --missed skip: skip a tick this late", 4, "5min" },
	{ "overlap", "WHAT", "if the last job runs", 5, "skip", overlap },
	{ "jitter", "SPAN", "delay each job by up to this", 6, "0s" },
	{ "label", "TEXT", "text for people", 7, .empty = true },
	{ "priority", "N", "larger ones start first", 8, "0" },
	{ "expires", "SPAN", "do not start later than this", 9 },
	{ "max-attempts", "N", "attempts before a job is dead", 10 },
	{ "timeout", "SPAN", "limit of one attempt", 11 },
	{ "backoff-floor", "SPAN", "delay after the first failed attempt", 12 },
	{ "backoff-ceiling", "SPAN", "longest delay between attempts", 13 },
	{ "backoff-exponent", "X", "factor from one delay to the next", 14 },
	{ "concurrency-key", "TEXT", "limit running jobs with this text", 15 },
	{ "concurrency", "N", "most running jobs with that text", 16, "1" },
	{ 0 },
};

/* One option, as a member of the last argument of deferred.schedule(). False: it was wrong, and reported. */
static bool take_option(const struct cli *cli, struct params_text *t, const struct program_option *o)
{
	char name[24], option[24];

	snprintf(option, sizeof(option), "--%s", o->name);
	snprintf(name, sizeof(name), "%s", o->name);
	for (char *p = name; *p; p++)
		*p = *p == '-' ? '_' : *p;
	if (strcmp(o->arg, "SPAN") == 0 && !cli_has_unit(cli, option, optarg))
		return false;
	params_string(t, name, optarg);
	return true;
}

int schedule_fail(const struct cli *cli, bool zone, struct deferred_error *err)
{
	if (!zone && strncmp(err->message, "time zone ", 10) == 0) {
		error_prefix(err, "setting 'timezone'");
		err->code = DEFERRED_ECONFIG;
	}
	return cli_fail(cli, err);
}

void schedule_print_next(const struct pg_result *res)
{
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_schedule_next_row r = admin_schedule_next_row(res, i);

		printf("%s  %s\n", r.local, r.utc);
	}
}

static int schedule_set_store(struct cli *cli, char **argv, const char *params, const char *opts, bool zone)
{
	struct schedule_set_row r;
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL, *next = NULL;
	int rc = cli_connect(cli, true);

	if (rc != 0)
		return rc;
	if (schedule_set_exec(cli->pg, argv[0], argv[1], argv[2], params, opts, &res, &err) < 0 ||
	    admin_schedule_next_exec(cli->pg, argv[0], SHOWN, NULL, &next, &err) < 0) {
		pg_result_free(res);
		return schedule_fail(cli, zone, &err);
	}
	r = schedule_set_row(res, 0);
	if (cli->json) {
		printf("{\"schedule\": \"%s\", \"what\": \"%s\", \"next\": ", argv[0], r.what);
		cli_print_json_array(next);
		puts("}");
	} else {
		printf("%s %s\n", argv[0], r.what);
		schedule_print_next(next);
	}
	pg_result_free(res);
	pg_result_free(next);
	return EX_OK;
}

int schedule_set(struct cli *cli, int argc, char **argv)
{
	struct params_text t = { 0 };
	struct deferred_error err = { 0 };
	char *opts = NULL, *given = NULL;
	const char *params;
	bool zone = false;
	int c, rc = EX_OK;

	params_open(&t, NULL, '{');
	while (rc == EX_OK && (c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP) {
			free(t.p);
			return EX_OK;
		}
		if (c == CLI_OPT_BAD)
			rc = EX_USAGE;
		else if (!take_option(cli, &t, &options[c - 1]))
			rc = EX_USAGE;
		zone |= c == 1;
	}
	if (rc == EX_OK && !cli_arguments(cli, argc, argv, "NAME RULE FUNCTION [PARAMS]"))
		rc = EX_USAGE;
	if (rc == EX_OK)
		rc = cli_config(cli);
	if (rc != EX_OK) {
		free(t.p);
		return rc;
	}
	if (!zone)
		params_string(&t, "timezone", config_text(cli->config, "timezone"));
	params_close(&t, '}');
	if (params_take(&t, &opts, &err) < 0)
		return cli_fail(cli, &err);
	params = cli_params(cli, argv[optind + 3], &given, &rc);
	if (params && params_check(params, strlen(params), &err) < 0)
		rc = cli_fail(cli, &err);
	else if (params)
		rc = schedule_set_store(cli, argv + optind, params, opts, zone);
	free(given);
	free(opts);
	return rc;
}
