/* SPDX-License-Identifier: MIT */
#include "doctor.h"

#include "port/config_reader.h"
#include "store/admin.h"
#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a check needs to say anything. */
enum needs { NOTHING, SETTINGS, SERVER, SCHEMA };

static const struct check {
	const char *name;
	void (*run)(struct doctor *d);
	enum needs needs;
} checks[] = {
	{ "config", doctor_config, NOTHING },
	{ "connection", doctor_connection, SETTINGS },
	{ "schema", doctor_schema, SERVER },
	{ "role", doctor_role, SCHEMA },
	{ "clocks", doctor_clocks, SCHEMA },
	{ "user", doctor_user, SETTINGS },
	{ "pidfile", doctor_pidfile, SETTINGS },
	{ "plugins", doctor_plugins, SETTINGS },
	{ "functions", doctor_functions, SCHEMA },
	{ "workers", doctor_workers, SCHEMA },
	{ "mail", doctor_mail, SETTINGS },
	{ "interval", doctor_intervals, SCHEMA },
	{ "listen", doctor_listen, SERVER },
	{ "certificates", doctor_certificates, SETTINGS },
	{ "retention", doctor_retention, SCHEMA },
	{ "partitions", doctor_partitions, SCHEMA },
	{ "indexes", doctor_indexes, SCHEMA },
	{ "snapshots", doctor_snapshots, SERVER },
	{ "slots", doctor_slots, SERVER },
	{ "durability", doctor_durability, SERVER },
	{ "builds", doctor_builds, SCHEMA },
	{ "alerts", doctor_alerts, SCHEMA },
	{ "schedules", doctor_schedules, SCHEMA },
};

/* ---- what is found ------------------------------------------------------------------------------ */

static const char *const words[] = { "ok", "warn", "fail" };

/* label: what stands in front of it for people. */
static void say(struct doctor *d, const char *member, const char *label, const char *fmt, va_list ap)
{
	char *text = NULL, *clean;

	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	clean = table_clean(text ? text : "out of memory", 0, TABLE_ONE_LINE);
	if (d->cli->json)
		params_string(&d->json, member, clean);
	else
		printf("%s%s\n", label, clean);
	free(clean);
	free(text);
}

static void end_finding(struct doctor *d)
{
	if (d->open)
		params_close(&d->json, '}');
	d->open = false;
}

static void begin_finding(struct doctor *d, enum doctor_level level)
{
	end_finding(d);
	if (level > d->level)
		d->level = level;
	if (d->cli->json) {
		params_open(&d->json, NULL, '{');
		params_string(&d->json, "check", d->check);
		params_string(&d->json, "status", words[level]);
		d->open = true;
	}
}

static void find(struct doctor *d, enum doctor_level level, const char *fmt, va_list ap)
{
	char label[48];

	begin_finding(d, level);
	snprintf(label, sizeof(label), "%-5s %s: ", words[level], d->check);
	say(d, "what", label, fmt, ap);
}

void doctor_warn(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	find(d, DOCTOR_WARN, fmt, ap);
	va_end(ap);
}

void doctor_fail(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	find(d, DOCTOR_FAIL, fmt, ap);
	va_end(ap);
}

void doctor_note(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->note, sizeof(d->note), fmt, ap);
	va_end(ap);
}

void doctor_why(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(d, "why", "      why: ", fmt, ap);
	va_end(ap);
}

void doctor_do(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(d, "do", "      do: ", fmt, ap);
	va_end(ap);
}

bool doctor_answered(struct doctor *d, int rc, const struct deferred_error *err)
{
	if (rc == 0)
		return true;
	doctor_warn(d, "cannot be looked at: %s", err->message);
	doctor_why(d, "a check reads for %d ms at most, with the rights of the role that is connected", DOCTOR_LOOK_MS);
	if (strcmp(err->sqlstate, "42501") == 0)
		doctor_do(d, "grant deferred_worker to %s", pg_user(d->cli->pg));
	return false;
}

