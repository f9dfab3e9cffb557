/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "port/params.h"
#include "store/admin.h"
#include "store/flow.h"
#include "table.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOWS 20
#define FLOWS_MAX 10000
#define JOBS 200
#define JOBS_MAX 1000
#define LABEL_MAX 60

/* The options have been read: the rest is one number. False: it was wrong, and reported. */
static bool one_id(struct cli *cli, int argc, char **argv, int64_t *id)
{
	return cli_arguments(cli, argc, argv, "ID") && cli_int(cli, "id", argv[optind], 1, INT64_MAX, id);
}

/* ---- add, open -------------------------------------------------------------------------------- */

typedef int store_make_fn(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err);

static int flow_make(struct cli *cli, const char *flow, store_make_fn *store)
{
	struct deferred_error err = { 0 };
	struct pg_result *jobs = NULL;
	int64_t id = 0;
	int rc = params_check(flow, strlen(flow), &err);

	if (rc == 0)
		rc = store(cli->pg, flow, &id, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	snprintf(cli->stored, sizeof(cli->stored), "flow %" PRId64 " is stored", id);
	if (!cli->json) {
		printf("%" PRId64 "\n", id);
		return EX_OK;
	}
	if (admin_flow_jobs_exec(cli->pg, id, &jobs, &err) < 0)
		return cli_fail(cli, &err);
	printf("{\"id\": %" PRId64 ", \"jobs\": ", id);
	cli_print_json_array(jobs);
	puts("}");
	pg_result_free(jobs);
	return EX_OK;
}

static int make_of_file(struct cli *cli, int argc, char **argv, store_make_fn *store)
{
	const char *flow;
	char *given;
	int rc;

	if (!cli_no_options(cli, argc, argv, &rc))
		return rc;
	if (!cli_arguments(cli, argc, argv, "FILE"))
		return EX_USAGE;
	if (strcmp(argv[optind], "-") != 0 && !freopen(argv[optind], "re", stdin))
		return cli_no_input(cli, argv[optind], "correct the path, or pass - to read standard input");
	flow = cli_params(cli, "-", &given, &rc);
	if (flow)
		rc = cli_connect(cli, true);
	if (flow && rc == 0)
		rc = flow_make(cli, flow, store);
	free(given);
	return rc;
}

static int flow_add(struct cli *cli, int argc, char **argv)
{
	return make_of_file(cli, argc, argv, store_flow_add);
}

static int flow_open(struct cli *cli, int argc, char **argv)
{
	return make_of_file(cli, argc, argv, store_flow_open);
}

/* ---- ls --------------------------------------------------------------------------------------- */

static void print_flows(const struct pg_result *res)
{
	static const char *const headers[] = { ">ID", ">JOBS", "STATES", "ON FAILURE", "DEFERRED", "BY", "LABEL" };

	cli_print_columns(res, headers, 7, "flows");
}

static int flow_ls(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "limit", "N", "flows to list", 'l', "20" },
		{ 0 },
	};
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	int64_t limit = FLOWS;
	int rc;

	if (!cli_only_limit(cli, argc, argv, options, "", FLOWS_MAX, &limit, &rc))
		return rc;
	cli->role = "deferred_viewer";
	rc = cli_connect(cli, true);
	if (rc != 0)
		return rc;
	rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);
	if (rc == 0)
		rc = store_flow_ls(cli->pg, (int)limit, 0, &res, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	return cli_list(cli, res, print_flows);
}

/* ---- show ------------------------------------------------------------------------------------- */

static void flow_print_head(const struct pg_result *res)
{
	struct flow_head_row r = flow_head_row(res, 0);
	char *label = table_clean(r.label, LABEL_MAX, TABLE_ONE_LINE);

	printf("flow of %" PRId64 " job%s%s%s\n", r.jobs, plural(r.jobs), label[0] ? ": " : "", label);
	free(label);
	printf("states      %s\non failure  %s", r.states, r.on_failure);
	if (r.has_failed)
		printf(", job %" PRId64 " failed first", r.failed);
	if (r.retry) {
		char *retried = table_clean(r.retry, 0, TABLE_ONE_LINE);

		printf("\nretry       %s", retried);
		free(retried);
	}
	puts("\n");
}

static void print_jobs(const struct pg_result *res, bool more)
{
	static const char *const headers[] = { ">ID", "NAME", "FUNCTION", "STATE", "WAITS FOR" };
	struct table t;

	table_begin(&t, headers, 5);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct flow_show_row r = flow_show_row(res, i);

		table_cell(&t, "%" PRId64, r.id);
		table_cell(&t, "%s", r.name);
		table_cell(&t, "%s", r.fn);
		table_cell(&t, "%s", r.state);
		table_cell(&t, "%s", r.waits_for);
	}
	table_end(&t);
	if (more)
		puts("... and perhaps more: see --limit");
}

