/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/cause.h"
#include "base/text/plural.h"
#include "port/params.h"
#include "store/admin.h"
#include "store/alert.h"
#include "store/why.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALERTS_SHOWN 20

enum { OPT_CHECK = 1, OPT_QUEUE };

static void cell_count(struct table *t, int64_t n, bool more)
{
	table_cell(t, "%" PRId64 "%s", n, more ? "+" : "");
}

static void status_print_queues(const struct pg_result *res)
{
	static const char *const headers[] = { "QUEUE", ">READY", ">DELAYED", ">CLAIMED", ">OLDEST", "HELD BY" };
	char age[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 6);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_status_queues_row r = admin_status_queues_row(res, i);
		bool more = r.ready_more;

		table_cell(&t, "%s", r.queue);
		cell_count(&t, r.ready, more);
		cell_count(&t, r.delayed, r.delayed_more);
		cell_count(&t, r.claimed, more && r.claimed > 0);
		table_cell(&t, "%s", !r.has_oldest_ready_s ? "" : table_age(age, r.oldest_ready_s));
		if (r.paused && r.has_paused_s)
			table_cell(&t, "paused by %s %s ago", r.paused_by, table_age(age, r.paused_s));
		else
			table_cell(&t, "%s", r.paused ? "paused" : r.limited && r.ready > 0 ? "limits" : "");
	}
	table_end(&t);
}

/* A service does not wait for their leases: it notices their end and takes over their jobs. */
static void print_gone(const struct pg_result *all)
{
	struct admin_status_row r = admin_status_row(all, 0);
	char *text = !r.gone_text ? NULL : table_clean(r.gone_text, 0, 2);

	if (text && *text)
		printf("%s\n\n", text);
	free(text);
}

static void print_absent(const struct pg_result *res)
{
	char seen[TABLE_AGE_SIZE], every[TABLE_AGE_SIZE];

	for (size_t i = 0; i < pg_rows(res); i++) {
		struct why_absent_row r = why_absent_row(res, i);
		char *name = table_clean(r.instance, 0, TABLE_ONE_LINE);

		printf("missed: %s %s, seen %s ago", r.service ? "service" : "check_deferred", name ? name : "",
		       table_age(seen, r.seen_s));
		if (!r.service)
			printf("; it used to start every %s", table_age(every, r.every_s));
		putchar('\n');
		free(name);
	}
	if (pg_rows(res) > 0)
		putchar('\n');
}

static void print_dead(const struct pg_result *res)
{
	char age[TABLE_AGE_SIZE];
	struct admin_status_dead_row r = admin_status_dead_row(res, 0);

	printf("\ndead: %" PRId64 "%s", r.dead, r.more ? "+" : "");
	if (r.last_hour > 0)
		printf(", %" PRId64 "%s of them in the last hour", r.last_hour, r.last_hour_more ? "+" : "");
	if (r.has_oldest_s)
		printf(", the oldest for %s", table_age(age, r.oldest_s));
	putchar('\n');
}

static void print_outcomes(const struct pg_result *res)
{
	printf("last hour:");
	if (pg_rows(res) == 0)
		printf(" no attempts");
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_status_outcomes_row r = admin_status_outcomes_row(res, i);
		const char *more = r.more ? "+" : "";

		printf("%s %" PRId64 "%s %s", i ? "," : "", r.attempts, more, r.outcome);
		if (r.dead > 0)
			printf(" (%" PRId64 "%s dead)", r.dead, more);
	}
	putchar('\n');
}

/* The first of them; `deferred functions` has the rest. */
static void status_print_unknown(const struct pg_result *res)
{
	size_t shown = pg_rows(res) < 5 ? pg_rows(res) : 5;

	if (shown == 0)
		return;
	printf("no worker offers:");
	for (size_t i = 0; i < shown; i++) {
		struct admin_functions_unknown_row r = admin_functions_unknown_row(res, i);
		char *fn = table_clean(r.fn, 0, TABLE_ONE_LINE);

		printf("%s %s (%" PRId64 " job%s)", i ? "," : "", fn, r.jobs, plural(r.jobs));
		free(fn);
	}
	printf("%s\n", pg_rows(res) > shown ? ", ...: deferred functions" : "");
}

/* The active alerts; `deferred alert --list` prints the remedies. */
static void print_alerts(const struct pg_result *res)
{
	size_t shown = pg_rows(res) < ALERTS_SHOWN ? pg_rows(res) : ALERTS_SHOWN;
	char age[TABLE_AGE_SIZE];

	for (size_t i = 0; i < shown; i++) {
		struct alert_ls_row r = alert_ls_row(res, i);
		char *text = table_clean(r.text, 0, TABLE_ONE_LINE);

		printf("alert: %s (for %s)\n", text ? text : "", table_age(age, r.since_s));
		free(text);
	}
	if (pg_rows(res) > shown)
		printf("alerts: %zu more: deferred alert --list\n", pg_rows(res) - shown);
}

/* The usual state gets no line. */
static void print_durability(const struct pg_result *res)
{
	char *told;
	struct admin_durability_row r = admin_durability_row(res, 0);

	if (strcmp(r.class, "local") == 0 && !r.standbys)
		return;
	told = table_clean(r.sentence, 0, TABLE_ONE_LINE);
	printf("durability: %s\n", told ? told : "");
	free(told);
}

/* ---- --check: one line and an exit code, for monitoring and probes ------------------------------ */

