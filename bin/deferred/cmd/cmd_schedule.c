/* SPDX-License-Identifier: MIT */
#include "cmd_schedule.h"

#include "store/schedule.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TICKS_DEFAULT 5
#define TICKS_MAX 1000
#define BACKFILL_MAX 1000 /* more only with --yes */

/* ---- ls, show --------------------------------------------------------------------------------- */

static void print_schedules(const struct pg_result *res)
{
	static const char *const headers[] = { "SCHEDULE", "RULE", "ZONE", "FUNCTION", "QUEUE",
					       "OWNER",    "NEXT", "LAST", "WHAT",     "ERROR" };

	cli_print_columns(res, headers, 10, "schedules");
}

static int schedule_ls(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc))
		return rc;
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	if (schedule_ls_exec(cli->pg, NULL, &res, &err) < 0)
		return cli_fail(cli, &err);
	return cli_list(cli, res, print_schedules);
}

static void print_ticks(const struct pg_result *ticks)
{
	static const char *const headers[] = { "TICK", "WHAT", ">JOB" };

	cli_print_columns(ticks, headers, 3, "ticks");
}

/* The number of --ticks, and one name. Returns an exit code, or -1: go on. */
static int read_ticks(struct cli *cli, int argc, char **argv, const struct program_option *options, int64_t *ticks,
		      const char **timezone)
{
	int c;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c != 'n' && c != 'z')
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (c == 'z')
			*timezone = optarg;
		else if (!cli_int(cli, "--ticks", optarg, 0, TICKS_MAX, ticks))
			return EX_USAGE;
	}
	return cli_arguments(cli, argc, argv, "NAME") ? -1 : EX_USAGE;
}

static int schedule_show(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "ticks", "N", "ticks to print", 'n', "20" },
		{ 0 },
	};
	struct pg_result *res = NULL, *ticks = NULL;
	struct deferred_error err = { 0 };
	int64_t n = 20;
	int rc = read_ticks(cli, argc, argv, options, &n, NULL);

	if (rc >= 0 || (rc = cli_connect(cli, true)) != 0)
		return rc;
	if (schedule_ls_exec(cli->pg, argv[optind], &res, &err) < 0 ||
	    schedule_ticks_exec(cli->pg, argv[optind], (int)n, &ticks, &err) < 0) {
		rc = cli_fail(cli, &err);
	} else if (pg_rows(res) == 0) {
		error_set(&err, DEFERRED_EDB, "schedule", "schedule '%.100s' does not exist", argv[optind]);
		error_hint(&err, "list the schedules: deferred schedule ls");
		rc = cli_fail(cli, &err);
	} else if (cli->json) {
		printf("{\"schedule\": %s, \"ticks\": ", schedule_ls_row(res, 0).json);
		cli_print_json_array(ticks);
		puts("}");
	} else {
		print_schedules(res);
		putchar('\n');
		print_ticks(ticks);
	}
	pg_result_free(res);
	pg_result_free(ticks);
	return rc;
}

/* ---- next ------------------------------------------------------------------------------------- */

static int schedule_next(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "ticks", "N", "ticks to print", 'n', "5" },
		{ "timezone", "ZONE", "time zone of a rule", 'z', "the setting" },
		{ 0 },
	};
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	const char *timezone = NULL;
	bool zone;
	int64_t n = TICKS_DEFAULT;
	int rc = read_ticks(cli, argc, argv, options, &n, &timezone);

	if (rc >= 0 || (rc = cli_connect(cli, true)) != 0)
		return rc;
	zone = timezone;
	if (!zone && strpbrk(argv[optind], " @")) /* a rule, not the name of a schedule */
		timezone = config_text(cli->config, "timezone");
	if (admin_schedule_next_exec(cli->pg, argv[optind], (int)n, timezone, &res, &err) < 0)
		return schedule_fail(cli, zone, &err);
	return cli_list(cli, res, schedule_print_next);
}

/* ---- pause, resume, run, rm ------------------------------------------------------------------- */

