/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "store/admin.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The further lines of a value are indented below its first line. A name or label has one line, whatever it
 * contains. */
static void show_print_text(const char *name, const char *value, int indent)
{
	char *text;

	if (!value[0])
		return;
	text = table_clean(value, 0, indent);
	printf("%-11s %s\n", name, text);
	free(text);
}

static void show_print_line(const char *name, const char *value)
{
	show_print_text(name, value, TABLE_ONE_LINE);
}

static void print_job(const struct pg_result *res, const struct pg_result *facts)
{
	struct admin_show_row r = admin_show_row(res, 0);
	const char *state = r.state;
	char age[TABLE_AGE_SIZE], progress[TABLE_PROGRESS_SIZE], *queue = table_clean(r.queue, 0, TABLE_ONE_LINE),
								 *who = table_clean(r.created_by, 0, TABLE_ONE_LINE);

	printf("job         %" PRId64 "\n", r.id);
	show_print_line("state", state);
	show_print_line("function", r.fn);
	printf("queue       %s, priority %" PRId64 "\n", queue, r.priority);
	printf("deferred    %s by %s, %s ago\n", r.created, who, table_age(age, r.age_s));
	free(queue);
	free(who);
	if (r.visible)
		show_print_line(strcmp(state, "claimed") == 0 ? "lease ends"
				: strcmp(state, "ready") == 0 ? "ready since"
							      : "due",
				r.visible);
	show_print_line("held by", r.held_by);
	show_print_line("label", r.label);
	for (size_t i = 0; i < pg_rows(facts); i++)
		show_print_line(job_facts_row(facts, i).name, job_facts_row(facts, i).value);
	show_print_line("worker", r.worker);
	show_print_line("progress", table_progress(progress, r.has_done ? &r.done : NULL, r.has_total ? &r.total : NULL,
						   r.text, r.has_reported_s ? &r.reported_s : NULL));
	show_print_text("params", r.params, 12);
}

static void cell_us(struct table *t, bool known, int64_t us)
{
	char buf[TABLE_AGE_SIZE];

	table_cell(t, "%s", known ? table_us(buf, us) : "");
}

static void print_attempts(const struct pg_result *res)
{
	static const char *const headers[] = { ">#",   "OUTCOME", "STARTED", ">WAITED", ">RAN",  ">USER",
					       ">SYS", ">RSS KB", "EXIT",    "WORKER",  "PLUGIN" };
	struct table t;

	table_begin(&t, headers, 11);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_show_attempts_row r = admin_show_attempts_row(res, i);

		table_cell(&t, "%" PRId64, r.attempt);
		table_cell(&t, "%s%s", r.outcome, r.final ? "" : ", to be tried again");
		table_cell(&t, "%s", r.started);
		cell_us(&t, r.has_wait_us, r.wait_us);
		cell_us(&t, r.has_run_us, r.run_us);
		cell_us(&t, r.has_user_us, r.user_us);
		cell_us(&t, r.has_sys_us, r.sys_us);
		table_number(&t, r.has_max_rss_kb, r.max_rss_kb);
		if (r.has_signal)
			table_cell(&t, "signal %" PRId64, r.signal);
		else
			table_number(&t, r.has_exit_code, r.exit_code);
		table_cell(&t, "%s", r.worker);
		table_cell(&t, "%s", r.plugin);
	}
	table_end(&t);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_show_attempts_row r = admin_show_attempts_row(res, i);
		char *error = table_clean(r.error, 0, 4);
		char *result = table_clean(r.result, 0, 4);

		if (error[0])
			printf("%" PRId64 " error: %s\n", r.attempt, error);
		if (result[0])
			printf("%" PRId64 " result: %s\n", r.attempt, result);
		free(error);
		free(result);
	}
}

/* The jobs it waits for, then the jobs that wait for it, with a maximum for each. The statement returns one row more if
 * there are more. */
#define EDGES_MAX 50

