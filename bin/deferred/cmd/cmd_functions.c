/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "settings.h"
#include "store/admin.h"
#include "table.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void functions_print_functions(const struct pg_result *res)
{
	static const char *const headers[] = { "FUNCTION", "PLUGIN", "VERSION", ">TIMEOUT", ">TRIES",
					       ">MAX",     ">RATE",  ">HOSTS",  ">SEEN",    "ON" };
	char text[SETTINGS_RATE_SIZE], age[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 10);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_functions_row r = admin_functions_row(res, i);

		table_cell(&t, "%s", r.fn);
		table_cell(&t, "%s", r.plugin);
		table_cell(&t, "%s", r.version);
		table_cell(&t, "%s", r.has_timeout_ms ? settings_span(text, r.timeout_ms) : "");
		table_number(&t, r.has_max_attempts, r.max_attempts);
		table_number(&t, r.has_max_running, r.max_running);
		table_cell(&t, "%s", r.has_rate ? settings_rate(text, r.rate) : "");
		table_cell(&t, "%" PRId64, r.hosts);
		table_cell(&t, r.has_seen_s ? "%s ago" : "never", table_age(age, r.seen_s));
		table_cell(&t, "%s", r.some_hosts);
	}
	table_end(&t);
}

static void functions_print_unknown(const struct pg_result *res)
{
	printf("\njobs wait for functions that no worker offers%s:\n",
	       admin_functions_unknown_row(res, 0).more ? ", among those looked at" : "");
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_functions_unknown_row r = admin_functions_unknown_row(res, i);
		char *fn = table_clean(r.fn, 0, TABLE_ONE_LINE), age[TABLE_AGE_SIZE];

		printf("  %s: %" PRId64 " job%s, the first deferred %s ago\n", fn, r.jobs, plural(r.jobs),
		       table_age(age, r.oldest_s));
		free(fn);
	}
}

static int functions_ls(struct cli *cli, const char *fn)
{
	struct pg_result *res = NULL, *unknown = NULL;
	struct deferred_error err = { 0 };
	int rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);

	if (rc == 0)
		rc = admin_functions_exec(cli->pg, fn, &res, &err);
	if (rc == 0 && !fn)
		rc = admin_functions_unknown_exec(cli->pg, STORE_ADMIN_UNKNOWN_JOBS, &unknown, &err);
	if (rc == 0 && fn && pg_rows(res) == 0)
		rc = error_set(&err, DEFERRED_ENOTFOUND, "functions",
			       "function '%.127s': no worker offers it\ndeferred functions lists what they offer", fn);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json && fn) {
		cli_print_json_array(res);
		putchar('\n');
	} else if (cli->json) {
		printf("{\"functions\": ");
		cli_print_json_array(res);
		printf(",\n \"unknown\": ");
		cli_print_json_array(unknown);
		puts("}");
	} else {
		if (pg_rows(res) > 0)
			functions_print_functions(res);
		else
			puts("no worker has stored yet what it offers; one does so when it has work");
		if (unknown && pg_rows(unknown) > 0)
			functions_print_unknown(unknown);
	}
	pg_result_free(res);
	pg_result_free(unknown);
	return rc;
}

static int cmd_functions_run(struct cli *cli, int argc, char **argv)
{
	int rc;

	if (!cli_no_options(cli, argc, argv, &rc))
		return rc;
	if (!cli_arguments(cli, argc, argv, "[FUNCTION]"))
		return EX_USAGE;
	rc = cli_connect(cli, true);
	return rc != 0 ? rc : functions_ls(cli, optind < argc ? argv[optind] : NULL);
}

const struct cmd cmd_functions = {
	"functions", "[FN]", "list the functions that workers offer", cmd_functions_run, "deferred_viewer",
};
