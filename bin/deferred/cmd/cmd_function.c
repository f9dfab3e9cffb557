/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "settings.h"
#include "store/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void function_print_functions(const struct pg_result *res)
{
	static const char *const headers[] = { "FUNCTION", ">RUNNING",   ">MAX",   ">RATE",
					       ">BURST",   "PAUSED FOR", "ON DEAD" };
	char rate[SETTINGS_RATE_SIZE], age[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 7);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_function_ls_row r = admin_function_ls_row(res, i);

		table_cell(&t, "%s", r.fn);
		table_number(&t, true, r.running);
		table_number(&t, r.has_max_running, r.max_running);
		table_cell(&t, "%s", !r.has_rate ? "" : settings_rate(rate, r.rate));
		table_number(&t, r.has_burst, r.burst);
		table_cell(&t, "%s", !r.has_paused_s ? "" : table_age(age, r.paused_s));
		table_cell(&t, "%s", !r.on_dead ? "" : r.on_dead);
	}
	table_end_list(&t, "functions with settings");
}

static int cmd_function_ls(struct cli *cli, const char *fn)
{
	struct deferred_error err = { 0 };
	struct pg_result *res;

	if (admin_function_ls_exec(cli->pg, fn, &res, &err) < 0)
		return cli_fail(cli, &err);
	return cli_list(cli, res, function_print_functions);
}

static int cmd_function_set(struct cli *cli, const char *fn, const struct settings *s)
{
	struct deferred_error err = { 0 };
	int64_t marked = 0;
	int rc = admin_function_set_exec(cli->pg, fn, s->name, s->n, s->value, s->n, store_admin_user(), &err);

	if (rc == 0)
		rc = store_admin_mark(cli->pg, &marked, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	cli_warn_unoffered(cli, fn);
	return cli->json ? cmd_function_ls(cli, fn) : EX_OK;
}

static int cmd_function_rm(struct cli *cli, const char *fn)
{
	static const struct settings none = { .name = { "max_running", "rate", "burst", "on_dead" }, .n = 4 };
	struct deferred_error err = { 0 };
	struct pg_result *res;
	bool found;

	if (admin_function_ls_exec(cli->pg, fn, &res, &err) < 0)
		return cli_fail(cli, &err);
	found = pg_rows(res) > 0;
	pg_result_free(res);
	if (!found) {
		error_set(&err, DEFERRED_ENOTFOUND, "function",
			  "function '%.64s' has no limits\nset one with deferred function set", fn);
		return cli_fail(cli, &err);
	}
	return cmd_function_set(cli, fn, &none);
}

static int cmd_function_resume(struct cli *cli, const char *fn)
{
	struct deferred_error err = { 0 };
	struct function_resume_row r;

	if (function_resume_one(cli->pg, fn, store_admin_user(), &r, &err) < 0)
		return cli_fail(cli, &err);
	if (r.resumed)
		return cli->json ? cmd_function_ls(cli, fn) : EX_OK;
	error_set(&err, DEFERRED_ENOTFOUND, "function",
		  "function '%.64s' is not paused\ndeferred function ls lists the paused ones", fn);
	return cli_fail(cli, &err);
}

/* Options and the function of a word. False: the word ends with *rc. */
static bool function_read_line(struct cli *cli, int argc, char **argv, const struct program_option *options,
			       struct settings *settings, int *rc)
{
	int c;

	*rc = EX_USAGE;
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			*rc = EX_OK;
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD || !settings ||
		    !settings_read(settings, cli, SETTINGS_FUNCTION, c, optarg))
			return false;
	}
	return cli_arguments(cli, argc, argv, strcmp(argv[0], "ls") == 0 ? "[FUNCTION]" : "FUNCTION");
}

static int function_ls(struct cli *cli, int argc, char **argv)
{
	int rc;

	cli->role = "deferred_viewer";
	if (!function_read_line(cli, argc, argv, NULL, NULL, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_function_ls(cli, argv[optind]);
}

static int function_set(struct cli *cli, int argc, char **argv)
{
	struct program_option options[24] = { 0 };
	struct settings settings = { 0 };
	int rc;

	settings_options(SETTINGS_FUNCTION, options, 0);
	if (!function_read_line(cli, argc, argv, options, &settings, &rc))
		return rc;
	if (settings.n == 0)
		return cli_usage(cli, "a setting is missing");
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_function_set(cli, argv[optind], &settings);
}

static int function_rm(struct cli *cli, int argc, char **argv)
{
	int rc;

	if (!function_read_line(cli, argc, argv, NULL, NULL, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_function_rm(cli, argv[optind]);
}

static int function_resume(struct cli *cli, int argc, char **argv)
{
	int rc;

	if (!function_read_line(cli, argc, argv, NULL, NULL, &rc) || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return cmd_function_resume(cli, argv[optind]);
}

static int cmd_function_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "ls", function_ls },
		{ "set", function_set },
		{ "rm", function_rm },
		{ "resume", function_resume },
		{ 0 },
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_function = {
	"function",
	"ls [FN]\n"
	"set FN OPTION...\n"
	"rm FN\n"
	"resume FN",
	"set limits of functions",
	cmd_function_run,
	"deferred_worker",
	"ls, set, rm and resume",
};