static int check_print(struct cli *cli, const struct cause *c, const char *word)
{
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	char *text;

	params_open(&t, NULL, '{');
	params_string(&t, "level", cause_level_word(c->level));
	params_string(&t, "cause", word);
	table_string(&t, "why", c->why);
	table_string(&t, "figure", c->figure);
	table_string(&t, "do", c->remedy);
	params_close(&t, '}');
	if (params_take(&t, &text, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		puts(text);
	} else {
		char *line = table_clean(c->why, 0, TABLE_ONE_LINE);

		printf("%s: %s\n", cause_level_word(c->level), line ? line : "");
		free(line);
	}
	free(text);
	return (int)c->level; /* 0, 1 and 2, which monitoring plugins call ok, warning and critical */
}

/* Nothing worse than a healthy cause is known: is there an alert? Those of other queues do not count. */
static const char *first_alert(const struct pg_result *alerts, const char *queue, struct cause *c)
{
	for (size_t i = 0; i < pg_rows(alerts); i++) {
		struct alert_ls_row r = alert_ls_row(alerts, i);

		if (queue &&
		    (strcmp(r.name, queue) != 0 || (strcmp(r.cause, "late") != 0 && strcmp(r.cause, "unserved") != 0)))
			continue;
		c->level = CAUSE_LOOK;
		snprintf(c->why, sizeof(c->why), "%s", r.text);
		snprintf(c->remedy, sizeof(c->remedy), "%s", r.remedy);
		c->figure[0] = '\0';
		return r.cause;
	}
	return cause_word(c->kind);
}

static int status_check(struct cli *cli, const char *queue)
{
	struct cause lost = { .level = CAUSE_ACT, .why = "the database cannot be reached" };
	struct cause causes[CAUSES_MAX], *worst = causes;
	struct pg_result *alerts = NULL;
	struct store_why_missed missed = { 0 };
	struct deferred_error err = { 0 };
	struct store_why why;
	size_t n;
	int rc = cli_connect(cli, true);

	if (rc != 0)
		return rc == EX_UNAVAILABLE ? check_print(cli, &lost, "unreachable") : rc;
	rc = store_why_backlog(cli->pg, queue, &why, &err);
	if (rc == 0) {
		store_why_missed(cli->pg, &missed, &why);
		n = cause_of_backlog(&why.backlog, causes);
		for (size_t i = 1; i < n; i++)
			if (causes[i].level > worst->level)
				worst = &causes[i];
		rc = alert_ls_exec(cli->pg, &alerts, &err);
	}
	/* 1 would mean that there is something to look at. */
	if (rc < 0 && (rc = cli_fail(cli, &err)) == CLI_NOT_DONE)
		rc = EX_DATAERR;
	else if (rc == 0)
		rc = check_print(cli, worst,
				 worst->level == CAUSE_HEALTHY ? first_alert(alerts, queue, worst)
							       : cause_word(worst->kind));
	if (rc == EX_UNAVAILABLE)
		rc = check_print(cli, &lost, "unreachable");
	pg_result_free(alerts);
	store_why_clear(&why);
	return rc;
}

static int status_print(struct cli *cli)
{
	struct pg_result *all = NULL, *queues = NULL, *outcomes = NULL, *dead = NULL, *unknown = NULL, *alerts = NULL,
			 *absent = NULL, *durability = NULL;
	struct deferred_error err = { 0 };
	struct admin_durability_row d;
	struct admin_status_row r;
	int rc;

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
	r = admin_status_row(all, 0);
	d = admin_durability_row(durability, 0);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		printf("{\"schema_version\": %" PRId64 ", \"workers\": %" PRId64
		       ",\n \"gone_workers\": %s,\n \"queues\": ",
		       r.version, r.workers, r.gone_json ? r.gone_json : "[]");
		cli_print_json_array(queues);
		printf(",\n \"missed\": ");
		cli_print_json_array(absent);
		printf(",\n \"last_hour\": ");
		cli_print_json_array(outcomes);
		printf(",\n \"dead\": %s", admin_status_dead_row(dead, 0).json);
		printf(",\n \"unknown_functions\": ");
		cli_print_json_array(unknown);
		printf(",\n \"alerts\": ");
		cli_print_json_array(alerts);
		printf(",\n \"durability\": \"%s\", \"standbys\": %s", d.class, d.standbys ? d.standbys : "[]");
		cli_spool_status(cli);
		puts("}");
	} else {
		printf("schema version %" PRId64 ", live workers: %" PRId64 "\n", r.version, r.workers);
		print_durability(durability);
		putchar('\n');
		print_gone(all);
		print_absent(absent);
		status_print_queues(queues);
		print_dead(dead);
		print_outcomes(outcomes);
		status_print_unknown(unknown);
		print_alerts(alerts);
		cli_spool_status(cli);
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

static int cmd_status_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "check", NULL, "print the worst problem; exit with 0, 1 or 2", OPT_CHECK },
		{ "queue", "NAME", "with --check: of this queue", OPT_QUEUE, "all queues" },
		{ 0 },
	};
	const char *queue = NULL;
	bool check = false;
	int c;

	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c == OPT_CHECK)
			check = true;
		else if (c == OPT_QUEUE)
			queue = optarg;
		else
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if (queue && !check)
		return cli_misuse(cli, "add --check, or leave --queue out", "option '--queue' needs option '--check'");
	return check ? status_check(cli, queue) : status_print(cli);
}

const struct cmd cmd_status = {
	"status",       "[--check [--queue NAME]]", "show queues, workers and recent outcomes",
	cmd_status_run, "deferred_viewer",          NULL,
	SHARDS_ALL,
};
