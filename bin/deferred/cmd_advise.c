/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "outlook.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000)
#define MINUTE (60 * SECOND)
#define DAYS_MIN 0.9         /* a day has its hours, and the first and the last attempt are not at its ends */
#define ATTEMPTS_MIN 500
#define LATE_MIN 20          /* attempts that may be later than the promise: fewer tell nothing of their share */
#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

enum { OPT_SHARE = OUTLOOK_OWN, OPT_WITHIN, OPT_HEADROOM, OPT_MAX_RUNNERS, OPT_SERVICE };

static bool option(struct outlook *o, const struct cli *cli, int c)
{
	int64_t n;

	switch (c) {
	case OPT_SHARE:
		if (!outlook_real(cli, "--share", optarg, 50, 99.9, &o->wanted.share))
			return false;
		o->wanted.share /= 100;
		return true;
	case OPT_WITHIN:
		if (!cli_ms(cli, "--within", optarg, &n))
			return false;
		if (n < 1 || n > INT64_C(7) * 24 * 3600000) {
			cli_usage(cli, "--within: \"%.64s\" is not from 1ms to 7d", optarg);
			return false;
		}
		o->wanted.within_us = n * 1000;
		return true;
	case OPT_HEADROOM:
		return outlook_real(cli, "--headroom", optarg, 1, 10, &o->wanted.headroom);
	case OPT_MAX_RUNNERS:
		if (!cli_int(cli, "--max-runners", optarg, 1, FORECAST_RUNNERS, &n))
			return false;
		o->wanted.runners_max = (int)n;
		return true;
	case OPT_SERVICE:
		o->wanted.service = true;
		return true;
	default:
		return outlook_option(o, cli, c);
	}
}

/* ---- too little is known ---------------------------------------------------------------------- */

static int64_t attempts_wanted(const struct outlook *o)
{
	int64_t n = (int64_t)ceil(LATE_MIN / (1 - o->wanted.share));

	return n > ATTEMPTS_MIN ? n : ATTEMPTS_MIN;
}

/* Where the rows that may be read do not reach back for a day, they are many. */
static bool is_enough(const struct outlook *o)
{
	return o->n > 0 && o->attempts >= attempts_wanted(o) && (outlook_days(o) >= DAYS_MIN || o->past[0].full);
}

static int tell_too_little(const struct outlook *o, const struct cli *cli)
{
	char buf[32];

	if (cli->json) {
		printf("{\"answer\": \"too_little\", \"attempts\": %" PRId64 ", \"attempts_wanted\": %" PRId64 ", \"days\": %.3f, \"days_wanted\": 1}\n", o->attempts,
		       attempts_wanted(o), outlook_days(o));
		return CLI_NOT_DONE;
	}
	printf("too little is known for a promise: the log has %" PRId64 " attempts of %.1f days, and %" PRId64 " of at least a day are wanted\n", o->attempts, outlook_days(o),
	       attempts_wanted(o));
	printf("what holds without: a job waits for the next start, so for %.4g %% within %s starts have to come at least each %s; and as many must be served as arrive\n",
	       100 * o->wanted.share, outlook_us(buf, o->wanted.within_us), outlook_us((char[32]){ 0 }, (int64_t)((double)o->wanted.within_us / o->wanted.share)));
	return CLI_NOT_DONE;
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* check_deferred beside this program, where a crontab can have the path as it is. */
static const char *program(char path[PATH_MAX])
{
	static const char name[] = "check_deferred";
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof(name));
	char *base;

	path[n > 0 ? n : 0] = '\0';
	base = strrchr(path, '/');
	if (!base || path[strspn(path, PLAIN "/")])
		return name;
	strcpy(base + 1, name);
	return path;
}

static void when(char buf[32], int64_t interval_us)
{
	if (interval_us == 60 * MINUTE)
		snprintf(buf, 32, "0 * * * *");
	else if (interval_us == MINUTE)
		snprintf(buf, 32, "* * * * *");
	else
		snprintf(buf, 32, "*/%d * * * *", (int)(interval_us / MINUTE));
}

/* A queue that a crontab cannot have as it is has no name that a queue may have. */
static void command(const struct outlook *o, const struct advice_setting *s, int line, char *buf, size_t size)
{
	char path[PATH_MAX];
	int n = snprintf(buf, size, "%s%s", program(path), s->interval_us > 0 ? "" : " --loop --listen");

	if (s->interval_us > 0)
		n += snprintf(buf + n, size - (size_t)n, " --cnt %" PRId64 " --if-running=skip", s->cnt);
	if (s->runners > 1)
		n += snprintf(buf + n, size - (size_t)n, " --runners %d", s->runners);
	if (o->queue)
		n += snprintf(buf + n, size - (size_t)n, " --queue %.100s", o->queue);
	if (s->lines > 1)
		snprintf(buf + n, size - (size_t)n, " --pidfile /run/defer_%.100s_%d", o->queue ? o->queue : "all", line + 1);
	else if (o->queue)
		snprintf(buf + n, size - (size_t)n, " --pidfile /run/defer_%.100s", o->queue);
}

static void crontab_line(const struct outlook *o, const struct advice_setting *s, int line, char *buf, size_t size)
{
	char ticks[32], words[PATH_MAX + 512];

	command(o, s, line, words, sizeof(words));
	if (s->interval_us == 0) {
		snprintf(buf, size, "%s", words);
		return;
	}
	when(ticks, s->interval_us);
	snprintf(buf, size, "%-12s  root   %s 2>>/var/log/deferred.log", ticks, words);
}

