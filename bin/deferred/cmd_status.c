/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "store/admin.h"
#include "store/alert.h"
#include "table.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALERTS_SHOWN 20

static void cell_count(struct table *t, int64_t n, bool more)
{
	table_cell(t, "%" PRId64 "%s", n, more ? "+" : "");
}

static void print_queues(const struct pg_result *res)
{
	static const char *const headers[] = { "QUEUE", ">READY", ">DELAYED", ">CLAIMED", ">OLDEST", "HELD BY" };
	char age[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 6);
	for (size_t i = 0; i < pg_rows(res); i++) {
		bool more = pg_bool(res, i, 5);

		table_cell(&t, "%s", pg_text(res, i, 0, NULL));
		cell_count(&t, pg_int(res, i, 2), more);
		cell_count(&t, pg_int(res, i, 4), pg_bool(res, i, 6));
		cell_count(&t, pg_int(res, i, 3), more && pg_int(res, i, 3) > 0);
		table_cell(&t, "%s", pg_null(res, i, 7) ? "" : table_age(age, pg_int(res, i, 7)));
		if (pg_bool(res, i, 1) && !pg_null(res, i, 11))
			table_cell(&t, "paused by %s %s ago", pg_text(res, i, 10, NULL),
				   table_age(age, pg_int(res, i, 11)));
		else
			table_cell(&t, "%s", pg_bool(res, i, 1) ? "paused" : pg_bool(res, i, 8) ? "limits" : "");
	}
	table_end(&t);
}

/* Who runs a service need not wait for their leases: it notices, and takes what they hold. */
static void print_gone(const struct pg_result *all)
{
	char *text = pg_null(all, 0, 3) ? NULL : table_clean(pg_text(all, 0, 3, NULL), 0, 2);

	if (text && *text)
		printf("%s\n\n", text);
	free(text);
}

static void print_absent(const struct pg_result *res)
{
	char seen[TABLE_AGE_SIZE], every[TABLE_AGE_SIZE];

	for (size_t i = 0; i < pg_rows(res); i++) {
		char *name = table_clean(pg_text(res, i, 0, NULL), 0, TABLE_ONE_LINE);

		printf("missed: %s %s, seen %s ago", pg_bool(res, i, 3) ? "service" : "check_deferred",
		       name ? name : "", table_age(seen, pg_int(res, i, 6)));
		if (!pg_bool(res, i, 3))
			printf("; it used to come every %s", table_age(every, pg_int(res, i, 5)));
		putchar('\n');
		free(name);
	}
	if (pg_rows(res) > 0)
		putchar('\n');
}

static void print_dead(const struct pg_result *res)
{
	char age[TABLE_AGE_SIZE];

	printf("\ndead: %" PRId64 "%s", pg_int(res, 0, 0), pg_bool(res, 0, 1) ? "+" : "");
	if (pg_int(res, 0, 2) > 0)
		printf(", %" PRId64 "%s of them in the last hour", pg_int(res, 0, 2), pg_bool(res, 0, 3) ? "+" : "");
	if (!pg_null(res, 0, 4))
		printf(", the oldest for %s", table_age(age, pg_int(res, 0, 4)));
	putchar('\n');
}

static void print_outcomes(const struct pg_result *res)
{
	printf("last hour:");
	if (pg_rows(res) == 0)
		printf(" no attempts");
	for (size_t i = 0; i < pg_rows(res); i++) {
		const char *more = pg_bool(res, i, 3) ? "+" : "";

		printf("%s %" PRId64 "%s %s", i ? "," : "", pg_int(res, i, 1), more, pg_text(res, i, 0, NULL));
		if (pg_int(res, i, 2) > 0)
			printf(" (%" PRId64 "%s dead)", pg_int(res, i, 2), more);
	}
	putchar('\n');
}

/* The first of them; `deferred functions` has the rest. */
static void print_unknown(const struct pg_result *res)
{
	size_t shown = pg_rows(res) < 5 ? pg_rows(res) : 5;

	if (shown == 0)
		return;
	printf("no worker has:");
	for (size_t i = 0; i < shown; i++) {
		char *fn = table_clean(pg_text(res, i, 0, NULL), 0, TABLE_ONE_LINE);

		printf("%s %s (%" PRId64 " job%s)", i ? "," : "", fn, pg_int(res, i, 1), plural(pg_int(res, i, 1)));
		free(fn);
	}
	printf("%s\n", pg_rows(res) > shown ? ", ...: deferred functions" : "");
}

