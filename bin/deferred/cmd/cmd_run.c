/* SPDX-License-Identifier: MIT */
/* run: a function here and now, in a runner as under check_deferred, without a database. */
#include "cmd.h"

#include "base/clock.h"
#include "base/log.h"
#include "port/params.h"
#include "run/orphan.h"
#include "run/pool/pool.h"
#include "run/user.h"
#include "table.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void run_print_json(const struct attempt *a)
{
	struct params_text t = { 0 };
	char *text;

	params_open(&t, NULL, '{');
	params_string(&t, "outcome", job_outcome_text(a->outcome));
	if (a->result)
		params_string(&t, "result", a->result);
	if (a->error)
		params_string(&t, "error", a->error);
	params_close(&t, '}');
	if (params_take(&t, &text, NULL) == 0)
		printf("%s\n", text);
	free(text);
}

/* In words of a function, which may be anything. */
static void run_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run_complain(const char *fmt, ...)
{
	char *text = NULL, *clean;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	clean = table_clean(text ? text : "out of memory", 0, 4);
	fprintf(stderr, "deferred: %s\n", clean);
	free(clean);
	free(text);
}

/* How the attempt ended, as an exit code. */
static int run_report(const struct cli *cli, const struct attempt *a)
{
	if (cli->json) {
		run_print_json(a);
	} else {
		if (a->result)
			printf("%s\n", a->result);
		if (a->outcome != JOB_OK)
			run_complain("%s %s: %s", a->job->fn, job_outcome_text(a->outcome),
				     a->error ? a->error : "no reason given");
	}
	for (const struct runner_call *c = a->follow; c && a->outcome == JOB_OK; c = c->next)
		run_complain("not deferred, there being no queue: %s %s", c->fn, c->params);
	return a->outcome == JOB_OK ? EX_OK : CLI_NOT_DONE;
}

static void run_take_step(void *data, struct job_step *step)
{
	run_complain("not saved, there being no queue: step %s %s", step->name, step->value);
	pool_answer_step(data, step->job->id, 0);
}

static int wait_and_report(const struct cli *cli, struct pool *pool, int signal_fd, const char *fn)
{
	struct attempt *a = NULL;
	struct job *unknown = NULL;
	bool stopped = false;
	int rc;

	while (!a && !unknown && !pool->fatal.code && !stopped) {
		struct signalfd_siginfo si;
		struct pollfd fds[3] = { { signal_fd, POLLIN, 0 } };
		size_t n = 1;

		pool_dispatch(pool);
		n += pool_pollfds(pool, fds + 1, 2);
		poll(fds, n, pool_wait_ms(pool, clock_ns()));
		while (read(signal_fd, &si, sizeof(si)) == sizeof(si))
			stopped |= si.ssi_signo != SIGCHLD;
		pool_reap(pool);
		pool_read(pool);
		pool_each_step(pool, run_take_step, pool);
		pool_tick(pool, clock_ns());
		a = pool_take(pool);
		unknown = pool_take_unknown(pool);
	}
	if (a) {
		rc = run_report(cli, a);
		for (const struct runner_path *p = a->remove; p && a->outcome == JOB_OK; p = p->next)
			pool_remove_file(pool, p->path);
	} else if (unknown && functions_clash(&pool->functions, fn)) {
		run_complain("%s: refused", functions_clash(&pool->functions, fn));
		rc = EX_UNAVAILABLE;
	} else if (unknown) {
		size_t programs;

		config_programs(pool->setup.config, &programs);
		fprintf(stderr,
			"deferred: function '%s' is not in a plugin of '%s', a program or a command\n"
			"hint: deferred functions lists what workers offer%s\n",
			fn, pool->setup.plugin_dir,
			programs > 0 ? "; a warning above names each program that did not start" : "");
		rc = EX_UNAVAILABLE;
	} else if (stopped) {
		cli_say("the same command calls the function again", "function '%s': interrupted", fn);
		rc = 130;
	} else {
		rc = cli_fail(cli, &pool->fatal);
	}
	attempt_free(a);
	free(unknown);
	return rc;
}

static int run_here(struct cli *cli, const char *fn, const char *params, const char *plugin_dir, const char *timeout)
{
	struct deferred_error err = { 0 };
	struct runner_setup setup = { 0 };
	char program[PATH_MAX];
	struct pool pool;
	struct job *job;
	sigset_t signals;
	int rc, signal_fd;

	if (params_check(params, strlen(params), &err) < 0)
		return cli_fail(cli, &err);
	rc = cli_config(cli);
	if (rc != 0)
		return rc;
	if ((plugin_dir && config_override(cli->config, "plugin_dir", plugin_dir, "--plugin-dir", &err) < 0) ||
	    (timeout && config_override(cli->config, "timeout", timeout, "--timeout", &err) < 0)) {
		cli_fail(cli, &err);
		return EX_USAGE;
	}
	if (config_override(cli->config, "runners", "1", "run", &err) < 0 ||
	    runner_user_find(&setup, cli->config, &err) < 0)
		return cli_fail(cli, &err);
	log_init("deferred", LOG_L_INFO);

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	setup.config = cli->config;
	setup.program = runner_setup_program(program);
	setup.plugin_dir = config_plugin_dir(cli->config);
	setup.instance = "deferred run";
	orphan_init();
	if (signal_fd < 0 || pool_init(&pool, &setup, &err) < 0) {
		error_errno(&err, DEFERRED_ESYSTEM, "run",
			    "cannot start a runner\nraise the limits of open files and memory");
		return cli_fail(cli, &err);
	}
	job = job_new("default", fn, "", params, strlen(params));
	if (job) {
		job->attempt = 1;
		job->claimed_ns = clock_ns();
		job->alone = true; /* it waits for no others */
		pool_add(&pool, job);
		rc = wait_and_report(cli, &pool, signal_fd, fn);
	}
	pool_clear(&pool);
	close(signal_fd);
	return rc;
}

static int cmd_run_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option own[] = {
		{ "plugin-dir", "DIR", "folder of the plugins", 'p', "the setting" },
		{ "timeout", "SPAN", "limit of the attempt", 't', "the setting" },
		{ 0 },
	};
	const char *plugin_dir = NULL, *timeout = NULL, *params;
	char *given;
	int opt, rc;

	while ((opt = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (opt == CLI_OPT_BAD || opt == CLI_OPT_HELP)
			return opt == CLI_OPT_BAD ? EX_USAGE : EX_OK;
		*(opt == 'p' ? &plugin_dir : &timeout) = optarg;
	}
	if (!cli_arguments(cli, argc, argv, "FUNCTION [PARAMS]"))
		return EX_USAGE;
	params = cli_params(cli, argv[optind + 1], &given, &rc);
	if (params)
		rc = run_here(cli, argv[optind], params, plugin_dir, timeout);
	free(given);
	return rc;
}

const struct cmd cmd_run = {
	"run",
	"FN [JSON|-] [OPTION...]",
	"run a function here and now",
	cmd_run_run,
	NULL,
	NULL,
	SHARDS_NONE,
};
