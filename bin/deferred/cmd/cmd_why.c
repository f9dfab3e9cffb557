/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/cause.h"
#include "port/params.h"
#include "store/why.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_QUEUE = 1, OPT_ALL };

static void why_print_line(const char *label, const char *value)
{
	char *clean = table_clean(value, 0, TABLE_ONE_LINE);

	if (clean[0])
		printf("%s%s\n", label, clean);
	free(clean);
}

static void why_print(const struct cause *causes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		why_print_line("", causes[i].why);
		why_print_line("    figure: ", causes[i].figure);
		why_print_line("    do: ", causes[i].remedy);
	}
}

static int why_print_json(const struct cli *cli, const struct cause *causes, size_t n)
{
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	char *text;

	params_open(&t, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		params_open(&t, NULL, '{');
		params_string(&t, "cause", cause_word(causes[i].kind));
		table_string(&t, "why", causes[i].why);
		table_string(&t, "figure", causes[i].figure);
		table_string(&t, "do", causes[i].remedy);
		params_close(&t, '}');
	}
	params_close(&t, ']');
	if (params_take(&t, &text, &err) < 0)
		return cli_fail(cli, &err);
	puts(text);
	free(text);
	return EX_OK;
}

static int why_tell(struct cli *cli, int64_t id, const char *queue, bool all)
{
	struct cause causes[CAUSES_MAX];
	struct deferred_error err = { 0 };
	struct store_why_missed missed = { 0 };
	struct store_why why;
	size_t n = 0;
	int rc = id ? store_why_job(cli->pg, id, &why, &err) : store_why_backlog(cli->pg, queue, &why, &err);

	if (rc < 0) {
		rc = cli_fail(cli, &err);
	} else {
		if (!id)
			store_why_missed(cli->pg, &missed, &why);
		n = id ? cause_of_job(&why.job, causes) : cause_of_backlog(&why.backlog, causes);
		if (!all)
			n = 1;
		if (cli->json)
			rc = why_print_json(cli, causes, n);
		else
			why_print(causes, n);
		if (rc == EX_OK && id && !why.job.there && !why.job.table.name)
			rc = CLI_NOT_DONE;
	}
	store_why_clear(&why);
	return rc;
}

static int cmd_why_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "queue", "NAME", "explain this queue", OPT_QUEUE, "all queues" },
		{ "all", NULL, "print every cause", OPT_ALL },
		{ 0 },
	};
	const char *queue = NULL;
	bool all = false;
	int64_t id = 0;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		switch (c) {
		case OPT_QUEUE:
			queue = optarg;
			break;
		case OPT_ALL:
			all = true;
			break;
		default:
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		}
	}
	if (!cli_arguments(cli, argc, argv, "[ID]"))
		return EX_USAGE;
	if (optind < argc && queue)
		return cli_misuse(cli, "leave one of the two out: deferred why 17, or deferred why --queue mail",
				  "argument '%.64s' contradicts option '--queue'", argv[optind]);
	if (optind < argc && !cli_int(cli, "job id", argv[optind], 1, INT64_MAX, &id))
		return EX_USAGE;
	rc = id > 0 ? cli_shard_of(cli, id) : 0;
	if (rc == 0)
		rc = cli_connect(cli, true);
	return rc != 0 ? rc : why_tell(cli, id, queue, all);
}

const struct cmd cmd_why = {
	"why", "[ID|--queue NAME] [--all]", "explain why jobs are not done yet", cmd_why_run, "deferred_viewer",
};
