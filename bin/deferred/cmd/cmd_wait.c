/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/clock.h"
#include "rows/job.h"
#include "store/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Exit codes besides CLI_NOT_DONE: there is no such job. */
#define WAIT_FAILED 4
#define WAIT_TIMEOUT 5

/* A look is one search by the primary key. Nothing tells when a job ends: that would cost each job. */
#define LOOK_FLOOR_MS 20
#define LOOK_CEILING_MS 1000
#define LOST_MS 60000 /* so long the server may be away */

static void wait_sleep(int64_t ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static int wait_print(const struct cli *cli, int64_t id, const struct job_result_row *r)
{
	bool done = strcmp(r->state, "done") == 0;

	if (cli->json)
		puts(r->json);
	else if (done && r->result)
		puts(r->result);
	if (!done)
		fprintf(stderr,
			"deferred: job %" PRId64 " is %s (%s)\nhint: look at it with deferred show %" PRId64 "\n", id,
			r->state, r->outcome ? r->outcome : "its attempts were purged", id);
	return done ? EX_OK : WAIT_FAILED;
}

/* One look; timeout: it is the last one, else NULL. Returns the exit code. -1: the job has not ended, or the server is
 * lost, which *err says. */
static int wait_look(struct cli *cli, int64_t id, const char *timeout, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct job_result_row r;
	int rc = cli->pg && !pg_broken(cli->pg) ? 0 : cli_open(cli, err);

	if (rc == 0)
		rc = job_result_exec(cli->pg, id, &res, err);
	if (rc < 0)
		return err->code == DEFERRED_ECONNECT || err->code == DEFERRED_ELOST ? -1 : cli_fail(cli, err);
	r = job_result_row(res, 0);
	rc = -1;
	if (!r.state) {
		error_not_there(err, "job", id);
		rc = cli_fail(cli, err);
	} else if (r.ended) {
		rc = wait_print(cli, id, &r);
	} else if (timeout) {
		if (cli->json)
			puts(r.json);
		fprintf(stderr,
			"deferred: job %" PRId64 " has not ended within %s (it is %s)\n"
			"hint: find out why with deferred why %" PRId64 "\n",
			id, timeout, r.state, id);
		rc = WAIT_TIMEOUT;
	}
	pg_result_free(res);
	return rc;
}

/* limit_ms -1: none. */
static int wait_for_end(struct cli *cli, int64_t id, int64_t limit_ms, const char *timeout)
{
	int64_t begin = clock_ms(), lost = 0, pause_ms = LOOK_FLOOR_MS;

	for (;;) {
		struct deferred_error err = { 0 };
		int64_t now = clock_ms(), left_ms = limit_ms < 0 ? INT64_MAX : begin + limit_ms - now;
		int rc = wait_look(cli, id, left_ms <= 0 ? timeout : NULL, &err);

		if (rc >= 0)
			return rc;
		lost = !err.code ? 0 : lost ? lost : now;
		if (lost && (left_ms <= 0 || now - lost > LOST_MS))
			return cli_fail(cli, &err);
		wait_sleep(pause_ms < left_ms ? pause_ms : left_ms);
		pause_ms = pause_ms * 3 / 2 < LOOK_CEILING_MS ? pause_ms * 3 / 2 : LOOK_CEILING_MS;
	}
}

static int cmd_wait_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "timeout", "SPAN", "wait no longer than that; 0: look once", 't', "no limit" },
		{ 0 },
	};
	const char *timeout = "";
	int64_t id, limit_ms = -1;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c != 't')
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		timeout = optarg;
		if (!cli_ms(cli, "--timeout", optarg, &limit_ms))
			return EX_USAGE;
	}
	if (!cli_arguments(cli, argc, argv, "ID"))
		return EX_USAGE;
	if (!cli_int(cli, "job id", argv[optind], 1, INT64_MAX, &id))
		return EX_USAGE;
	if ((rc = cli_shard_of(cli, id)) != 0 || (rc = cli_connect(cli, true)) != 0)
		return rc;
	return wait_for_end(cli, id, limit_ms, timeout);
}

const struct cmd cmd_wait = {
	"wait", "ID [--timeout SPAN]", "wait until a job has ended", cmd_wait_run, "deferred_producer",
};
