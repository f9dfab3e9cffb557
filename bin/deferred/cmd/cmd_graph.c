/* SPDX-License-Identifier: MIT */
/* graph: what waits for what, among the jobs of a flow or around a job, for people or for dot. */
#include "cmd.h"

#include "rows/flow.h"
#include "store/admin.h"
#include "store/flow.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS 200
#define JOBS_MAX 1000
#define LABEL_MAX 60
#define INDENT_MAX 40 /* blanks; a chain may be longer than any line */

/* Its name in the flow, or its function. */
static const char *graph_name_of(const struct pg_result *jobs, size_t row)
{
	struct flow_show_row r = flow_show_row(jobs, row);
	const char *name = r.name;

	return name[0] ? name : r.fn;
}

/* ---- for people ------------------------------------------------------------------------------- */

/* Both are in the order of ids. -1: it is not there. */
static long row_of(const struct pg_result *jobs, int64_t id)
{
	size_t low = 0, high = pg_rows(jobs);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (flow_show_row(jobs, middle).id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < pg_rows(jobs) && flow_show_row(jobs, low).id == id ? (long)low : -1;
}

/* How far behind the first ones each job is. A parent stands before its children, so one pass does. */
static void levels_of(const struct pg_result *jobs, const struct pg_result *edges, int *level)
{
	for (size_t i = 0; i < pg_rows(edges); i++) {
		struct flow_edges_row r = flow_edges_row(edges, i);

		long parent = row_of(jobs, r.parent), child = row_of(jobs, r.child);

		if (parent >= 0 && child >= 0 && level[child] <= level[parent])
			level[child] = level[parent] + 1;
	}
}

static int graph_print_text(const struct cli *cli, const struct pg_result *jobs, const struct pg_result *edges)
{
	int *level = calloc(pg_rows(jobs) + 1, sizeof(*level));

	if (!level) {
		struct deferred_error err = { 0 };

		error_set(&err, DEFERRED_ENOMEM, "graph", "out of memory for %zu jobs", pg_rows(jobs));
		return cli_fail(cli, &err);
	}
	levels_of(jobs, edges, level);
	for (size_t i = 0; i < pg_rows(jobs); i++) {
		struct flow_show_row r = flow_show_row(jobs, i);
		char *name = table_clean(graph_name_of(jobs, i), LABEL_MAX, TABLE_ONE_LINE);
		const char *waits = r.waits_for;
		int indent = 2 * level[i] < INDENT_MAX ? 2 * level[i] : INDENT_MAX;

		printf("%*s%" PRId64 " %s: %s%s%s\n", indent, "", r.id, name, r.state, waits[0] ? " <- " : "", waits);
		free(name);
	}
	free(level);
	return EX_OK;
}

/* ---- for dot ---------------------------------------------------------------------------------- */

/* Within double quotes of DOT. table_clean() has replaced unprintable characters. */
static void print_dot_text(const char *text)
{
	char *clean = table_clean(text, LABEL_MAX, TABLE_ONE_LINE);

	for (const char *s = clean; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	free(clean);
}

static void print_dot(const struct pg_result *jobs, const struct pg_result *edges)
{
	puts("digraph flow {\n    rankdir = LR;\n    node [shape = box];");
	for (size_t i = 0; i < pg_rows(jobs); i++) {
		struct flow_show_row r = flow_show_row(jobs, i);
		const char *name = r.name;

		printf("    %" PRId64 " [label = \"", r.id);
		if (name[0])
			print_dot_text(name);
		else
			printf("%" PRId64, r.id);
		fputs("\\n", stdout);
		print_dot_text(r.fn);
		printf(": %s\"];\n", r.state);
	}
	for (size_t i = 0; i < pg_rows(edges); i++) {
		struct flow_edges_row e = flow_edges_row(edges, i);
		const char *condition = e.on;

		printf("    %" PRId64 " -> %" PRId64, e.parent, e.child);
		printf(strcmp(condition, "ok") == 0 ? ";\n" : " [label = \"%s\", style = dashed];\n", condition);
	}
	puts("}");
}

/* ---- the command ------------------------------------------------------------------------------ */

static int graph(struct cli *cli, int64_t id, int limit, bool dot)
{
	struct pg_result *jobs = NULL, *edges = NULL;
	struct deferred_error err = { 0 };
	int rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);

	if (rc == 0)
		rc = flow_show_exec(cli->pg, id, limit, 0, &jobs, &err);
	if (rc == 0 && pg_rows(jobs) == 0)
		rc = error_not_there(&err, "flow", id);
	if (rc == 0)
		rc = flow_edges_exec(cli->pg, id, limit, &edges, &err);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		cli_print_json_array(jobs);
		putchar('\n');
	} else if (dot) {
		print_dot(jobs, edges);
	} else {
		rc = graph_print_text(cli, jobs, edges);
		if (pg_rows(jobs) == (size_t)limit)
			puts("... and perhaps more: see --limit");
	}
	pg_result_free(jobs);
	pg_result_free(edges);
	return rc;
}

static int cmd_graph_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "dot", NULL, "print input for dot", 'd' },
		{ "limit", "N", "jobs to draw", 'l', "200" },
		{ 0 },
	};
	int64_t id, limit = JOBS;
	bool dot = false;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		dot |= c == 'd';
		if (c == 'l' && !cli_int(cli, "--limit", optarg, 1, JOBS_MAX, &limit))
			return EX_USAGE;
	}
	if (!cli_arguments(cli, argc, argv, "ID"))
		return EX_USAGE;
	if (!cli_int(cli, "flow id", argv[optind], 1, INT64_MAX, &id))
		return EX_USAGE;
	rc = cli_connect(cli, true);
	return rc != 0 ? rc : graph(cli, id, (int)limit, dot);
}

const struct cmd cmd_graph = {
	"graph", "ID [OPTION...]", "draw which jobs wait for which", cmd_graph_run, "deferred_viewer",
};