/* What stands; `deferred alert --list` has what mends it. */
static void print_alerts(const struct pg_result *res)
{
	size_t shown = pg_rows(res) < ALERTS_SHOWN ? pg_rows(res) : ALERTS_SHOWN;
	char age[TABLE_AGE_SIZE];

	for (size_t i = 0; i < shown; i++) {
		char *text = table_clean(pg_text(res, i, 4, NULL), 0, TABLE_ONE_LINE);

		printf("alert: %s (for %s)\n", text ? text : "", table_age(age, pg_int(res, i, 2)));
		free(text);
	}
	if (pg_rows(res) > shown)
		printf("alerts: %zu more: deferred alert --list\n", pg_rows(res) - shown);
}

/* What is usual is not worth a line. */
static void print_durability(const struct pg_result *res)
{
	char *told;

	if (strcmp(pg_text(res, 0, 0, NULL), "local") == 0 && pg_null(res, 0, 2))
		return;
	told = table_clean(pg_text(res, 0, 1, NULL), 0, TABLE_ONE_LINE);
	printf("durability: %s\n", told ? told : "");
	free(told);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct pg_result *all = NULL, *queues = NULL, *outcomes = NULL, *dead = NULL, *unknown = NULL, *alerts = NULL,
			 *absent = NULL, *durability = NULL;
	struct deferred_error err = { 0 };
	int c, rc;

	if ((c = cli_getopt(cli, argc, argv, NULL)) != CLI_OPT_DONE)
		return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	if (optind < argc)
		return cli_usage(cli, "argument '%.64s' is not expected", argv[optind]);
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);
	if (rc == 0)
		rc = admin_status_exec(cli->pg, &all, &err);
	if (rc == 0)
		rc = admin_status_queues_exec(cli->pg, STORE_ADMIN_COUNT_MAX, &queues, &err);
	if (rc == 0)
		rc = admin_status_outcomes_exec(cli->pg, STORE_ADMIN_COUNT_MAX, &outcomes, &err);
	if (rc == 0)
		rc = admin_status_dead_exec(cli->pg, STORE_ADMIN_ENDS, &dead, &err);
	if (rc == 0)
		rc = admin_functions_unknown_exec(cli->pg, STORE_ADMIN_UNKNOWN_JOBS, &unknown, &err);
	if (rc == 0)
		rc = alert_ls_exec(cli->pg, &alerts, &err);
	if (rc == 0)
		rc = why_absent_exec(cli->pg, &absent, &err);
	if (rc == 0)
		rc = admin_durability_exec(cli->pg, &durability, &err);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		printf("{\"schema_version\": %" PRId64 ", \"workers\": %" PRId64
		       ",\n \"gone_workers\": %s,\n \"queues\": ",
		       pg_int(all, 0, 0), pg_int(all, 0, 1), pg_null(all, 0, 2) ? "[]" : pg_text(all, 0, 2, NULL));
		cli_print_json_array(queues, 9);
		printf(",\n \"missed\": ");
		cli_print_json_array(absent, 7);
		printf(",\n \"last_hour\": ");
		cli_print_json_array(outcomes, 4);
		printf(",\n \"dead\": %s", pg_text(dead, 0, 5, NULL));
		printf(",\n \"unknown_functions\": ");
		cli_print_json_array(unknown, 4);
		printf(",\n \"alerts\": ");
		cli_print_json_array(alerts, 6);
		printf(",\n \"durability\": \"%s\", \"standbys\": %s", pg_text(durability, 0, 0, NULL),
		       pg_null(durability, 0, 2) ? "[]" : pg_text(durability, 0, 2, NULL));
		puts("}");
	} else {
		printf("schema version %" PRId64 ", live workers: %" PRId64 "\n", pg_int(all, 0, 0), pg_int(all, 0, 1));
		print_durability(durability);
		putchar('\n');
		print_gone(all);
		print_absent(absent);
		print_queues(queues);
		print_dead(dead);
		print_outcomes(outcomes);
		print_unknown(unknown);
		print_alerts(alerts);
	}
	pg_result_free(all);
	pg_result_free(queues);
	pg_result_free(outcomes);
	pg_result_free(dead);
	pg_result_free(unknown);
	pg_result_free(alerts);
	pg_result_free(absent);
	pg_result_free(durability);
	return rc;
}

const struct cmd cmd_status = {
	"status", "", "show queues, workers and recent outcomes", run, "deferred_viewer", NULL, SHARDS_ALL,
};
