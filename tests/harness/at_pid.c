/* SPDX-License-Identifier: MIT */
/* at_pid PID PROGRAM [ARG]... - run a program as the process with that number, and as long as this one; 2 where the
 * number is taken.
 * Linux gives it to who may restore checkpoints, as root may. */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t pid = argc > 2 ? (pid_t)atoi(argv[1]) : 0;
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1 };
	long child = syscall(SYS_clone3, &args, sizeof(args));

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[2], argv + 2);
		_exit(1);
	}
	if (child < 0) {
		perror("clone3");
		return errno == EEXIST ? 2 : 1;
	}
	printf("%ld\n", child);
	fflush(stdout);
	waitpid((pid_t)child, NULL, 0);
	return 0;
}
