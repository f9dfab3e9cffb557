/* SPDX-License-Identifier: MIT */
/* event: events that jobs wait for. */
#include "cmd.h"

#include "port/params.h"
#include "store/admin.h"
#include "store/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS 100
#define EVENTS_MAX 10000

static int cmd_event_send(struct cli *cli, struct deferred_event *event, const char *payload)
{
	struct deferred_error err = { 0 };
	char *given = NULL, *who = NULL;
	int rc = EX_OK;

	if (payload)
		event->payload = cli_params(cli, payload, &given, &rc);
	if (rc == EX_OK && event->payload && params_check(event->payload, strlen(event->payload), &err) < 0) {
		error_prefix(&err, "payload");
		rc = cli_fail(cli, &err);
	}
	if (rc == EX_OK)
		rc = cli_connect(cli, true);
	if (rc == EX_OK && asprintf(&who, "%s: deferred event send", store_admin_user()) < 0)
		rc = EX_OSERR;
	if (rc == EX_OK && store_event_send(cli->pg, event, who, &err) < 0)
		rc = cli_fail(cli, &err);
	if (rc == EX_OK)
		puts(cli->json ? "{\"sent\": true}" : "sent");
	free(who);
	free(given);
	return rc;
}

static int event_send(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "keep", "SPAN", "count for jobs deferred within this time; 0: for none", 'k', "1d" },
		{ "role", "ROLE", "the role that deferred the jobs; default: yours", 'r' },
		{ 0 },
	};
	struct deferred_event event = { 0 };
	int c;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (c == 'r')
			event.role = optarg;
		else if (!cli_ms(cli, "--keep", optarg, &event.keep_ms))
			return EX_USAGE;
		else if (event.keep_ms == 0)
			event.keep_ms = -1;
	}
	if (!cli_arguments(cli, argc, argv, "NAME [PAYLOAD]"))
		return EX_USAGE;
	event.name = argv[optind];
	return cmd_event_send(cli, &event, argv[optind + 1]);
}

static void print_names(const struct pg_result *res)
{
	static const char *const headers[] = { "EVENT", "ROLE", ">WAITING", "SENT", "BY", "KEPT UNTIL" };

	cli_print_columns(res, headers, 6, "events");
}

static int event_ls(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "limit", "N", "events to list", 'l', "100" },
		{ 0 },
	};
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	int64_t limit = EVENTS;
	int rc;

	if (!cli_only_limit(cli, argc, argv, options, "", EVENTS_MAX, &limit, &rc))
		return rc;
	cli->role = "deferred_viewer";
	rc = cli_connect(cli, true);
	if (rc != 0)
		return rc;
	rc = store_admin_look(cli->pg, CLI_LOOK_MS, &err);
	if (rc == 0)
		rc = event_ls_exec(cli->pg, (int32_t)limit, &res, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	return cli_list(cli, res, print_names);
}

static int cmd_event_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = { { "send", event_send }, { "ls", event_ls }, { 0 } };

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_event = {
	"event",
	"send NAME [PAYLOAD|-] [OPTION...]\n"
	"ls [--limit N]",
	"send events that jobs wait for, and list them",
	cmd_event_run,
	"deferred_producer",
	"send and ls",
};
