/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_LINE = PAST_OWN, OPT_SERVICE, OPT_RUN_SCALE };

#define CLASSIC "*/2 * * * *"
#define SCALES_MAX 32

struct question {
	struct outlook o;
	struct lines lines;
	struct store_advise_scale scale[SCALES_MAX];
};

/* ---- options ---------------------------------------------------------------------------------- */

static int add_scale(struct question *q, const struct cli *cli, char *text)
{
	char *equals = strrchr(text, '=');
	double factor;

	if (!equals || equals == text)
		return cli_bad_value(cli, "write FUNCTION=X, such as send_mail=2", "--run-scale", text,
				     "is not of the form FUNCTION=X");
	if (q->o.run_scales_len == SCALES_MAX)
		return cli_bad_value(cli, "scale fewer functions", "--run-scale", text, "is one function more than %d",
				     SCALES_MAX);
	if (!past_real(cli, "--run-scale", equals + 1, 0.01, 100, &factor))
		return EX_USAGE;
	*equals = '\0';
	q->scale[q->o.run_scales_len++] = (struct store_advise_scale){ .fn = text, .factor = factor };
	q->o.run_scales = q->scale;
	return 0;
}

static int simulate_option(struct question *q, const struct cli *cli, int c)
{
	switch (c) {
	case OPT_LINE:
		return past_line(&q->lines, cli, optarg, false);
	case OPT_SERVICE:
		return past_line(&q->lines, cli, optarg, true);
	case OPT_RUN_SCALE:
		return add_scale(q, cli, optarg);
	default:
		return past_option(&q->o, cli, c) ? 0 : EX_USAGE;
	}
}

/* ---- the answer ------------------------------------------------------------------------------- */

static int simulate_print_json(const struct question *q, const struct cli *cli)
{
	struct params_text t = { 0 };

	params_open(&t, NULL, '{');
	params_open(&t, "lines", '[');
	for (size_t i = 0; i < q->lines.of.n; i++) {
		const struct crontab_line *l = &q->lines.line[i];

		params_open(&t, NULL, '{');
		params_string(&t, "line", q->lines.text[i]);
		params_number(&t, "interval_s", (double)l->interval_us / 1000000);
		params_number(&t, "cnt", (double)l->cnt);
		params_number(&t, "runners", l->runners);
		params_string(&t, "if_running", l->rule ? l->replace ? "replace" : "skip" : "");
		params_close(&t, '}');
	}
	params_close(&t, ']');
	outlook_json(&q->o, &q->lines.of, &t);
	outlook_json_waits(&q->o, &t);
	params_close(&t, '}');
	return past_print(cli, &t, 0, NULL);
}

static void simulate_print(const struct question *q)
{
	const struct forecast_result *r = &q->lines.of.result;

	past_waits(&q->o);
	if (r->runs > 0 || r->skipped > 0)
		printf("runs: %" PRId64 " had work%s\n", r->runs,
		       r->skipped || r->lost ? "" : ", none met the copy before it");
	if (r->skipped > 0)
		printf("skipped: %" PRId64 " starts found the copy before at work, and --if-running=skip\n",
		       r->skipped);
	if (r->lost > 0)
		printf("lost: %" PRId64 " attempts were cut off by the next start, and tried again\n", r->lost);
	if (r->left > 0)
		printf("not begun by the end: %" PRId64 "\n", r->left);
	outlook_tell(&q->o, &q->lines.of, &past_lines);
}

static int simulate(struct question *q, struct cli *cli)
{
	struct deferred_error err = { 0 };
	int rc;

	if (lines_rules(&q->lines, cli->pg, &err) < 0)
		return cli_fail(cli, &err);
	rc = past_read(&q->o, cli);
	if (rc != 0)
		return rc;
	if (q->o.n == 0) {
		cli_say("go back further with --since", "the log has no attempts in that time to be replayed");
		return CLI_NOT_DONE;
	}
	if (outlook_replay(&q->o, &q->lines.of, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		return simulate_print_json(q, cli);
	simulate_print(q);
	return 0;
}

static int cmd_simulate_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "line", "LINE", "a crontab line; may be repeated", OPT_LINE, "*/2 * * * *" },
		{ "service", "OPTIONS", "the options of a service; may be repeated", OPT_SERVICE },
		{ "run-scale", "FN=X", "multiply the run time of a function", OPT_RUN_SCALE },
		PAST_OPTIONS,
		{ 0 },
	};
	struct question q = { 0 };
	int c, rc = 0;

	outlook_init(&q.o);
	while (rc == 0 && (c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			return EX_OK;
		rc = c == CLI_OPT_BAD ? EX_USAGE : simulate_option(&q, cli, c);
	}
	if (rc == 0 && !cli_arguments(cli, argc, argv, ""))
		rc = EX_USAGE;
	if (rc == 0 && q.lines.of.n == 0)
		rc = past_line(&q.lines, cli, CLASSIC, false);
	if (rc == 0)
		rc = cli_connect(cli, true);
	if (rc == 0)
		rc = simulate(&q, cli);
	lines_clear(&q.lines);
	outlook_clear(&q.o);
	return rc;
}

const struct cmd cmd_simulate = {
	"simulate", "[OPTION...]", "replay the history with other crontab lines", cmd_simulate_run, "deferred_viewer",
};
