/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "settings.h"
#include "store/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_functions(const struct pg_result *res)
{
	static const char *const headers[] = { "FUNCTION", ">RUNNING",   ">MAX",   ">RATE",
					       ">BURST",   "PAUSED FOR", "ON DEAD" };
	char rate[SETTINGS_RATE_SIZE], age[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 7);
	for (size_t i = 0; i < pg_rows(res); i++) {
		table_cell(&t, "%s", pg_text(res, i, 0, NULL));
		table_cell(&t, "%s", pg_text(res, i, 1, NULL));
		table_cell(&t, "%s", pg_text(res, i, 2, NULL));
		table_cell(&t, "%s", pg_null(res, i, 3) ? "" : settings_rate(rate, pg_float(res, i, 3)));
		table_cell(&t, "%s", pg_text(res, i, 4, NULL));
		table_cell(&t, "%s", pg_null(res, i, 5) ? "" : table_age(age, pg_int(res, i, 5)));
		table_cell(&t, "%s", pg_null(res, i, 7) ? "" : pg_text(res, i, 7, NULL));
	}
	table_end(&t);
}

static int ls(struct cli *cli, const char *fn)
{
	struct deferred_error err = { 0 };
	struct pg_result *res;

	if (store_admin_function_ls(cli->pg, fn, &res, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json_array(res, 6);
		putchar('\n');
	} else if (pg_rows(res) > 0) {
		print_functions(res);
	}
	pg_result_free(res);
	return EX_OK;
}

static int set(struct cli *cli, const char *fn, const struct settings *s)
{
	struct deferred_error err = { 0 };
	int64_t marked = 0;
	int rc = store_admin_function_set(cli->pg, fn, s->name, s->value, s->n, &err);

	if (rc == 0)
		rc = store_admin_mark(cli->pg, &marked, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	cli_warn_unoffered(cli, fn);
	return cli->json ? ls(cli, fn) : EX_OK;
}

static int rm(struct cli *cli, const char *fn)
{
	static const struct settings none = { .name = { "max_running", "rate", "burst", "on_dead" }, .n = 4 };
	struct deferred_error err = { 0 };
	struct pg_result *res;
	bool found;

	if (store_admin_function_ls(cli->pg, fn, &res, &err) < 0)
		return cli_fail(cli, &err);
	found = pg_rows(res) > 0;
	pg_result_free(res);
	if (!found) {
		error_set(&err, DEFERRED_ENOTFOUND, "function", "function '%.64s' has no limits", fn);
		return cli_fail(cli, &err);
	}
	return set(cli, fn, &none);
}

static int resume(struct cli *cli, const char *fn)
{
	struct deferred_error err = { 0 };
	bool paused;

	if (store_admin_function_resume(cli->pg, fn, &paused, &err) < 0)
		return cli_fail(cli, &err);
	if (paused)
		return cli->json ? ls(cli, fn) : EX_OK;
	error_set(&err, DEFERRED_ENOTFOUND, "function", "function '%.64s' is not paused", fn);
	return cli_fail(cli, &err);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct program_option options[26] = { 0 };
	struct settings s = { 0 };
	const char *verb;
	int c, rc, n;

	settings_options(SETTINGS_FUNCTION, options, 0);
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (!settings_read(&s, cli, SETTINGS_FUNCTION, c, optarg))
			return EX_USAGE;
	}
	verb = optind < argc ? argv[optind++] : "";
	n = argc - optind;
	if (strcmp(verb, "ls") != 0 && strcmp(verb, "set") != 0 && strcmp(verb, "rm") != 0 &&
	    strcmp(verb, "resume") != 0)
		return cli_none_of(cli, verb, cli->cmd->words);
	if (n == 0 && verb[0] != 'l')
		return cli_usage(cli, "argument FUNCTION is missing");
	if (n > 1)
		return cli_usage(cli, "argument '%.64s' is not expected", argv[optind + 1]);
	if ((verb[0] == 's') != (s.n > 0))
		return cli_usage(cli, verb[0] == 's' ? "a setting is missing" : "settings are for function set only");
	if (verb[0] == 'l')
		cli->role = "deferred_viewer";
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	if (verb[0] == 'l')
		return ls(cli, n ? argv[optind] : NULL);
	if (verb[0] == 's')
		return set(cli, argv[optind], &s);
	return verb[1] == 'm' ? rm(cli, argv[optind]) : resume(cli, argv[optind]);
}

const struct cmd cmd_function = {
	"function",
	"ls [FN]\n"
	"set FN OPTION...\n"
	"rm FN\n"
	"resume FN",
	"set limits of functions",
	run,
	"deferred_worker",
	"ls, set, rm and resume",
};
