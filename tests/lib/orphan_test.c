/* SPDX-License-Identifier: MIT */
#include "run/orphan.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_alive(pid_t pid)
{
	char path[64], state = 'Z';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%*d %*s %c", &state) != 1)
		state = 'Z';
	if (f)
		fclose(f);
	return state != 'Z';
}

static pid_t fork_family(int out)
{
	pid_t child = fork(), pid;

	if (child != 0)
		return child;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pid = fork();
	if (pid > 0 && write(out, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	for (;;)
		pause();
}

static pid_t fork_tracer(pid_t traced, int out)
{
	pid_t child = fork();

	if (child == 0) {
		int failed = ptrace(PTRACE_SEIZE, traced, NULL, NULL) < 0 ? errno : 0;

		if (write(out, &failed, sizeof(failed)) != sizeof(failed))
			_exit(1);
		for (;;)
			pause();
	}
	return child;
}

/* A traced process cannot be reaped by its parent, as one that takes long to die. */
static void children_of_a_process_that_cannot_be_reaped_are_killed(void **state)
{
	pid_t parent, child, tracer;
	int fd[2], failed;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	orphan_init();
	parent = fork_family(fd[1]);
	assert_int_equal(read(fd[0], &child, sizeof(child)), sizeof(child));
	tracer = fork_tracer(parent, fd[1]);
	assert_int_equal(read(fd[0], &failed, sizeof(failed)), sizeof(failed));
	assert_int_equal(failed, 0);
	assert_true(is_alive(child));
	orphan_sweep(&tracer, 1);
	assert_false(is_alive(child));
	assert_true(is_alive(tracer));
	kill(tracer, SIGKILL);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
	orphan_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_of_a_process_that_cannot_be_reaped_are_killed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("orphan", tests, NULL, NULL);
}
