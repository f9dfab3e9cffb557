/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/job.h"
#include "store/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 10000

static bool is_state(const char *text)
{
#define X(name, word) strcmp(text, word) == 0 ||
	return JOB_STATES(X) false;
#undef X
}

static void print_table(const struct pg_result *res)
{
	static const char *const headers[] = {
		">ID", "STATE", "QUEUE", "FUNCTION", ">PRIO", ">TRIES", ">AGE", ">WHEN", "LAST", "LABEL"
	};
	char age[TABLE_AGE_SIZE], when[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 10);
	for (size_t i = 0; i < pg_rows(res); i++) {
		int64_t due_s = pg_int(res, i, 8);

		table_cell(&t, "%" PRId64, pg_int(res, i, 0));
		table_cell(&t, pg_null(res, i, 11) ? "%s" : "%s (%s)", pg_text(res, i, 1, NULL), pg_text(res, i, 11, NULL));
		table_cell(&t, "%s", pg_text(res, i, 2, NULL));
		table_cell(&t, "%s", pg_text(res, i, 3, NULL));
		table_cell(&t, "%" PRId64, pg_int(res, i, 5));
		table_cell(&t, "%" PRId64, pg_int(res, i, 6));
		table_cell(&t, "%s", table_age(age, pg_int(res, i, 7)));
		table_cell(&t, due_s > 0 ? "in %s" : "%s ago", table_age(when, due_s));
		table_cell(&t, "%s", pg_text(res, i, 9, NULL));
		table_cell(&t, "%s", pg_text(res, i, 4, NULL));
	}
	table_end(&t);
}

static void print_running(const struct pg_result *res)
{
	static const char *const headers[] = { ">ID", "QUEUE", "FUNCTION", ">TRY", ">FOR", "LEASE", "WORKER", "PROGRESS", "LABEL" };
	char age[TABLE_AGE_SIZE], progress[TABLE_PROGRESS_SIZE];
	struct table t;

	table_begin(&t, headers, 9);
	for (size_t i = 0; i < pg_rows(res); i++) {
		table_cell(&t, "%" PRId64, pg_int(res, i, 0));
		table_cell(&t, "%s", pg_text(res, i, 1, NULL));
		table_cell(&t, "%s", pg_text(res, i, 2, NULL));
		table_cell(&t, "%" PRId64, pg_int(res, i, 4));
		table_cell(&t, "%s", table_age(age, pg_int(res, i, 5)));
		table_cell(&t, "%s", table_age(age, pg_int(res, i, 6)));
		table_cell(&t, "%s", pg_text(res, i, 7, NULL));
		table_cell(&t, "%s", table_progress(progress, res, i, 8));
		table_cell(&t, "%s", pg_text(res, i, 3, NULL));
	}
	table_end(&t);
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{ "state", required_argument, NULL, 's' }, { "queue", required_argument, NULL, 'q' },
		{ "fn", required_argument, NULL, 'f' },    { "limit", required_argument, NULL, 'l' },
		{ "running", no_argument, NULL, 'r' },     { 0 }
	};
	struct store_admin_filter filter = { .limit = LIMIT_DEFAULT };
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	int64_t limit;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		switch (c) {
		case 's':
			if (!is_state(optarg))
				return cli_usage(cli, "--state \"%.64s\" is none of delayed, ready, claimed, done, dead, cancelled and "
						      "expired", optarg);
			filter.state = optarg;
			break;
		case 'q':
			filter.queue = optarg;
			break;
		case 'f':
			filter.fn = optarg;
			break;
		case 'r':
			filter.running = true;
			break;
		case 'l':
			if (!cli_int(cli, "--limit", optarg, 1, LIMIT_MAX, &limit))
				return EX_USAGE;
			filter.limit = (int)limit;
			break;
		default:
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		}
	}
	if (optind < argc)
		return cli_usage(cli, "unexpected argument \"%.64s\"", argv[optind]);
	if (filter.running && filter.state)
		return cli_usage(cli, "--running lists jobs that are claimed: leave out --state \"%.64s\"", filter.state);
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);
	if (rc == 0)
		rc = store_admin_ls(cli->pg, &filter, &res, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json_array(res, filter.running ? 12 : 10);
		putchar('\n');
	} else if (pg_rows(res) > 0) {
		(filter.running ? print_running : print_table)(res);
	}
	pg_result_free(res);
	return EX_OK;
}

const struct cmd cmd_ls = {
	"ls", "[--state STATE | --running] [--queue Q] [--fn FN] [--limit N]",
	"list jobs: those still to be run, or those of one state", run, "deferred_viewer",
};