static void print_edges(const struct pg_result *res, bool above)
{
	int n = 0;

	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_show_edges_row r = admin_show_edges_row(res, i);
		char *name, *label;

		if (r.above != above || ++n > EDGES_MAX + 1)
			continue;
		if (n > EDGES_MAX) {
			printf("%-11s and more\n", "");
			continue;
		}
		name = table_clean(r.name, 0, TABLE_ONE_LINE);
		label = table_clean(r.label, 60, TABLE_ONE_LINE);
		printf("%-11s %" PRId64 " %s%s%s, %s: %s %s\n",
		       n > 1   ? ""
		       : above ? "waits for"
			       : "awaited by",
		       r.id, r.fn, name[0] ? " as " : "", name, r.on, r.state, label);
		free(name);
		free(label);
	}
}

static void print_events(const struct pg_result *res)
{
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_show_events_row r = admin_show_events_row(res, i);
		char *event = table_clean(r.event, 0, TABLE_ONE_LINE), *name = table_clean(r.name, 0, TABLE_ONE_LINE);

		printf("%-11s event '%s'%s%s, %s", i > 0 ? "" : "waits for", event, name[0] ? " as " : "", name,
		       r.said);
		if (r.until)
			printf(", until %s, then %s", r.until, r.on_timeout);
		putchar('\n');
		free(event);
		free(name);
	}
}

/* Of a long value only the beginning. */
#define STEP_CHARS 200

static void print_steps(const struct pg_result *res)
{
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_show_steps_row r = admin_show_steps_row(res, i);
		char *value = table_clean(r.value, STEP_CHARS, TABLE_ONE_LINE);

		printf("%-11s %" PRId64 " %s, attempt %" PRId64 ", %s: %s\n", i == 0 ? "steps" : "", r.number, r.name,
		       r.attempt, r.saved, value);
		free(value);
	}
}

static int cmd_show_job(struct cli *cli, int64_t id)
{
	struct pg_result *job = NULL, *facts = NULL, *attempts = NULL, *edges = NULL, *events = NULL, *steps = NULL;
	struct deferred_error err = { 0 };
	int rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);

	if (rc == 0)
		rc = admin_show_exec(cli->pg, id, &job, &err);
	if (rc == 0 && pg_rows(job) == 0)
		rc = error_not_there(&err, "job", id);
	if (rc == 0 && !cli->json)
		rc = job_facts_exec(cli->pg, id, &facts, &err);
	if (rc == 0 && !cli->json)
		rc = admin_show_attempts_exec(cli->pg, id, &attempts, &err);
	if (rc == 0 && !cli->json)
		rc = admin_show_edges_exec(cli->pg, id, &edges, &err);
	if (rc == 0 && !cli->json)
		rc = admin_show_events_exec(cli->pg, id, &events, &err);
	if (rc == 0 && !cli->json)
		rc = admin_show_steps_exec(cli->pg, id, &steps, &err);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		puts(admin_show_row(job, 0).json);
	} else {
		print_job(job, facts);
		print_events(events);
		print_edges(edges, true);
		print_edges(edges, false);
		print_steps(steps);
		if (pg_rows(attempts) > 0) {
			putchar('\n');
			print_attempts(attempts);
		}
	}
	pg_result_free(job);
	pg_result_free(facts);
	pg_result_free(attempts);
	pg_result_free(edges);
	pg_result_free(events);
	pg_result_free(steps);
	return rc;
}

static int cmd_show_run(struct cli *cli, int argc, char **argv)
{
	int64_t id;
	int rc;

	if (!cli_no_options(cli, argc, argv, &rc))
		return rc;
	if (!cli_arguments(cli, argc, argv, "ID"))
		return EX_USAGE;
	if (!cli_int(cli, "job id", argv[optind], 1, INT64_MAX, &id))
		return EX_USAGE;
	rc = cli_shard_of(cli, id);
	if (rc == 0)
		rc = cli_connect(cli, true);
	return rc != 0 ? rc : cmd_show_job(cli, id);
}

const struct cmd cmd_show = {
	"show", "ID", "show one job", cmd_show_run, "deferred_reader",
};
