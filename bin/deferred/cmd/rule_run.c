/* SPDX-License-Identifier: MIT */
/* rule run: all rows of a rule become jobs, on the server. */
#include "base/clock.h"
#include "base/text/plural.h"
#include "cmd_rule.h"
#include "port/params.h"
#include "store/rule.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rule_connect(struct cli *cli)
{
	int rc = cli_connect(cli, true);

	if (rc != 0)
		return rc;
	pg_on_notice(cli->pg, NULL, NULL); /* a query may say anything, to whoever runs it */
	cli_set_limits(cli, true);         /* it has a limit of its own */
	return 0;
}

int rule_fail(const struct cli *cli, const struct deferred_error *err)
{
	int rc = cli_fail(cli, err);

	return strcmp(err->sqlstate, "55006") == 0 ? EX_TEMPFAIL : rc;
}

struct progress {
	const char *name;
	bool shown;
};

static void rule_run_show_progress(void *data, double queued, double stored, double estimate)
{
	static const char bar[] = "########################################";
	struct progress *p = data;
	double rows = estimate > queued ? estimate : queued;
	int percent = rows > 0 ? (int)((queued + stored) * 50 / rows) : 0;

	/* Once rows are being stored their number is known. */
	if (stored > 0)
		percent = 50 + (int)(stored * 50 / (queued > stored ? queued : stored));
	fprintf(stderr, "\r%s: [%-40.*s] %3d%%  %.0f of %s%.0f rows", p->name, percent * 40 / 100, bar, percent,
		stored > 0 ? stored : queued, stored > 0 ? "" : "about ", stored > 0 ? queued : rows);
	p->shown = true;
}

static void rule_run_print_json(const char *name, const struct store_rule_run *run, int64_t ms)
{
	struct rule_run_row r;

	r = rule_run_row(run->examples, 0);
	printf("{\"rule\": \"%s\", \"estimate\": %.0f, \"queued\": %" PRId64 ", \"skipped\": %" PRId64
	       ", \"failed\": %" PRId64 ", \"examples\": %s, \"ms\": %" PRId64 "}",
	       name, run->estimate, run->queued, run->skipped, run->failed, r.examples, ms);
}

static void print_json_error(const char *name, const struct deferred_error *err)
{
	struct params_text t = { 0 };
	char *text;

	params_open(&t, NULL, '{');
	params_string(&t, "rule", name);
	params_string(&t, "error", err->message);
	params_close(&t, '}');
	if (params_take(&t, &text, NULL) == 0)
		printf("%s", text);
	free(text);
}

/* The server's message about a rule names the rule. */
static bool names_rule(const char *message, const char *name)
{
	char rule[80];

	snprintf(rule, sizeof(rule), "rule '%.64s'", name);
	return strstr(message, rule) != NULL;
}

/* One rule. Returns its exit code. */
static int run_one(struct cli *cli, const char *name, int64_t flow)
{
	struct rule_run_row r;
	struct progress progress = { .name = name };
	struct store_rule_run run = { .data = &progress, .flow = flow };
	struct deferred_error err = { 0 };
	int64_t start_ns = clock_ns(), ms;
	int rc, exit_code;

	if (isatty(STDERR_FILENO)) {
		run.on_progress = rule_run_show_progress;
		rule_run_show_progress(&progress, 0, 0, 0);
	}
	rc = store_rule_run(cli->pg, name, &run, &err);
	ms = (clock_ns() - start_ns) / 1000000;
	if (progress.shown)
		fprintf(stderr, "\r\033[K");
	if (rc < 0) {
		if (!names_rule(err.message, name))
			error_prefix(&err, "rule '%.64s'", name);
		exit_code = rule_fail(cli, &err);
		if (cli->json)
			print_json_error(name, &err);
		return exit_code;
	}
	if (cli->json)
		rule_run_print_json(name, &run, ms);
	else
		printf("%s: %" PRId64 " queued, %" PRId64 " skipped, %" PRId64 " failed, %.1f s\n", name, run.queued,
		       run.skipped, run.failed, (double)ms / 1000);
	r = rule_run_row(run.examples, 0);
	if (run.failed > 0)
		cli_say("correct these rows or the query, and run the rule again",
			"rule '%s': %" PRId64 " row%s could not become jobs, such as %s", name, run.failed,
			plural(run.failed), r.examples);
	pg_result_free(run.examples);
	return run.failed > 0 ? CLI_NOT_DONE : EX_OK;
}

/* Names of all rules one may run. res holds them. */
static int rule_run_list(struct cli *cli, struct pg_result **res, const char ***names, int *n)
{
	struct deferred_error err = { 0 };

	if (rule_ls_exec(cli->pg, res, &err) < 0)
		return rule_fail(cli, &err);
	*names = calloc(pg_rows(*res) + 1, sizeof(**names));
	if (!*names) {
		pg_result_free(*res);
		*res = NULL;
		error_set(&err, DEFERRED_ENOMEM, "rule", "out of memory");
		return cli_fail(cli, &err);
	}
	for (size_t i = 0; i < pg_rows(*res); i++) {
		struct rule_ls_row r = rule_ls_row(*res, i);

		if (r.may_run)
			(*names)[(*n)++] = r.name;
	}
	return EX_OK;
}

int rule_run(struct cli *cli, int argc, char **argv)
{
	struct pg_result *res = NULL;
	static const struct program_option options[] = {
		{ "flow", "ID", "add the jobs to this open flow", 'f' },
		{ 0 },
	};
	const char **all = NULL, *const * names;
	int c, n = 0, rc, exit_code = EX_OK;
	int64_t flow = 0;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (!cli_int(cli, "--flow", optarg, 1, INT64_MAX, &flow))
			return EX_USAGE;
	}
	if ((rc = rule_connect(cli)) != 0)
		return rc;
	if (optind < argc) {
		names = (const char *const *)(argv + optind);
		n = argc - optind;
	} else {
		rc = rule_run_list(cli, &res, &all, &n);
		if (rc != EX_OK)
			return rc;
		names = all;
	}
	if (cli->json)
		putchar('[');
	for (int i = 0; i < n && !pg_broken(cli->pg); i++) {
		if (cli->json && i > 0)
			printf(",\n ");
		rc = run_one(cli, names[i], flow);
		exit_code = exit_code == EX_OK ? rc : exit_code;
	}
	if (cli->json)
		puts("]");
	free(all);
	pg_result_free(res);
	return exit_code;
}
