/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "past.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND INT64_C(1000000)
#define DAY_MS (24 * INT64_C(3600000))

enum { OPT_INTERVAL = PAST_OWN, OPT_CNT, OPT_RUNNERS, OPT_INSTANCES, OPT_SERVICE };

static bool option(struct outlook *o, struct advice_setting *setting, const struct cli *cli, int c)
{
	int64_t n;

	switch (c) {
	case OPT_INTERVAL:
		if (!cli_ms(cli, "--interval", optarg, &n))
			return false;
		if (n < 1 || n > DAY_MS) {
			cli_usage(cli, "--interval: \"%.64s\" is not from 1ms to 1d", optarg);
			return false;
		}
		setting->interval_us = n * 1000;
		return true;
	case OPT_CNT:
		return cli_int(cli, "--cnt", optarg, 0, INT32_MAX, &setting->cnt);
	case OPT_RUNNERS:
		if (!cli_int(cli, "--runners", optarg, 1, FORECAST_RUNNERS, &n))
			return false;
		setting->runners = (int)n;
		return true;
	case OPT_INSTANCES:
		if (!cli_int(cli, "--instances", optarg, 1, FORECAST_LINES, &n))
			return false;
		setting->lines = (int)n;
		return true;
	case OPT_SERVICE:
		setting->interval_us = 0;
		return true;
	default:
		return past_option(o, cli, c);
	}
}

static int print_json(const struct outlook *o, struct cli *cli, const struct advice *advice)
{
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	int rc;

	params_open(&t, NULL, '{');
	outlook_json(o, advice, &t);
	rc = outlook_json_waits(o, advice, &t, &err);
	params_close(&t, '}');
	return past_print(cli, &t, rc, &err);
}

static int simulate(struct outlook *o, struct cli *cli, const struct advice_setting *setting)
{
	struct advice advice = { .setting = *setting };
	int rc = past_read(o, cli);

	if (rc != 0)
		return rc;
	if (o->n == 0) {
		fputs("deferred: the log has no attempts in that time to be replayed\n", stderr);
		return CLI_NOT_DONE;
	}
	for (size_t i = 0; i < o->n; i++) {
		struct forecast_result r = { 0 };

		if (advice_replay(&o->histories[i], setting, &o->wanted, &r) < 0)
			return EX_OSERR;
		advice.result.runs += r.runs;
		advice.result.skipped += r.skipped;
		advice.result.left += r.left;
		advice.result.busy_us += r.busy_us;
	}
	if (cli->json)
		return print_json(o, cli, &advice);
	rc = past_waits(o, cli, &advice);
	if (setting->interval_us > 0)
		printf("runs: %" PRId64 " had work; %" PRId64 " starts found the copy before at work, and --if-running=skip\n", advice.result.runs, advice.result.skipped);
	if (advice.result.left > 0)
		printf("not begun by the end: %" PRId64 "\n", advice.result.left);
	outlook_tell(o, &advice, &past_lines);
	return rc;
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option own[] = { PAST_OPTIONS, { "interval", required_argument, NULL, OPT_INTERVAL }, { "cnt", required_argument, NULL, OPT_CNT },
					     { "runners", required_argument, NULL, OPT_RUNNERS }, { "instances", required_argument, NULL, OPT_INSTANCES },
					     { "service", no_argument, NULL, OPT_SERVICE }, { 0 } };
	struct advice_setting setting = { .interval_us = 120 * SECOND, .cnt = 1, .runners = 1, .lines = 1 };
	struct outlook o;
	int c, rc;

	outlook_init(&o);
	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			return EX_OK;
		if (c == CLI_OPT_BAD || !option(&o, &setting, cli, c))
			return EX_USAGE;
	}
	if (optind < argc)
		return cli_usage(cli, "unexpected argument \"%.64s\"", argv[optind]);
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	rc = simulate(&o, cli, &setting);
	outlook_clear(&o);
	return rc;
}

const struct cmd cmd_simulate = {
	"simulate", "[--interval SPAN | --service] [--cnt N] [--runners N] [--instances N] [--queue NAME] [--since SPAN] [--scale X] [--start SPAN] [--between SPAN]",
	"replay what was with other settings of check_deferred, and say how long jobs would have waited", run, "deferred_viewer",
};