bool doctor_ask(struct doctor *d, doctor_question *question, struct pg_result **res)
{
	struct deferred_error err = { 0 };
	int rc = question(d->cli->pg, res, &err);

	return doctor_answered(d, rc, &err);
}

/* ---- the first two checks ------------------------------------------------------------------------ */

void doctor_config(struct doctor *d)
{
	struct deferred_error err = { 0 };

	config_reader_beside_program();
	if (config_load(&d->cli->config, d->cli->config_path, &err) == 0)
		return;
	doctor_fail(d, "%s", err.message);
	doctor_why(d, "no program starts with these settings");
	doctor_do(d, "%s", err.hint[0] ? err.hint : "correct the file; deferred.conf(5) lists the settings");
}

void doctor_connection(struct doctor *d)
{
	const char *file = config_path(d->cli->config);

	if (cli_choose_shard(d->cli) != 0) {
		error_set(&d->lost, DEFERRED_ECONFIG, "connection", "no database is named");
		doctor_fail(d, "%s", d->lost.message);
		doctor_why(d, "of the shards of the config file one is checked at a time");
		doctor_do(d, "deferred doctor --shard NAME");
		return;
	}
	if (pg_open(&d->cli->pg, cli_conninfo(d->cli), "deferred", &d->lost) == 0) {
		pg_set_unnamed(d->cli->pg);
		cli_set_limits(d->cli, false);
		return;
	}
	doctor_fail(d, "%s", d->lost.message);
	doctor_why(d, "no job is run, and none deferred, while the database cannot be reached from here");
	doctor_do(d, "%s", d->lost.hint[0] ? d->lost.hint : file ? "correct database.conninfo in the config file, or start the server"
								  : "name the database with --db, DEFERRED_DB or database.conninfo in the config file");
}

/* ---- the command --------------------------------------------------------------------------------- */

static void say_ok(struct doctor *d)
{
	if (!d->cli->json) {
		printf("ok    %s%s%s%s\n", d->check, d->note[0] ? " (" : "", d->note, d->note[0] ? ")" : "");
		return;
	}
	begin_finding(d, DOCTOR_OK);
	if (d->note[0])
		params_string(&d->json, "note", d->note);
}

static bool can_run(const struct doctor *d, enum needs needs)
{
	switch (needs) {
	case SCHEMA:
		return d->usable;
	case SERVER:
		return d->cli->pg != NULL;
	case SETTINGS:
		return d->cli->config != NULL;
	default:
		return true;
	}
}

static void run_check(struct doctor *d, const struct check *check)
{
	struct deferred_error err = { 0 };
	bool reads = check->needs >= SERVER;

	d->check = check->name;
	d->level = DOCTOR_OK;
	d->note[0] = '\0';
	if (!can_run(d, check->needs))
		return;
	if (reads && store_admin_look(d->cli->pg, DOCTOR_LOOK_MS, &err) < 0)
		doctor_fail(d, "%s", err.message);
	else
		check->run(d);
	if (reads && !pg_broken(d->cli->pg))
		pg_command(d->cli->pg, "rollback", NULL);
	if (d->level == DOCTOR_OK)
		say_ok(d);
	end_finding(d);
	if (d->level > d->worst)
		d->worst = d->level;
	fflush(stdout); /* the next one may take a while */
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct doctor d = { .cli = cli };
	char *text;
	int c;

	if ((c = cli_getopt(cli, argc, argv, NULL)) != CLI_OPT_DONE)
		return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	if (optind < argc)
		return cli_usage(cli, "unexpected argument \"%.64s\"", argv[optind]);
	params_open(&d.json, NULL, '[');
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		run_check(&d, &checks[i]);
	params_close(&d.json, ']');
	if (params_take(&d.json, &text, NULL) == 0) {
		if (cli->json)
			puts(text);
		free(text);
	}
	for (size_t i = 0; i < d.functions_len; i++)
		free(d.functions[i]);
	free(d.functions);
	return (int)d.worst;
}

const struct cmd cmd_doctor = {
	"doctor", "", "check the whole installation: what is wrong, why, and what mends it", run, "deferred_worker", NULL, NULL, SHARDS_ONE,
};
