/* SPDX-License-Identifier: MIT */
/* replay: the function of a past attempt here and now, as run() does it, with what that attempt was called with. */
#include "local.h"

#include "port/params.h"
#include "run/frame.h"
#include "rows/job.h"
#include "store/admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Exit codes that tell how the attempt ended. */
enum { REPLAY_FAILED = 6, REPLAY_CRASHED, REPLAY_TIMEOUT };

struct replay {
	int64_t id, attempt; /* attempt 0: the last one */
	const char *params;  /* path; NULL: those of the job */
	const char *exec;    /* what --exec said */
	enum { TOOL_NONE, TOOL_GDB = 'g', TOOL_VALGRIND = 'v', TOOL_EXEC = 'e' } tool;
};

/* The runner stops by a signal whose value is the address of the function. The function may run in a process of its
 * own, which is the next that the runner starts. A command is a program that this process executes. */
#define GDB "gdb", "-q", "-ex", "set startup-with-shell off", "-ex", "run", "-ex", "set follow-fork-mode child", "-ex"
#define GDB_FUNCTION "set $deferred_function = (long)$_siginfo._sifields._rt.si_sigval.sival_ptr", "-ex"
#define GDB_END "-ex", "continue", "-ex", "set follow-fork-mode parent", "--args", NULL
static const char *const gdb_plugin[] = { GDB, GDB_FUNCTION, "tbreak *$deferred_function", GDB_END };
static const char *const gdb_command[] = { GDB, "tcatch exec", GDB_END };
static const char *const valgrind[] = { "valgrind", NULL };

static bool is_command(const struct config *config, const char *fn)
{
	const struct config_command *commands;
	size_t n;

	commands = config_commands(config, &n);
	for (size_t i = 0; i < n; i++)
		if (strcmp(commands[i].name, fn) == 0)
			return true;
	return false;
}

/* Limits that a tool itself would exceed are off. */
static int replay_run(struct cli *cli, const struct replay *r, const char *plugin, struct job *job)
{
	struct local local = { .unsaved = "this being a replay",
			       .plugin = plugin,
			       .debug = r->tool == TOOL_GDB        ? FRAME_DEBUG_STOP
					: r->tool == TOOL_VALGRIND ? FRAME_DEBUG_HERE
								   : 0,
			       .failed = REPLAY_FAILED,
			       .crashed = REPLAY_CRASHED,
			       .timeout = REPLAY_TIMEOUT };
	const char *shell[] = { "/bin/sh", "-c", NULL, "sh", NULL };
	struct deferred_error err = { 0 };
	char *line = NULL;
	int rc = 0;

	if (r->tool == TOOL_EXEC && asprintf(&line, "exec %s \"$@\"", r->exec) < 0)
		rc = error_set(&err, DEFERRED_ENOMEM, "replay", "out of memory");
	shell[2] = line;
	local.tool = r->tool == TOOL_EXEC               ? shell
		     : r->tool == TOOL_VALGRIND         ? valgrind
		     : r->tool == TOOL_NONE             ? NULL
		     : is_command(cli->config, job->fn) ? gdb_command
							: gdb_plugin;
	if (rc == 0 && r->tool == TOOL_VALGRIND && is_command(cli->config, job->fn)) {
		rc = error_set(&err, DEFERRED_EINVAL, "replay",
			       "function '%s' is not in a plugin, and --valgrind is for plugins", job->fn);
		error_hint(&err, "put valgrind in front of its command in the config file");
	}
	if (rc == 0 && (r->tool == TOOL_GDB || r->tool == TOOL_VALGRIND))
		rc = config_override(cli->config, "cpu_limit", "0", cli->cmd->name, &err);
	if (rc == 0 && r->tool == TOOL_VALGRIND)
		rc = config_override(cli->config, "memory_limit", "0", cli->cmd->name, &err);
	if (rc == 0) {
		rc = local_run(cli, &local, job);
	} else {
		rc = cli_fail(cli, &err);
		free(job);
	}
	free(line);
	return rc;
}

/* A job like the one of the attempt, with a receipt that no claim has. given: other params, or NULL. */
static int make_job(const struct replay *r, const struct admin_replay_row *row, const char *given, struct job **out,
		    struct deferred_error *err)
{
	const char *params = given ? given : row->params;
	struct job *job = job_new(row->queue, row->fn, row->label, params, strlen(params));
	struct job *whole = job ? job_add_answer(job, row->parents, row->steps) : NULL;