/* ---- the answer ------------------------------------------------------------------------------- */

static const char *answer_word(enum advice_answer answer)
{
	static const char *const words[] = { [ADVICE_FOUND] = "found", [ADVICE_TOO_MUCH] = "too_much", [ADVICE_TOO_LATE] = "too_late" };

	return words[answer];
}

static int print_json(const struct outlook *o, struct cli *cli, const struct advice *a)
{
	char line[PATH_MAX + 1024], *text;
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	int rc;

	params_open(&t, NULL, '{');
	params_string(&t, "answer", answer_word(a->answer));
	params_open(&t, "lines", '[');
	for (int i = 0; i < a->setting.lines && a->answer == ADVICE_FOUND; i++) {
		crontab_line(o, &a->setting, i, line, sizeof(line));
		params_string(&t, NULL, line);
	}
	params_close(&t, ']');
	params_number(&t, "share", 100 * o->wanted.share);
	outlook_number_us(&t, "within_s", o->wanted.within_us);
	outlook_number_us(&t, "predicted_s", a->predicted_us);
	outlook_number_us(&t, "bound_s", a->bound_us);
	params_number(&t, "headroom", o->wanted.headroom);
	params_number(&t, "replays", a->replays);
	outlook_json(o, a, &t);
	rc = outlook_queues(o, cli, a, &t);
	params_close(&t, '}');
	if (params_take(&t, &text, &err) < 0)
		return cli_fail(cli, &err);
	if (rc == 0)
		puts(text);
	free(text);
	return rc;
}

static void print_refusal(const struct outlook *o, const struct advice *a)
{
	char predicted[32], within[32], run[32];

	if (a->answer == ADVICE_TOO_MUCH)
		printf("more arrives than %d runner%s can serve with something to spare: %.3g an hour in the busiest hour, %.3g on average, each of %s\n"
		       "no interval and no cnt mends that; more runners, more hosts, or shorter jobs do\n\n",
		       o->wanted.runners_max, cli_s(o->wanted.runners_max), o->wanted.peak_rate * 3600, o->wanted.rate * 3600, outlook_us(run, o->past[0].run_us));
	else
		printf("with no setting of at most %d runners do %.4g %% of the jobs begin within %s; nearest is a service with %d: %s by the replay, and the bound is beyond\n\n",
		       o->wanted.runners_max, 100 * o->wanted.share, outlook_us(within, o->wanted.within_us), a->setting.runners, outlook_us(predicted, a->predicted_us));
}

static void print_lines(const struct outlook *o, const struct advice *a)
{
	char line[PATH_MAX + 1024], predicted[32], bound[32];

	if (a->setting.interval_us > 0)
		puts("# in /etc/cron.d/deferred; in a user's own crontab without the sixth field");
	else
		puts("# a service: ExecStart= of cron/check_deferred.service, or a shell");
	for (int i = 0; i < a->setting.lines; i++) {
		crontab_line(o, &a->setting, i, line, sizeof(line));
		puts(line);
	}
	printf("\npromise: %.4g %% of the jobs begin within %s, each queue by itself, as what was is replayed;\n", 100 * o->wanted.share, outlook_us(predicted, a->predicted_us));
	printf("      within %s in %d of %d histories made up of its hours, with %.3g times the arrivals\n", outlook_us(bound, a->bound_us), ADVICE_ROUNDS - 1, ADVICE_ROUNDS,
	       o->wanted.headroom);
}

static int advise(struct outlook *o, struct cli *cli)
{
	struct advice a;
	int rc = outlook_read(o, cli);

	if (rc != 0)
		return rc;
	if (!is_enough(o))
		return tell_too_little(o, cli);
	if (advice_seek(&o->wanted, o->histories, o->n, &a) < 0)
		return EX_OSERR;
	if (cli->json) {
		rc = print_json(o, cli, &a);
	} else {
		if (a.answer == ADVICE_FOUND)
			print_lines(o, &a);
		else
			print_refusal(o, &a);
		rc = outlook_queues(o, cli, &a, NULL);
		outlook_tell(o, &a);
	}
	return rc == 0 && a.answer != ADVICE_FOUND ? CLI_NOT_DONE : rc;
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option own[] = { OUTLOOK_OPTIONS, { "share", required_argument, NULL, OPT_SHARE }, { "within", required_argument, NULL, OPT_WITHIN },
					     { "headroom", required_argument, NULL, OPT_HEADROOM }, { "max-runners", required_argument, NULL, OPT_MAX_RUNNERS },
					     { "service", no_argument, NULL, OPT_SERVICE }, { 0 } };
	struct outlook o;
	int c, rc;

	outlook_init(&o);
	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			return EX_OK;
		if (c == CLI_OPT_BAD || !option(&o, cli, c))
			return EX_USAGE;
	}
	if (optind < argc)
		return cli_usage(cli, "unexpected argument \"%.64s\"", argv[optind]);
	if (o.queue && o.queue[strspn(o.queue, PLAIN)])
		return cli_usage(cli, "--queue: \"%.64s\" is no name of a queue", o.queue);
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	rc = advise(&o, cli);
	outlook_clear(&o);
	return rc;
}

const struct cmd cmd_advise = {
	"advise", "[--share PERCENT] [--within SPAN] [--queue NAME] [--since SPAN] [--scale X] [--headroom X] [--max-runners N] [--service] [--start SPAN] [--between SPAN]",
	"say which lines of a crontab make a share of the jobs begin within a time", run, "deferred_viewer",
};
