/* SPDX-License-Identifier: MIT */
#include "local.h"

#include "base/clock.h"
#include "base/log.h"
#include "port/params.h"
#include "run/orphan.h"
#include "run/pool/pool.h"
#include "run/user.h"
#include "table.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define PROGRESS_MS 250 /* so often the progress of the function is looked at */

/* A job that is being run, and what became of it. */
struct local_job {
	const struct local *local;
	struct pool *pool;
	const char *fn;
	bool compared;     /* its plugin with the one of the log */
	uint32_t progress; /* number of the last report printed */
	struct attempt *ended;
	struct job *unknown;
	bool interrupted;
	bool tool_ended; /* before the function */
};

static void local_print_json(const struct attempt *a)
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
static void local_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void local_complain(const char *fmt, ...)
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
static int local_report(const struct cli *cli, const struct local *local, const struct attempt *a)
{
	if (cli->json) {
		local_print_json(a);
	} else {
		if (a->result)
			printf("%s\n", a->result);
		if (a->outcome != JOB_OK)
			local_complain("%s %s: %s", a->job->fn, job_outcome_text(a->outcome),
				       a->error ? a->error : "no reason given");
	}
	for (const struct runner_call *c = a->follow; c && a->outcome == JOB_OK; c = c->next)
		local_complain("not deferred, %s: %s %s", local->unsaved, c->fn, c->params);
	for (const struct runner_path *p = a->remove; p && a->outcome == JOB_OK && !local->removes; p = p->next)
		local_complain("not removed, %s: %s", local->unsaved, p->path);
	return a->outcome == JOB_OK        ? EX_OK
	       : a->outcome == JOB_CRASHED ? local->crashed
	       : a->outcome == JOB_TIMEOUT ? local->timeout
					   : local->failed;
}

static void local_take_step(void *data, struct job_step *step)
{
	struct local_job *l = data;

	local_complain("not saved, %s: step %s %s", l->local->unsaved, step->name, step->value);
	pool_answer_step(l->pool, step->job->id, 0);
}

static void print_progress(void *data, const struct job_progress *p)
{
	struct local_job *l = data;
	char text[TABLE_PROGRESS_SIZE];
	const int64_t now = 0;

	if (p->number == l->progress)
		return;
	l->progress = p->number;
	local_complain(
		"%s: progress %s", l->fn,
		table_progress(text, p->done < 0 ? NULL : &p->done, p->total < 0 ? NULL : &p->total, p->text, &now));
}

/* The runner has loaded the plugins: is the function of the build that the log names? */
static void compare_plugin(struct local_job *l)
{
	const struct runner_function *f = functions_find(&l->pool->functions, l->fn);
	char *was;

	if (!f || l->compared)
		return;
	l->compared = true;
	if (!l->local->plugin[0] || strcmp(f->plugin, l->local->plugin) == 0)
		return;
	was = table_clean(l->local->plugin, 0, TABLE_ONE_LINE);
	cli_say("install that version to run the same code",
		"function '%s': this is '%s', but the attempt was made by '%s'", l->fn, f->plugin, was);
	free(was);
}

/* A tool ends after the runner has closed its socket, or before it. A runner that a debugger has detached from may live
 * on and have the answer. */
static bool has_closed(const struct pool *pool)
{
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner && !runner_deaf(pool->member[i].runner))
			return false;
	return true;
}

static int local_wait_ms(const struct local_job *l)
{
	int ms = l->local->tool ? -1 : pool_wait_ms(l->pool, clock_ns());

	return ms < 0 || ms > PROGRESS_MS ? PROGRESS_MS : ms;
}

static void local_wait(struct local_job *l, int signal_fd)
{
	struct pool *pool = l->pool;

	while (!l->ended && !l->unknown && !pool->fatal.code && !l->interrupted && !l->tool_ended) {
		struct signalfd_siginfo si;
		struct pollfd fds[3] = { { signal_fd, POLLIN, 0 } };
		size_t n = 1;

		compare_plugin(l);
		pool_dispatch(pool);
		n += pool_pollfds(pool, fds + 1, 2);
		poll(fds, n, local_wait_ms(l));
		while (read(signal_fd, &si, sizeof(si)) == sizeof(si))
			l->interrupted |= si.ssi_signo != SIGCHLD;
		if (!l->local->tool || has_closed(pool))
			pool_reap(pool);
		pool_read(pool);
		pool_each_step(pool, local_take_step, l);
		pool_each_progress(pool, print_progress, l);
		if (!l->local->tool)
			pool_tick(pool, clock_ns());
		l->ended = pool_take(pool);
		l->unknown = pool_take_unknown(pool);
		l->tool_ended = l->local->tool && pool->alive == 0;
	}
}

