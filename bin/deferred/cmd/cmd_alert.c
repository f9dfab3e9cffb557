/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "port/params.h"
#include "store/alert.h"
#include "store/figures.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_LIST = 1, OPT_PRINT };

static void alert_print_line(const char *text, const char *remedy, const char *more)
{
	char *clean = table_clean(text, 0, TABLE_ONE_LINE);

	printf("%s%s\n    do: %s\n", clean, more, remedy);
	free(clean);
}

static int alert_list(struct cli *cli)
{
	struct deferred_error err = { 0 };
	struct pg_result *res;

	if (alert_ls_exec(cli->pg, &res, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json_array(res);
		putchar('\n');
	} else if (pg_rows(res) == 0 && isatty(STDOUT_FILENO)) {
		puts("no problems");
	}
	for (size_t i = 0; !cli->json && i < pg_rows(res); i++) {
		struct alert_ls_row r = alert_ls_row(res, i);
		char age[TABLE_AGE_SIZE], more[64];

		snprintf(more, sizeof(more), " (for %s%s)", table_age(age, r.since_s),
			 !r.has_reported_s ? ", not reported" : "");
		alert_print_line(r.text, r.remedy, more);
	}
	pg_result_free(res);
	return EX_OK;
}

static void on_told(void *data, const struct store_alert *a)
{
	struct params_text *json = data;
	char note[128] = "";

	if (!json) {
		if (a->note[0])
			snprintf(note, sizeof(note), " (%s)", a->note);
		alert_print_line(a->text, a->remedy, note);
		return;
	}
	params_open(json, NULL, '{');
	params_string(json, "cause", a->cause);
	params_string(json, "name", a->name);
	params_string(json, "text", a->text);
	params_string(json, "do", a->remedy);
	params_close(json, '}');
}

static int alert_tell(struct cli *cli, bool print)
{
	struct deferred_error err = { 0 }, unnoticed = { 0 };
	struct params_text t = { 0 };
	char *settings = NULL, *text = NULL;
	int rc = store_alert_settings(cli->config, print, &settings, &err), noticed = 0;

	params_open(&t, NULL, '[');
	/* A notice of dead jobs that cannot be deferred does not stop the others. */
	if (rc == 0)
		noticed = store_notice(cli->pg, &unnoticed);
	if (rc == 0 && settings && !pg_broken(cli->pg))
		rc = store_fold(cli->pg, STORE_FOLD_READ_MS, NULL, &err);
	if (rc == 0 && settings && !pg_broken(cli->pg))
		rc = store_alert(cli->pg, settings, on_told, cli->json ? &t : NULL, &err);
	params_close(&t, ']');
	if (rc == 0)
		rc = params_take(&t, &text, &err);
	if (rc < 0)
		rc = cli_fail(cli, &err);
	else if (cli->json)
		puts(text);
	if (noticed < 0)
		rc = cli_fail(cli, &unnoticed);
	free(text);
	free(settings);
	return rc;
}

static int cmd_alert_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "list", NULL, "print the present problems", OPT_LIST },
		{ "print", NULL, "report problems by printing them", OPT_PRINT },
		{ 0 },
	};
	bool stands = false, print = false;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c == OPT_LIST)
			stands = true;
		else if (c == OPT_PRINT)
			print = true;
		else
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if (stands && print)
		return cli_misuse(cli, "leave one of the two out", "option '--list' contradicts option '--print'");
	if (stands)
		cli->role = "deferred_viewer";
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	return stands ? alert_list(cli) : alert_tell(cli, print);
}

const struct cmd cmd_alert = {
	"alert", "[--list|--print]", "find problems and report them", cmd_alert_run, "deferred_worker",
};
