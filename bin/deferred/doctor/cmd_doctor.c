/* SPDX-License-Identifier: MIT */
#include "doctor_here.h"

#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In place of what anybody can tell, or where nobody else can. */
static const struct {
	const char *name;
	void (*run)(struct doctor *d);
} here[] = {
	{ "config", doctor_config },
	{ "connection", doctor_connection },
	{ "role", doctor_role },
	{ "user", doctor_user },
	{ "pidfile", doctor_pidfile },
	{ "spool", doctor_spool },
	{ "plugins", doctor_plugins },
	{ "mail", doctor_mail },
	{ "interval", doctor_intervals },
	{ "listen", doctor_listen },
	{ "certificates", doctor_certificates },
	{ "schedules", doctor_zone },
};

/* ---- the first two checks ------------------------------------------------------------------------ */

void doctor_config(struct doctor *d)
{
	struct deferred_error err = { 0 };

	if (config_load(&d->host->cli->config, d->host->cli->config_path, &err) == 0)
		return;
	doctor_fail(d, "%s", err.message);
	doctor_why(d, "no program starts with these settings");
	doctor_do(d, "%s", err.hint[0] ? err.hint : "correct the file; deferred.conf(5) lists the settings");
}

void doctor_connection(struct doctor *d)
{
	const char *file = config_path(d->host->cli->config);

	if (cli_choose_shard(d->host->cli) != 0) {
		error_set(&d->host->lost, DEFERRED_ECONFIG, "connection",
			  "no database is named\nrun: deferred doctor --shard NAME");
		doctor_fail(d, "%s", d->host->lost.message);
		doctor_why(d, "the config file has several shards, and one is checked at a time");
		doctor_do(d, "deferred doctor --shard NAME");
		return;
	}
	if (pg_open(&d->host->cli->pg, cli_conninfo(d->host->cli), "deferred", &d->host->lost) == 0) {
		d->pg = d->host->cli->pg;
		pg_set_unnamed(d->pg);
		cli_set_limits(d->host->cli, false);
		pg_pin(d->pg, NULL); /* else each check pins its transaction */
		return;
	}
	doctor_fail(d, "%s", d->host->lost.message);
	doctor_why(d, "no job is deferred or run while the database cannot be reached from this host");
	doctor_do(d, "%s",
		  d->host->lost.hint[0] ? d->host->lost.hint
		  : file                ? "correct database.conninfo in the config file, or start the server"
			 : "name the database with --db, DEFERRED_DB or database.conninfo in the config file");
}

/* ---- what is found ------------------------------------------------------------------------------ */

static void doctor_print(const char *label, const char *text)
{
	char *clean = table_clean(text, 0, TABLE_ONE_LINE);

	printf("%s%s\n", label, clean);
	free(clean);
}

static void print_finding(const struct doctor_finding *f)
{
	char label[48];

	if (!f->what) {
		printf("%-7s %s%s%s%s\n", doctor_word(DOCTOR_OK), f->check, f->note[0] ? " (" : "", f->note,
		       f->note[0] ? ")" : "");
		return;
	}
	snprintf(label, sizeof(label), "%-7s %s: ", doctor_word(f->level), f->check);
	doctor_print(label, f->what);
	if (f->why)
		doctor_print("        why: ", f->why);
	if (f->remedy)
		doctor_print("        do: ", f->remedy);
}

static void add_member(struct params_text *json, const char *name, const char *text)
{
	char *clean;

	if (!text)
		return;
	clean = table_clean(text, 0, TABLE_ONE_LINE);
	params_string(json, name, clean);
	free(clean);
}

static void cmd_doctor_take(void *data, const struct doctor_finding *f)
{
	struct doctor_host *host = data;

	if (host->cli->json) {
		params_open(&host->json, NULL, '{');
		params_string(&host->json, "check", f->check);
		params_string(&host->json, "status", doctor_word(f->level));
		add_member(&host->json, "note", f->note[0] ? f->note : NULL);
		add_member(&host->json, "what", f->what);
		add_member(&host->json, "why", f->why);
		add_member(&host->json, "do", f->remedy);
		params_close(&host->json, '}');
	} else {
		print_finding(f);
		fflush(stdout); /* the next one may take a while */
	}
}

/* ---- the command --------------------------------------------------------------------------------- */

static void run_check(struct doctor *d, const struct doctor_check *check)
{
	void (*run)(struct doctor * d) = check->run;

	if (check->needs == DOCTOR_SETTINGS && !d->host->cli->config)
		return;
	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		if (strcmp(here[i].name, check->name) == 0)
			run = here[i].run;
	doctor_run(d, check, run);
}

static int cmd_doctor_run(struct cli *cli, int argc, char **argv)
{
	struct doctor_host host = { .cli = cli };
	struct doctor d = { .role = cli->cmd->role, .host = &host, .take = cmd_doctor_take, .data = &host };
	char *text;
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc))
		return rc;
	params_open(&host.json, NULL, '[');
	for (const struct doctor_check *check = doctor_checks; check->name; check++)
		run_check(&d, check);
	params_close(&host.json, ']');
	if (params_take(&host.json, &text, NULL) == 0) {
		if (cli->json)
			puts(text);
		free(text);
	}
	doctor_clear(&d);
	return doctor_exit_code(d.worst);
}

const struct cmd cmd_doctor = {
	"doctor", "", "check the whole installation", cmd_doctor_run, "deferred_worker", NULL, SHARDS_ONE,
};
