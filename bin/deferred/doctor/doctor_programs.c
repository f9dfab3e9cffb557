/* SPDX-License-Identifier: MIT */
#include "doctor_here.h"

#include "base/clock.h"
#include "base/log.h"
#include "port/trusted.h"
#include "run/orphan.h"
#include "run/runner.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD_NS (10 * NS_PER_S) /* as the pool has it, besides start_timeout */

/* Returns whether a runner could start it. */
static bool check_program(struct doctor *d, const struct config_program *p, unsigned int owner)
{
	struct deferred_error err = { 0 };
	struct stat st;

	for (size_t i = 0; p->watch[i]; i++)
		if (stat(p->watch[i], &st) < 0) {
			doctor_warn(d, "program '%s': watched path '%s': %s", p->name, p->watch[i], strerror(errno));
			doctor_why(d, "the program is replaced when that path appears, and not for any other change of "
				      "the application");
			doctor_do(d, "correct watch in the config file, or create the path");
		}
	if (trusted_check_program(p->argv[0], owner, &err) < 0) {
		doctor_fail(d, "program '%s': %s", p->name, err.message);
		doctor_why(d, "users who can write it could run programs as the user of functions, so it is refused");
		doctor_do(d, "%s", err.hint);
	} else if (access(p->argv[0], X_OK) < 0) {
		doctor_fail(d, "program '%s': %s: %s", p->name, p->argv[0], strerror(errno));
		doctor_why(d, "its jobs wait");
		doctor_do(d, "install that program, or correct the path in the config file");
	} else if (p->directory && (stat(p->directory, &st) < 0 || !S_ISDIR(st.st_mode))) {
		doctor_fail(d, "program '%s': directory '%s' is not there", p->name, p->directory);
		doctor_why(d, "its jobs wait");
		doctor_do(d, "correct directory in the config file, or create the folder");
	} else {
		return true;
	}
	return false;
}

static bool wait_for_runner(struct runner *runner, uint64_t limit_ns)
{
	struct deferred_error err = { 0 };

	while (!runner_ready(runner) && !runner_deaf(runner)) {
		uint64_t now = clock_ns();
		struct pollfd fds[2];

		if (now >= limit_ns)
			return false;
		runner_pollfds(runner, fds);
		poll(fds, 2, (int)((limit_ns - now) / NS_PER_MS) + 1);
		if (runner_flush(runner) < 0 || runner_read(runner, &err) < 0)
			return false;
	}
	return runner_ready(runner);
}

static void end_runner(struct runner *runner, uint64_t limit_ns)
{
	int status = 0;

	runner_quit(runner);
	while (waitpid(runner_pid(runner), &status, WNOHANG) == 0) {
		if (clock_ns() >= limit_ns)
			runner_kill(runner, SIGKILL, JOB_INTERRUPTED, "");
		poll(NULL, 0, 5);
	}
	runner_reaped(runner, status);
	runner_free(runner);
}

/* A runner that probes reports a program that is not right as a clash of the program's name. */
static void take_report(struct doctor *d, struct runner_function *f,
			void (*add)(struct doctor *d, const char *function))
{
	for (char *p = f->plugin; (p = strchr(p, '\n'));)
		*p = ' ';
	if (f->clash) {
		doctor_fail(d, "%s", f->plugin);
		doctor_why(d, "jobs that need it wait");
		doctor_do(d, "correct that, then send SIGHUP to check_deferred");
		return;
	}
	for (size_t i = 0; i < d->functions_len; i++) {
		if (strcmp(d->functions[i], f->name) != 0)
			continue;
		doctor_fail(d, "function '%s' is both of program '%.*s' and in a plugin", f->name,
			    (int)strcspn(f->plugin, " "), f->plugin);
		doctor_why(d, "it is not clear which of the two is meant, so neither is called");
		doctor_do(d, "rename one of the two, or declare functions of the program in the config file");
	}
	add(d, f->name);
}

void doctor_programs(struct doctor *d, void (*add)(struct doctor *d, const char *function))
{
	const struct config *config = d->host->cli->config;
	unsigned int owner = d->host->user.switch_user ? d->host->user.uid : geteuid();
	struct runner_setup setup = d->host->user;
	uint64_t leave_ns = (uint64_t)config_int(config, "kill_after") * NS_PER_MS + NS_PER_S, longest_ms = 0;
	struct deferred_error err = { 0 };
	struct runner_function *list;
	struct runner *runner;
	char path[PATH_MAX];
	bool can_start = true;
	size_t n, len;
	const struct config_program *programs = config_programs(config, &n);

	for (size_t i = 0; i < n; i++) {
		can_start &= check_program(d, &programs[i], owner);
		if ((uint64_t)programs[i].start_timeout_ms > longest_ms)
			longest_ms = (uint64_t)programs[i].start_timeout_ms;
	}
	if (n == 0 || !can_start)
		return;
	log_init("deferred", LOG_L_ERROR);
	setup.config = config;
	setup.program = runner_setup_program(path);
	setup.instance = "deferred doctor";
	setup.probe = true;
	orphan_init();
	if (runner_spawn(&runner, &setup, &err) < 0) {
		doctor_fail(d, "%s", err.message);
		doctor_why(d, "programs cannot be tried");
		doctor_do(d, "%s", err.hint);
		return;
	}
	if (!wait_for_runner(runner, clock_ns() + LOAD_NS + longest_ms * NS_PER_MS)) {
		doctor_fail(d, "a runner with the programs of the config file does not become ready");
		doctor_why(d, "no job runs here until it does");
		doctor_do(d, "run check_deferred and read its log");
	}
	list = runner_take_functions(runner, &len);
	for (size_t i = 0; i < len; i++)
		take_report(d, &list[i], add);
	runner_functions_free(list, len);
	end_runner(runner, clock_ns() + leave_ns);
	orphan_end();
}