	*out = whole;
	if (!whole) {
		free(job);
		return error_set(err, DEFERRED_ENOMEM, "replay", "out of memory");
	}
	whole->id = r->id;
	whole->attempt = whole->attempt_base = (int32_t)row->attempt;
	whole->timeout_ms = row->timeout_ms;
	whole->created_at_us = row->created_us;
	whole->ready_at_us = row->ready_us;
	whole->tick_us = row->tick_us;
	whole->previous_tick_us = row->previous_tick_us;
	if (traceparent_valid(row->traceparent))
		memcpy(whole->traceparent, row->traceparent, sizeof(whole->traceparent));
	if (getrandom(&whole->receipt, sizeof(whole->receipt), 0) < 0)
		whole->receipt = 0; /* no claim has it either */
	return 0;
}

/* Read the attempt in a transaction that cannot write. */
static int read_attempt(struct cli *cli, const struct replay *r, struct pg_result **res, struct deferred_error *err)
{
	int rc = store_admin_look(cli->pg, CLI_LOOK_MS, err);
	struct admin_replay_row row;

	if (rc == 0)
		rc = admin_replay_exec(cli->pg, r->id, r->attempt, res, err);
	if (rc < 0)
		return rc;
	if (pg_rows(*res) == 0)
		return error_not_there(err, "job", r->id);
	row = admin_replay_row(*res, 0);
	if (!row.fn)
		return error_set(err, DEFERRED_ENOTFOUND, "job",
				 "job %" PRId64 " is a message, which has no function\nname a job that has one", r->id);
	if (row.attempt > 0)
		return 0;
	if (r->attempt == 0)
		return error_set(err, DEFERRED_ENOTFOUND, "job",
				 "job %" PRId64 " has no attempt in the log\n"
				 "deferred run calls a function without an attempt",
				 r->id);
	error_set(err, DEFERRED_ENOTFOUND, "job", "job %" PRId64 " has no attempt %" PRId64 " in the log", r->id,
		  r->attempt);
	error_hint(err, "deferred show %" PRId64 " lists those it has", r->id);
	return DEFERRED_ENOTFOUND;
}

/* given: other params, or NULL. The connection is closed before the function begins. */
static int replay(struct cli *cli, const struct replay *r, const char *given)
{
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	struct job *job = NULL;
	int rc = 0;

	if (given)
		rc = params_check(given, strlen(given), &err);
	if (rc == 0)
		rc = read_attempt(cli, r, &res, &err);
	if (rc == 0) {
		struct admin_replay_row row = admin_replay_row(res, 0);

		rc = make_job(r, &row, given, &job, &err);
	}
	if (rc < 0)
		rc = cli_fail(cli, &err);
	pg_close(cli->pg);
	cli->pg = NULL;
	if (job)
		rc = replay_run(cli, r, admin_replay_row(res, 0).plugin, job);
	pg_result_free(res);
	return rc;
}

/* One tool at most. */
static bool take_tool(const struct cli *cli, struct replay *r, int opt)
{
	if (r->tool != TOOL_NONE && (int)r->tool != opt) {
		cli_misuse(cli, "give one of them", "options --gdb, --valgrind and --exec exclude each other");
		return false;
	}
	r->tool = (__typeof__(r->tool))opt;
	r->exec = opt == TOOL_EXEC ? optarg : NULL;
	if (opt != TOOL_EXEC || r->exec[strspn(r->exec, " \t")])
		return true;
	cli_bad_value(cli, "name a command, such as 'strace -f'", "--exec", r->exec, "is empty");
	return false;
}

static int cmd_replay_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "attempt", "N", "number of the attempt", 'a', "the last one" },
		{ "gdb", NULL, "stop in gdb before the function", TOOL_GDB },
		{ "valgrind", NULL, "run below valgrind", TOOL_VALGRIND },
		{ "exec", "CMD", "run below this command", TOOL_EXEC },
		{ "params", "FILE", "other params; -: standard input", 'p', "those of the job" },
		{ 0 },
	};
	struct replay r = { 0 };
	const char *params = NULL;
	char *given = NULL;
	int opt, rc = EX_OK;

	while ((opt = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (opt == CLI_OPT_BAD || opt == CLI_OPT_HELP)
			return opt == CLI_OPT_BAD ? EX_USAGE : EX_OK;
		if (opt == 'p')
			r.params = optarg;
		else if (opt == 'a' ? !cli_int(cli, "--attempt", optarg, 1, INT32_MAX, &r.attempt)
				    : !take_tool(cli, &r, opt))
			return EX_USAGE;
	}
	if (!cli_arguments(cli, argc, argv, "ID") || !cli_int(cli, "job id", argv[optind], 1, INT64_MAX, &r.id))
		return EX_USAGE;
	if (r.params && !(params = cli_params_of_file(cli, r.params, &given, &rc)))
		return rc;
	rc = cli_shard_of(cli, r.id);
	if (rc == 0)
		rc = cli_connect(cli, true);
	if (rc == 0)
		rc = replay(cli, &r, params);
	free(given);
	return rc;
}

const struct cmd cmd_replay = {
	"replay", "ID [OPTION...]", "run a past attempt again, and record nothing", cmd_replay_run, "deferred_reader",
};
