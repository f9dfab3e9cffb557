/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include "base/job.h"
#include "rows/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 10000

static const char *const states[] = {
#define X(name, word) word,
	JOB_STATES(X)
#undef X
		NULL
};

static void ls_print_table(const struct pg_result *res, size_t n)
{
	static const char *const headers[] = { ">ID",    "STATE", "QUEUE", "FUNCTION", ">PRIO",
					       ">TRIES", ">AGE",  ">WHEN", "LAST",     "LABEL" };
	char age[TABLE_AGE_SIZE], when[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 10);
	for (size_t i = 0; i < n; i++) {
		struct admin_ls_done_row r = admin_ls_done_row(res, i);
		int64_t due_s = r.until_s;

		table_cell(&t, "%" PRId64, r.id);
		table_cell(&t, !r.held_by ? "%s" : "%s (%s)", r.state, r.held_by);
		table_cell(&t, "%s", r.queue);
		table_cell(&t, "%s", r.fn);
		table_cell(&t, "%" PRId64, r.priority);
		table_cell(&t, "%" PRId64, r.attempt);
		table_cell(&t, "%s", table_age(age, r.age_s));
		table_cell(&t, due_s > 0 ? "in %s" : "%s ago", table_age(when, due_s));
		table_cell(&t, "%s", r.last_outcome);
		table_cell(&t, "%s", r.label);
	}
	table_end(&t);
}

static void ls_print_running(const struct pg_result *res, size_t n)
{
	static const char *const headers[] = { ">ID",   "QUEUE",  "FUNCTION", ">TRY", ">FOR",
					       "LEASE", "WORKER", "PROGRESS", "LABEL" };
	char age[TABLE_AGE_SIZE], progress[TABLE_PROGRESS_SIZE];
	struct table t;

	table_begin(&t, headers, 9);
	for (size_t i = 0; i < n; i++) {
		struct admin_ls_running_row r = admin_ls_running_row(res, i);

		table_cell(&t, "%" PRId64, r.id);
		table_cell(&t, "%s", r.queue);
		table_cell(&t, "%s", r.fn);
		table_cell(&t, "%" PRId64, r.attempt);
		table_cell(&t, "%s", table_age(age, r.claimed_s));
		table_cell(&t, "%s", table_age(age, r.lease_s));
		table_cell(&t, "%s", r.worker);
		table_cell(&t, "%s",
			   table_progress(progress, r.has_done ? &r.done : NULL, r.has_total ? &r.total : NULL, r.text,
					  r.has_reported_s ? &r.reported_s : NULL));
		table_cell(&t, "%s", r.label);
	}
	table_end(&t);
}

/*
 * How many rows to list, and in *after the job to go on after, 0: there are no more. One row more than those wanted was
 * asked for; and the last of those looked at comes even where it does not fit.
 */
static size_t count_rows(const struct pg_result *res, const struct store_admin_filter *filter, int limit,
			 int64_t *after)
{
	size_t n = pg_rows(res) < (size_t)limit ? pg_rows(res) : (size_t)limit;
	struct admin_ls_done_row r;

	*after = 0;
	if (n == 0 || filter->running)
		return n;
	r = admin_ls_done_row(res, n - 1);
	if (pg_rows(res) > n || r.last)
		*after = r.id;
	return n - (pg_rows(res) == n && r.last && !r.fits);
}

static void ls_print(const struct cli *cli, const struct store_admin_filter *filter, int limit,
		     const struct pg_result *res)
{
	int64_t after;
	size_t n = count_rows(res, filter, limit, &after);

	if (cli->json) {
		cli_print_json_rows(res, n);
		putchar('\n');
	} else if (n > 0) {
		(filter->running ? ls_print_running : ls_print_table)(res, n);
	} else if (after == 0 && isatty(STDOUT_FILENO)) {
		puts("no jobs");
	}
	/* A program that got as many as it asked for knows where to go on. */
	if (after > 0 && !filter->running && !(cli->json && n == (size_t)limit))
		fprintf(cli->json ? stderr : stdout, "there may be more: the same with --after %" PRId64 "\n", after);
}

static int cmd_ls_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		FILTER_OPTIONS(states, NULL),
		{ "running", NULL, "jobs that workers hold, longest first", 'r' },
		{ "limit", "N", "jobs to list", 'l', "50" },
		{ "after", "ID", "continue behind this job", 'a' },
		{ 0 },
	};
	struct deferred_error err = { 0 };
	struct index_usable_row label_index = { 0 };
	struct pg_result *res = NULL;
	int64_t limit = LIMIT_DEFAULT;
	struct filter filter;
	int c, rc;

	filter_init(&filter);
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		switch (c) {
		case 'r':
			filter.jobs.running = true;
			break;
		case 'l':
			if (!cli_int(cli, "--limit", optarg, 1, LIMIT_MAX, &limit))
				return EX_USAGE;
			break;
		case 'a':
			if (!cli_int(cli, "--after", optarg, 1, INT64_MAX, &filter.jobs.after))
				return EX_USAGE;
			break;
		default:
			if (c < FILTER_STATE)
				return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
			if (!filter_option(cli, &filter, c, optarg, states))
				return EX_USAGE;
		}
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if (filter.jobs.running && filter.jobs.state)
		return cli_misuse(cli, "leave --state out: --running lists claimed jobs",
				  "option '--running' contradicts option '--state'");
	if (filter.jobs.running && (filter.jobs.after || filter.given > !!filter.jobs.queue + !!filter.jobs.fn))
		return cli_misuse(cli, "use only --queue, --fn and --limit with --running",
				  "option '--running' contradicts the other filters");
	if (store_admin_lacks_end(&filter.jobs))
		return cli_misuse(cli, "use --state with " STORE_ADMIN_END_STATES,
				  "option '--ended-since' or '--ended-until' needs a state in which jobs have ended");
	filter.jobs.limit = (int)limit + 1;
	if ((rc = cli_connect(cli, true)) != 0 || (rc = filter_times(cli, &filter)) != 0)
		return rc;
	rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);
	if (rc == 0 && filter.jobs.label && !filter.jobs.running)
		rc = index_usable_one(cli->pg, "label", &label_index, &err);
	filter.jobs.label_index = label_index.usable;
	if (rc == 0)
		rc = store_admin_ls(cli->pg, &filter.jobs, &res, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	ls_print(cli, &filter.jobs, (int)limit, res);
	pg_result_free(res);
	return EX_OK;
}

const struct cmd cmd_ls = {
	"ls", "[OPTION...]", "list jobs", cmd_ls_run, "deferred_viewer", NULL, SHARDS_ALL,
};