static int each(struct cli *cli, int argc, char **argv, enum store_schedule_what what)
{
	static const char *const done[] = {
		[STORE_SCHEDULE_PAUSE] = "\"paused\": true",
		[STORE_SCHEDULE_RESUME] = "\"paused\": false",
		[STORE_SCHEDULE_REMOVE] = "\"removed\": true",
	};
	const char *between = "[";
	int rc;

	if (!cli_no_options(cli, argc, argv, &rc))
		return rc;
	if (!cli_arguments(cli, argc, argv, "NAME..."))
		return EX_USAGE;
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	for (int i = optind; i < argc && !pg_broken(cli->pg); i++) {
		struct deferred_error err = { 0 };
		int64_t job;

		if (store_schedule_do(cli->pg, what, argv[i], &job, &err) < 0) {
			int failed = cli_fail(cli, &err);

			rc = rc == EX_OK ? failed : rc;
		} else if (cli->json) {
			printf("%s{\"schedule\": \"%s\", ", between, argv[i]);
			if (what == STORE_SCHEDULE_RUN && job)
				printf("\"id\": %" PRId64 "}", job);
			else if (what == STORE_SCHEDULE_RUN)
				printf("\"id\": null}");
			else
				printf("%s}", done[what]);
			between = ",\n ";
		} else if (what == STORE_SCHEDULE_RUN && job) {
			printf("%" PRId64 "\n", job);
		}
	}
	if (cli->json)
		printf("%s]\n", *between == '[' ? between : "");
	return rc;
}

static int schedule_pause(struct cli *cli, int argc, char **argv)
{
	return each(cli, argc, argv, STORE_SCHEDULE_PAUSE);
}

static int schedule_resume(struct cli *cli, int argc, char **argv)
{
	return each(cli, argc, argv, STORE_SCHEDULE_RESUME);
}

static int schedule_run(struct cli *cli, int argc, char **argv)
{
	return each(cli, argc, argv, STORE_SCHEDULE_RUN);
}

static int schedule_rm(struct cli *cli, int argc, char **argv)
{
	return each(cli, argc, argv, STORE_SCHEDULE_REMOVE);
}

/* ---- backfill --------------------------------------------------------------------------------- */

static int backfill(struct cli *cli, const char *name, const char *from, const char *to, bool dry, bool yes)
{
	struct deferred_error err = { 0 };
	int64_t ticks = 0;
	int rc = cli_connect(cli, true);

	if (rc != 0)
		return rc;
	if (store_schedule_backfill(cli->pg, name, from, to, true, &ticks, &err) < 0)
		return cli_fail(cli, &err);
	if (ticks > BACKFILL_MAX && !yes && !dry) {
		fprintf(stderr,
			"deferred: schedule '%s': %" PRId64
			" tick%s without a job\nhint: to defer all of them, add --yes\n",
			name, ticks, plural(ticks));
		return CLI_NOT_DONE;
	}
	if (!dry && store_schedule_backfill(cli->pg, name, from, to, false, &ticks, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		printf("{\"schedule\": \"%s\", \"ticks\": %" PRId64 ", \"queued\": %s}\n", name, ticks,
		       dry ? "false" : "true");
	else
		printf("%s: %" PRId64 " tick%s%s\n", name, ticks, plural(ticks), dry ? " without a job" : " queued");
	return EX_OK;
}

static int schedule_backfill(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "from", "TIME", "first tick", 'f' },
		{ "to", "TIME", "last tick", 't' },
		{ "yes", NULL, "store more than 1,000 jobs", 'y' },
		{ "dry-run", NULL, "count and change nothing", 'd' },
		{ 0 },
	};
	const char *from = NULL, *to = NULL;
	bool dry = false, yes = false;
	int c;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		from = c == 'f' ? optarg : from;
		to = c == 't' ? optarg : to;
		yes |= c == 'y';
		dry |= c == 'd';
	}
	if (!cli_arguments(cli, argc, argv, "NAME"))
		return EX_USAGE;
	if (!from || !to)
		return cli_usage(cli, "option '%s' is missing", from ? "--to" : "--from");
	return backfill(cli, argv[optind], from, to, dry, yes);
}

/* ---- the group -------------------------------------------------------------------------------- */

static int cmd_schedule_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "set", schedule_set },
		{ "ls", schedule_ls },
		{ "show", schedule_show },
		{ "next", schedule_next },
		{ "pause", schedule_pause },
		{ "resume", schedule_resume },
		{ "run", schedule_run },
		{ "rm", schedule_rm },
		{ "backfill", schedule_backfill },
		{ "sync", schedule_sync },
		{ 0 },
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_schedule = {
	"schedule",
	"set NAME RULE FN [JSON|-] [OPTION...]\n"
	"ls\n"
	"show NAME [--ticks N]\n"
	"next NAME|RULE [OPTION...]\n"
	"pause|resume|run|rm NAME...\n"
	"backfill NAME --from TIME --to TIME [OPTION...]\n"
	"sync FILE... [OPTION...]",
	"manage recurring jobs",
	cmd_schedule_run,
	"deferred_producer",
	"set, ls, show, next, pause, resume, run, rm, backfill and sync",
};
