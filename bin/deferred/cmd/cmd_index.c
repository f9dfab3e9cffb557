/* SPDX-License-Identifier: MIT */
/*
 * Indexes for searches. CREATE INDEX CONCURRENTLY builds each on one partition after the other, and blocks neither
 * defers nor claims. The next step is read from the catalog, so the same command continues an interrupted one.
 */
#include "cmd.h"

#include "rows/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_S 1          /* until it is looked again what somebody else does */
#define SAME_STATEMENTS 3 /* in a row: then it does not come to an end */

/* ---- add and rm --------------------------------------------------------------------------------- */

static void index_say(const struct cli *cli, const struct pg_result *next)
{
	struct index_next_row r = index_next_row(next, 0);
	const char *what = r.what, *part = r.part;

	if (cli->json)
		return;
	if (strcmp(what, "build") == 0)
		printf("%s: builds it, about %" PRId64 " jobs\n", part, r.part_rows);
	else if (strcmp(what, "wait") == 0)
		printf("%s: waits for who is at work on it\n", part);
	else
		printf("%s: drops %s\n", part, strcmp(what, "drop") == 0 ? "it" : "what an interrupted build left");
	fflush(stdout);
}

/* In no transaction. A partition that has been purged meanwhile, or that has an index by now, is no error. */
static int change_index(const struct cli *cli, const char *statement, struct deferred_error *err)
{
	static const char *const gone[] = { "42P01", "42P07" }; /* undefined_table, duplicate_table */
	struct deferred_error why = { 0 };
	int rc = pg_command(cli->pg, statement, &why);

	for (size_t i = 0; rc < 0 && i < sizeof(gone) / sizeof(gone[0]); i++)
		if (strcmp(why.sqlstate, gone[i]) == 0)
			return 0;
	if (rc < 0 && err)
		*err = why;
	return rc;
}

/* Until nothing is left to do. */
static int index_steps(const struct cli *cli, const char *term, struct deferred_error *err)
{
	struct pg_result *last = NULL, *next;
	int same = 0, rc;

	while ((rc = index_next_exec(cli->pg, term, &next, err)) == 0 && index_next_row(next, 0).what) {
		struct index_next_row r = index_next_row(next, 0);
		bool waits = !r.statement;
		bool again = last && strcmp(index_next_row(last, 0).what, r.what) == 0 &&
			     strcmp(index_next_row(last, 0).part, r.part) == 0;

		if (!again || !waits)
			index_say(cli, next);
		same = again && !waits ? same + 1 : 0;
		pg_result_free(last);
		last = next;
		if (waits)
			sleep(WAIT_S);
		else if (same == SAME_STATEMENTS)
			rc = error_set(err, DEFERRED_EDB, "index", "deferred.%s does not get its index", r.part);
		else
			rc = change_index(cli, r.statement, err);
		if (rc < 0)
			break;
	}
	pg_result_free(last == next ? NULL : next);
	pg_result_free(last);
	if (rc < 0)
		error_hint(err, "run the same command again; it continues where this one stopped");
	return rc;
}

/* Bytes of it, and jobs in it. */
static int size(const struct cli *cli, const char *term, int64_t *bytes, int64_t *jobs, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = index_ls_exec(cli->pg, &res, err);

	for (size_t i = 0; rc == 0 && i < pg_rows(res); i++) {
		struct index_ls_row r = index_ls_row(res, i);

		if (strcmp(r.term, term) == 0) {
			*bytes = r.bytes;
			*jobs = r.entries;
		}
	}
	pg_result_free(res);
	return rc;
}

static int index_begin(struct cli *cli, int argc, char **argv)
{
	int rc;

	if (!cli_no_options(cli, argc, argv, &rc))
		return rc ? rc : -1;
	if (!cli_arguments(cli, argc, argv, "TERM"))
		return EX_USAGE;
	cli->role = "deferred_owner";
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	cli_set_limits(cli, true);
	return 0;
}

static int index_add(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	int64_t bytes = 0, jobs = 0;
	int rc = index_begin(cli, argc, argv);

	if (rc != 0)
		return rc < 0 ? EX_OK : rc;
	rc = index_add_exec(cli->pg, argv[optind], &err);
	if (rc == 0)
		rc = index_steps(cli, argv[optind], &err);
	if (rc == 0)
		rc = size(cli, argv[optind], &bytes, &jobs, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		printf("{\"bytes\": %" PRId64 ", \"jobs\": %" PRId64 "}\n", bytes, jobs);
		return EX_OK;
	}
	printf("searches use it from now on: %" PRId64 " bytes, about %" PRId64 " jobs in it\n", bytes, jobs);
	puts("each job with such a value now takes one more index entry: see deferred-index(1)");
	return EX_OK;
}

static int index_rm(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	struct index_drop_row r;
	int rc = index_begin(cli, argc, argv);

	if (rc != 0)
		return rc < 0 ? EX_OK : rc;
	rc = index_drop_one(cli->pg, argv[optind], &r, &err);
	if (rc == 0 && !r.existed)
		rc = error_set(&err, DEFERRED_ENOTFOUND, "index",
			       "search term '%.64s' has no index\ndeferred index ls lists the indexes", argv[optind]);
	if (rc == 0)
		rc = index_steps(cli, argv[optind], &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	puts(cli->json ? "true" : "it is gone");
	return EX_OK;
}

/* ---- ls ----------------------------------------------------------------------------------------- */

static void index_print_table(const struct pg_result *res)
{
	static const char *const headers[] = { "TERM", "STATE", ">PARTITIONS", ">BYTES", ">JOBS", ">BYTES A JOB" };
	struct table t;

	table_begin(&t, headers, 6);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct index_ls_row r = index_ls_row(res, i);
		int64_t built = r.built, parts = r.parts, bytes = r.bytes, jobs = r.entries;

		table_cell(&t, "%s", r.term);
		table_cell(&t, "%s", !r.wanted ? "going" : built < parts ? "partial" : "built");
		table_cell(&t, "%" PRId64 " of %" PRId64, built, parts);
		table_cell(&t, "%" PRId64, bytes);
		table_cell(&t, "%" PRId64, jobs);
		if (jobs > 0)
			table_cell(&t, "%" PRId64, bytes / jobs);
		else
			table_cell(&t, "%s", "");
	}
	table_end_list(&t, "indexes");
}

static int index_ls(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc))
		return rc;
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	if (index_ls_exec(cli->pg, &res, &err) < 0)
		return cli_fail(cli, &err);
	return cli_list(cli, res, index_print_table);
}

static int cmd_index_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = { { "add", index_add }, { "ls", index_ls }, { "rm", index_rm }, { 0 } };

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_index = {
	"index",
	"add TERM\n"
	"ls\n"
	"rm TERM",
	"index labels or params for searches",
	cmd_index_run,
	"deferred_viewer",
	"add, ls and rm",
};
