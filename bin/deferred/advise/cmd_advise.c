/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "past.h"
#include "program/promise.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000)

enum { OPT_SHARE = PAST_OWN, OPT_WITHIN, OPT_HEADROOM, OPT_MAX_RUNNERS, OPT_SERVICE, OPT_LINE };

static bool advise_option(struct outlook *o, const struct cli *cli, int c)
{
	int64_t n;

	switch (c) {
	case OPT_SHARE:
		if (!past_real(cli, "--share", optarg, 50, 99.9, &o->wanted.share))
			return false;
		o->wanted.share /= 100;
		return true;
	case OPT_WITHIN:
		if (!cli_ms(cli, "--within", optarg, &n))
			return false;
		if (n < 1 || n > INT64_C(7) * 24 * 3600000) {
			cli_bad_value(cli, "use 1ms to 7d", "--within", optarg, "is out of range");
			return false;
		}
		o->wanted.within_us = n * 1000;
		return true;
	case OPT_HEADROOM:
		return past_real(cli, "--headroom", optarg, 1, 10, &o->wanted.headroom);
	case OPT_MAX_RUNNERS:
		if (!cli_int(cli, "--max-runners", optarg, 1, FORECAST_RUNNERS, &n))
			return false;
		o->wanted.runners_max = (int)n;
		return true;
	case OPT_SERVICE:
		o->wanted.service = true;
		return true;
	default:
		return past_option(o, cli, c);
	}
}

/* The path of check_deferred in the folder of this program, if a crontab can contain it without quotes. */
static const char *program(char path[PATH_MAX])
{
	static const char name[] = "check_deferred";
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof(name));
	char *base;

	path[n > 0 ? n : 0] = '\0';
	base = strrchr(path, '/');
	if (!base || path[strspn(path, PROMISE_PLAIN "/")])
		return name;
	strcpy(base + 1, name);
	return path;
}

static int advise_print_json(const struct outlook *o, struct cli *cli, const struct advice *a)
{
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	char path[PATH_MAX];
	int rc = promise_json(o, a, program(path), &t, &err);

	return past_print(cli, &t, rc, &err);
}

static int tell_too_little(const struct outlook *o, const struct cli *cli)
{
	struct params_text t = { 0 };
	int rc = 0;

	if (cli->json) {
		promise_json_too_little(o, &t);
		rc = past_print(cli, &t, 0, NULL);
	} else {
		promise_too_little(o, &past_lines);
	}
	return rc == 0 ? CLI_NOT_DONE : rc;
}

static void print_lines(const struct outlook *o, const struct advice *a)
{
	char line[PROMISE_LINE], path[PATH_MAX];

	printf("# %s\n", promise_where(a));
	for (int i = 0; i < a->setting.lines; i++) {
		promise_line(o, a, i, program(path), line, sizeof(line));
		puts(line);
	}
	putchar('\n');
}

static int advise_print(const struct outlook *o, const struct cli *cli, const struct advice *a)
{
	struct crontab_line lines[FORECAST_LINES];
	struct deferred_error err = { 0 };
	struct outlook_lines replayed;

	outlook_lines_of(a, lines, &replayed);
	if (outlook_replay(o, &replayed, &err) < 0)
		return cli_fail(cli, &err);
	promise_today(o, &past_lines);
	if (o->today)
		putchar('\n');
	if (a->answer == ADVICE_FOUND)
		print_lines(o, a);
	promise_tell(o, a, &past_lines);
	if (a->answer != ADVICE_FOUND)
		putchar('\n');
	past_waits(o);
	outlook_tell(o, &replayed, &past_lines);
	return 0;
}

/* A line without a rule is that of a service. */
static bool of_service(const char *text)
{
	size_t n = strcspn(text, " \t"), name = strlen("check_deferred");

	return text[0] == '-' || (n >= name && strncmp(text + n - name, "check_deferred", name) == 0);
}

static int advise(struct outlook *o, struct lines *lines, struct cli *cli)
{
	struct deferred_error err = { 0 };
	struct outlook_today today;
	struct advice a;
	int rc;

	if (lines_seen(lines, cli->pg, o->queue, &err) < 0 || lines_rules(lines, cli->pg, &err) < 0)
		return cli_fail(cli, &err);
	if ((rc = past_read(o, cli)) != 0)
		return rc;
	if (!promise_can(o))
		return tell_too_little(o, cli);
	if (lines_today(lines, o, &today, &err) < 0)
		return cli_fail(cli, &err);
	if (advice_seek(&o->wanted, o->histories, o->n, &a) < 0)
		return EX_OSERR;
	rc = cli->json ? advise_print_json(o, cli, &a) : advise_print(o, cli, &a);
	return rc == 0 && a.answer != ADVICE_FOUND ? CLI_NOT_DONE : rc;
}

static int cmd_advise_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "share", "PERCENT", "share of the jobs that begin in time", OPT_SHARE, "95" },
		{ "within", "SPAN", "the time in which they begin", OPT_WITHIN, "2min" },
		{ "max-runners", "N", "most runners to recommend", OPT_MAX_RUNNERS, "32" },
		{ "headroom", "X", "multiply the arrivals of made-up histories", OPT_HEADROOM, "1.2" },
		{ "service", NULL, "recommend a service in any case", OPT_SERVICE },
		{ "line", "LINE", "a line of today; may be repeated", OPT_LINE, "those of the last day" },
		PAST_OPTIONS,
		{ 0 },
	};
	struct lines lines = { 0 };
	struct outlook o;
	int c, rc = 0;

	outlook_init(&o);
	while (rc == 0 && (c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			return EX_OK;
		if (c == OPT_LINE)
			rc = past_line(&lines, cli, optarg, of_service(optarg));
		else if (c == CLI_OPT_BAD || !advise_option(&o, cli, c))
			rc = EX_USAGE;
	}
	if (rc == 0 && !cli_arguments(cli, argc, argv, ""))
		rc = EX_USAGE;
	if (rc == 0 && o.queue && o.queue[strspn(o.queue, PROMISE_PLAIN)])
		rc = cli_misuse(cli, "a name has 1 to 88 letters, digits, '_', '.' and '-'",
				"queue name '%.64s' is invalid", o.queue);
	if (rc == 0)
		rc = cli_connect(cli, true);
	if (rc == 0)
		rc = advise(&o, &lines, cli);
	lines_clear(&lines);
	outlook_clear(&o);
	return rc;
}

const struct cmd cmd_advise = {
	"advise", "[OPTION...]", "recommend crontab lines", cmd_advise_run, "deferred_viewer",
};
