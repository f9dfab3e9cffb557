/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "store/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What has several lines stands below its first one; a name or label has one, whatever is in it. */
static void print_text(const char *name, const char *value, int indent)
{
	char *text;

	if (!value[0])
		return;
	text = table_clean(value, 0, indent);
	printf("%-11s %s\n", name, text);
	free(text);
}

static void print_line(const char *name, const char *value)
{
	print_text(name, value, TABLE_ONE_LINE);
}

static void print_job(const struct pg_result *res)
{
	static const struct {
		const char *name;
		int col;
	} lines[] = {
		{ "label", 4 },   { "key", 5 },      { "rule", 23 },   { "tags", 24 },   { "trace", 25 },
		{ "run at", 11 }, { "expires", 12 }, { "limits", 15 }, { "worker", 14 },
	};
	const char *state = pg_text(res, 0, 1, NULL);
	char age[TABLE_AGE_SIZE], progress[TABLE_PROGRESS_SIZE],
		*queue = table_clean(pg_text(res, 0, 2, NULL), 0, TABLE_ONE_LINE),
		*who = table_clean(pg_text(res, 0, 10, NULL), 0, TABLE_ONE_LINE);

	printf("job         %" PRId64 "\n", pg_int(res, 0, 0));
	print_line("state", state);
	print_line("function", pg_text(res, 0, 3, NULL));
	printf("queue       %s, priority %" PRId64 "\n", queue, pg_int(res, 0, 6));
	printf("deferred    %s by %s, %s ago\n", pg_text(res, 0, 8, NULL), who, table_age(age, pg_int(res, 0, 9)));
	free(queue);
	free(who);
	if (!pg_null(res, 0, 13))
		print_line(strcmp(state, "claimed") == 0 ? "lease ends"
			   : strcmp(state, "ready") == 0 ? "ready since"
							 : "due",
			   pg_text(res, 0, 13, NULL));
	print_line("held by", pg_text(res, 0, 22, NULL));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		print_line(lines[i].name, pg_text(res, 0, lines[i].col, NULL));
	print_line("progress", table_progress(progress, res, 0, 18));
	print_text("params", pg_text(res, 0, 16, NULL), 12);
}

static void cell_us(struct table *t, const struct pg_result *res, size_t row, int col)
{
	char buf[TABLE_AGE_SIZE];

	table_cell(t, "%s", pg_null(res, row, col) ? "" : table_us(buf, pg_int(res, row, col)));
}

static void print_attempts(const struct pg_result *res)
{
	static const char *const headers[] = { ">#",   "OUTCOME", "STARTED", ">WAITED", ">RAN",  ">USER",
					       ">SYS", ">RSS KB", "EXIT",    "WORKER",  "PLUGIN" };
	struct table t;

	table_begin(&t, headers, 11);
	for (size_t i = 0; i < pg_rows(res); i++) {
		table_cell(&t, "%" PRId64, pg_int(res, i, 0));
		table_cell(&t, "%s%s", pg_text(res, i, 1, NULL), pg_bool(res, i, 2) ? "" : ", to be tried again");
		table_cell(&t, "%s", pg_text(res, i, 5, NULL));
		for (int col = 6; col <= 9; col++)
			cell_us(&t, res, i, col);
		table_cell(&t, "%s", pg_text(res, i, 10, NULL));
		if (!pg_null(res, i, 4))
			table_cell(&t, "signal %" PRId64, pg_int(res, i, 4));
		else
			table_cell(&t, "%s", pg_text(res, i, 3, NULL));
		table_cell(&t, "%s", pg_text(res, i, 11, NULL));
		table_cell(&t, "%s", pg_text(res, i, 12, NULL));
	}
	table_end(&t);
	for (size_t i = 0; i < pg_rows(res); i++) {
		char *error = table_clean(pg_text(res, i, 13, NULL), 0, 4);
		char *result = table_clean(pg_text(res, i, 14, NULL), 0, 4);

		if (error[0])
			printf("%" PRId64 " error: %s\n", pg_int(res, i, 0), error);
		if (result[0])
			printf("%" PRId64 " result: %s\n", pg_int(res, i, 0), result);
		free(error);
		free(result);
	}
}

/* What it waits for, then what waits for it; of each no more than that, behind which the statement has one more row
 * where there are. */
#define EDGES_MAX 50

static void print_edges(const struct pg_result *res, bool above)
{
	int n = 0;

	for (size_t i = 0; i < pg_rows(res); i++) {
		char *name, *label;

		if (pg_bool(res, i, 0) != above || ++n > EDGES_MAX + 1)
			continue;
		if (n > EDGES_MAX) {
			printf("%-11s and more\n", "");
			continue;
		}
		name = table_clean(pg_text(res, i, 3, NULL), 0, TABLE_ONE_LINE);
		label = table_clean(pg_text(res, i, 6, NULL), 60, TABLE_ONE_LINE);
		printf("%-11s %" PRId64 " %s%s%s, %s: %s %s\n",
		       n > 1   ? ""
		       : above ? "waits for"
			       : "awaited by",
		       pg_int(res, i, 1), pg_text(res, i, 4, NULL), name[0] ? " as " : "", name,
		       pg_text(res, i, 2, NULL), pg_text(res, i, 5, NULL), label);
		free(name);
		free(label);
	}
}

static int show(struct cli *cli, int64_t id)
{
	struct pg_result *job = NULL, *attempts = NULL, *edges = NULL;
	struct deferred_error err = { 0 };
	int rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);

	if (rc == 0)
		rc = admin_show_exec(cli->pg, id, &job, &err);
	if (rc == 0 && pg_rows(job) == 0)
		rc = error_not_there(&err, "job", id);
	if (rc == 0 && !cli->json)
		rc = admin_show_attempts_exec(cli->pg, id, &attempts, &err);
	if (rc == 0 && !cli->json)
		rc = admin_show_edges_exec(cli->pg, id, &edges, &err);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		puts(pg_text(job, 0, 17, NULL));
	} else {
		print_job(job);
		print_edges(edges, true);
		print_edges(edges, false);
		if (pg_rows(attempts) > 0) {
			putchar('\n');
			print_attempts(attempts);
		}
	}
	pg_result_free(job);
	pg_result_free(attempts);
	pg_result_free(edges);
	return rc;
}

static int run(struct cli *cli, int argc, char **argv)
{
	int64_t id;
	int c, rc;

	if ((c = cli_getopt(cli, argc, argv, NULL)) != CLI_OPT_DONE)
		return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	if (argc - optind != 1)
		return cli_usage(cli, "argument ID is missing, or given twice");
	if (!cli_int(cli, "job id", argv[optind], 1, INT64_MAX, &id))
		return EX_USAGE;
	rc = cli_shard_of(cli, id);
	if (rc == 0)
		rc = cli_connect(cli, true);
	return rc != 0 ? rc : show(cli, id);
}

const struct cmd cmd_show = {
	"show", "ID", "show one job", run, "deferred_reader",
};