/* Why there is no attempt, as an exit code. */
static int report_none(const struct cli *cli, const struct local_job *l)
{
	const struct pool *pool = l->pool;
	size_t programs;

	if (l->interrupted) {
		cli_say("the same command calls the function again", "function '%s': interrupted", l->fn);
		return 130;
	}
	if (!l->unknown && !pool->fatal.code) {
		cli_say("the words above say why", "%s: ended before function '%s' was called", l->local->tool[0],
			l->fn);
		return EX_UNAVAILABLE;
	}
	if (!l->unknown)
		return cli_fail(cli, &pool->fatal);
	if (functions_clash(&pool->functions, l->fn)) {
		local_complain("%s: refused", functions_clash(&pool->functions, l->fn));
		return EX_UNAVAILABLE;
	}
	config_programs(pool->setup.config, &programs);
	fprintf(stderr,
		"deferred: function '%s' is not in a plugin of '%s', a program or a command\n"
		"hint: deferred functions lists what workers offer%s\n",
		l->fn, pool->setup.plugin_dir,
		programs > 0 ? "; a warning above names each program that did not start" : "");
	return EX_UNAVAILABLE;
}

static int open_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Run it, wait for the end of a tool, and report. */
static int run_and_report(const struct cli *cli, struct local_job *l, int signal_fd)
{
	struct pool *pool = l->pool;
	bool own_terminal = l->local->tool && tcgetpgrp(0) == getpgrp();
	int rc = EX_OK;

	local_wait(l, signal_fd);
	if (!l->ended)
		rc = report_none(cli, l);
	for (const struct runner_path *p = l->ended ? l->ended->remove : NULL;
	     p && l->ended->outcome == JOB_OK && l->local->removes; p = p->next)
		pool_remove_file(pool, p->path);
	if (l->local->tool && l->ended)
		pool->leave_limit_ns = UINT64_MAX / 2; /* a debugger ends when its user says so */
	pool_clear(pool);
	if (own_terminal) {
		signal(SIGTTOU, SIG_IGN);
		tcsetpgrp(0, getpgrp());
	}
	if (l->ended)
		rc = local_report(cli, l->local, l->ended);
	attempt_free(l->ended);
	free(l->unknown);
	return rc;
}

int local_run(struct cli *cli, const struct local *local, struct job *job)
{
	struct deferred_error err = { 0 };
	struct runner_setup setup = { .tool = local->tool, .debug = local->debug };
	char program[PATH_MAX], instance[64], *fn = strdup(job->fn);
	struct pool pool;
	struct local_job l = { .local = local, .pool = &pool, .fn = fn };
	int rc, signal_fd;

	if (config_override(cli->config, "runners", "1", cli->cmd->name, &err) < 0 ||
	    runner_user_find(&setup, cli->config, &err) < 0) {
		free(job);
		free(fn);
		return cli_fail(cli, &err);
	}
	log_init("deferred", LOG_L_INFO);
	signal_fd = open_signals();
	snprintf(instance, sizeof(instance), "deferred-%s", cli->cmd->name);
	setup.config = cli->config;
	setup.program = runner_setup_program(program);
	setup.plugin_dir = config_plugin_dir(cli->config);
	setup.instance = instance;
	orphan_init();
	if (!fn || signal_fd < 0 || pool_init(&pool, &setup, &err) < 0) {
		error_errno(&err, DEFERRED_ESYSTEM, cli->cmd->name,
			    "cannot start a runner\nraise the limits of open files and memory");
		free(job);
		free(fn);
		return cli_fail(cli, &err);
	}
	job->claimed_ns = clock_ns();
	job->alone = true; /* it waits for no others */
	pool_add(&pool, job);
	rc = run_and_report(cli, &l, signal_fd);
	close(signal_fd);
	free(fn);
	return rc;
}
