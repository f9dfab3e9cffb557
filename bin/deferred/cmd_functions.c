/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "settings.h"
#include "store/admin.h"
#include "table.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_functions(const struct pg_result *res)
{
	static const char *const headers[] = { "FUNCTION", "PLUGIN", "VERSION", ">TIMEOUT", ">TRIES",
					       ">MAX",     ">RATE",  ">HOSTS",  ">SEEN",    "ON" };
	char text[SETTINGS_RATE_SIZE], age[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 10);
	for (size_t i = 0; i < pg_rows(res); i++) {
		for (int col = 0; col < 3; col++)
			table_cell(&t, "%s", pg_text(res, i, col, NULL));
		table_cell(&t, "%s", pg_null(res, i, 3) ? "" : settings_span(text, pg_int(res, i, 3)));
		table_cell(&t, "%s", pg_text(res, i, 4, NULL));
		table_cell(&t, "%s", pg_text(res, i, 5, NULL));
		table_cell(&t, "%s", pg_null(res, i, 6) ? "" : settings_rate(text, pg_float(res, i, 6)));
		table_cell(&t, "%" PRId64, pg_int(res, i, 7));
		table_cell(&t, pg_null(res, i, 9) ? "never" : "%s ago", table_age(age, pg_int(res, i, 9)));
		table_cell(&t, "%s", pg_text(res, i, 8, NULL));
	}
	table_end(&t);
}

static void print_unknown(const struct pg_result *res)
{
	printf("\njobs wait for functions that no worker has%s:\n",
	       pg_bool(res, 0, 3) ? ", among those looked at" : "");
	for (size_t i = 0; i < pg_rows(res); i++) {
		char *fn = table_clean(pg_text(res, i, 0, NULL), 0, TABLE_ONE_LINE), age[TABLE_AGE_SIZE];

		printf("  %s: %" PRId64 " job%s, the first deferred %s ago\n", fn, pg_int(res, i, 1),
		       plural(pg_int(res, i, 1)), table_age(age, pg_int(res, i, 2)));
		free(fn);
	}
}

static int ls(struct cli *cli, const char *fn)
{
	struct pg_result *res = NULL, *unknown = NULL;
	struct deferred_error err = { 0 };
	int rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);

	if (rc == 0)
		rc = admin_functions_exec(cli->pg, fn, &res, &err);
	if (rc == 0 && !fn)
		rc = admin_functions_unknown_exec(cli->pg, STORE_ADMIN_UNKNOWN_JOBS, &unknown, &err);
	if (rc == 0 && fn && pg_rows(res) == 0)
		rc = error_set(&err, DEFERRED_ENOTFOUND, "functions", "no worker has function '%.127s'", fn);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json && fn) {
		cli_print_json_array(res, 10);
		putchar('\n');
	} else if (cli->json) {
		printf("{\"functions\": ");
		cli_print_json_array(res, 10);
		printf(",\n \"unknown\": ");
		cli_print_json_array(unknown, 4);
		puts("}");
	} else {
		if (pg_rows(res) > 0)
			print_functions(res);
		else
			puts("no worker has said yet what it has: one does when it has work");
		if (unknown && pg_rows(unknown) > 0)
			print_unknown(unknown);
	}
	pg_result_free(res);
	pg_result_free(unknown);
	return rc;
}

static int run(struct cli *cli, int argc, char **argv)
{
	int c, rc;

	if ((c = cli_getopt(cli, argc, argv, NULL)) != CLI_OPT_DONE)
		return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	if (argc - optind > 1)
		return cli_usage(cli, "argument '%.64s' is not expected", argv[optind + 1]);
	rc = cli_connect(cli, true);
	return rc != 0 ? rc : ls(cli, optind < argc ? argv[optind] : NULL);
}

const struct cmd cmd_functions = {
	"functions", "[FN]", "list the functions that workers offer", run, "deferred_viewer",
};