static int cmd_flow_show(struct cli *cli, int64_t id, int limit)
{
	struct pg_result *head = NULL, *jobs = NULL;
	struct deferred_error err = { 0 };
	int rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);

	if (rc == 0)
		rc = flow_show_exec(cli->pg, id, limit, 0, &jobs, &err);
	if (rc == 0)
		rc = flow_head_exec(cli->pg, id, JOBS_MAX, &head, &err);
	if (rc == 0 && pg_rows(jobs) == 0 && pg_rows(head) == 0)
		rc = error_not_there(&err, "flow", id);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		cli_print_json_array(jobs);
		putchar('\n');
	} else {
		if (pg_rows(head) > 0)
			flow_print_head(head);
		print_jobs(jobs, pg_rows(jobs) == (size_t)limit);
	}
	pg_result_free(head);
	pg_result_free(jobs);
	return rc;
}

static int flow_show(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "limit", "N", "jobs to show", 'l', "200" },
		{ 0 },
	};
	int64_t id, limit = JOBS;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (!cli_int(cli, "--limit", optarg, 1, JOBS_MAX, &limit))
			return EX_USAGE;
	}
	if (!one_id(cli, argc, argv, &id))
		return EX_USAGE;
	cli->role = "deferred_viewer";
	rc = cli_connect(cli, true);
	return rc != 0 ? rc : cmd_flow_show(cli, id, (int)limit);
}

/* ---- what is done to one ---------------------------------------------------------------------- */

/* The one id is read, and there is a connection. False: *rc is what to return. */
static bool flow_begin(struct cli *cli, int argc, char **argv, int64_t *id, int *rc)
{
	if (!cli_no_options(cli, argc, argv, rc))
		return false;
	*rc = EX_USAGE;
	if (!one_id(cli, argc, argv, id))
		return false;
	*rc = cli_connect(cli, true);
	return *rc == 0;
}

/* ---- cancel ----------------------------------------------------------------------------------- */

static int flow_cancel(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	int64_t id, cancelled;
	int rc;

	if (!flow_begin(cli, argc, argv, &id, &rc))
		return rc;
	rc = store_flow_cancel(cli->pg, id, &cancelled, &err);
	if (rc < 0 && cancelled > 0)
		error_prefix(&err, "%" PRId64 " job%s cancelled, then", cancelled, plural(cancelled));
	if (rc < 0)
		return cli_fail(cli, &err);
	printf(cli->json ? "{\"cancelled\": %" PRId64 "}\n" : "%" PRId64 " cancelled\n", cancelled);
	return EX_OK;
}

/* ---- close, retry ----------------------------------------------------------------------------- */

typedef int store_act_fn(struct pg *pg, int64_t flow, bool *done, struct deferred_error *err);

/* json: what the member is called that says whether it was done now. */
static int flow_act(struct cli *cli, int argc, char **argv, store_act_fn *store, const char *json, const char *done_now,
		    const char *done_before)
{
	struct deferred_error err = { 0 };
	bool done;
	int64_t id;
	int rc;

	if (!flow_begin(cli, argc, argv, &id, &rc))
		return rc;
	if (store(cli->pg, id, &done, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		printf("{\"id\": %" PRId64 ", \"%s\": %s}\n", id, json, done ? "true" : "false");
	else
		printf("%" PRId64 ": %s\n", id, done ? done_now : done_before);
	return EX_OK;
}

static int flow_close(struct cli *cli, int argc, char **argv)
{
	return flow_act(cli, argc, argv, store_flow_close, "closed", "it ends with the last of its jobs",
			"it was closed already");
}

static int flow_retry(struct cli *cli, int argc, char **argv)
{
	return flow_act(cli, argc, argv, store_flow_retry, "noted", "the next worker begins it again",
			"it is being begun again already");
}

/* ---- release ---------------------------------------------------------------------------------- */

static int flow_release(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	int64_t id;
	int rc;

	cli->role = "deferred_worker";
	if (!flow_begin(cli, argc, argv, &id, &rc))
		return rc;
	if (store_flow_release(cli->pg, id, &err) < 0)
		return cli_fail(cli, &err);
	printf(cli->json ? "{\"id\": %" PRId64 ", \"state\": \"ready\"}\n" : "%" PRId64 " ready\n", id);
	return EX_OK;
}

/* ---- the group -------------------------------------------------------------------------------- */

static int cmd_flow_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "add", flow_add },     { "open", flow_open },       { "close", flow_close },
		{ "ls", flow_ls },       { "show", flow_show },       { "cancel", flow_cancel },
		{ "retry", flow_retry }, { "release", flow_release }, { 0 },
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_flow = {
	"flow",
	"add FILE|-\n"
	"open FILE|-\n"
	"close ID\n"
	"ls [--limit N]\n"
	"show ID [--limit N]\n"
	"cancel ID\n"
	"retry ID\n"
	"release ID",
	"defer, show and control flows of jobs",
	cmd_flow_run,
	"deferred_producer",
	"add, open, close, ls, show, cancel, retry and release",
};
