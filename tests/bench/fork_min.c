/* SPDX-License-Identifier: MIT */
/*
 * fork_min N
 *
 * Forks N times, waits for each child, and prints how many there were a second: what a process of its own costs at
 * least, on this machine. Under some hypervisors that is milliseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	int n = argc == 2 ? atoi(argv[1]) : 0;
	double start = now_s();

	if (n <= 0) {
		fprintf(stderr, "usage: fork_min N\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid) {
			perror("fork_min");
			return 1;
		}
	}
	printf("%.0f\n", n / (now_s() - start));
	return 0;
}
