/* SPDX-License-Identifier: MIT */
/*
 * spawn ROUNDS -- COMMAND... -- COMMAND...
 *
 * Runs the commands in turn, ROUNDS times, and prints a line for each run: number of the command, wall
 * time and processor time in microseconds, peak memory in KiB. A program this small does it because the
 * peak the kernel reports includes that of the process which started the command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static long long cpu_us(const struct rusage *u)
{
	return (u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000LL + u->ru_utime.tv_usec + u->ru_stime.tv_usec;
}

static int run(int number, char **argv)
{
	long long start = now_us();
	struct rusage usage;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status != 0) {
		fprintf(stderr, "spawn: %s failed\n", argv[0]);
		return -1;
	}
	printf("%d %lld %lld %ld\n", number, now_us() - start, cpu_us(&usage), usage.ru_maxrss);
	return 0;
}

int main(int argc, char **argv)
{
	char **commands[8];
	int n = 0, rounds = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 2; i < argc && n < 8; i++)
		if (strcmp(argv[i], "--") == 0) {
			argv[i] = NULL;
			commands[n++] = &argv[i + 1];
		}
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < n; i++)
			if (run(i, commands[i]) < 0)
				return 1;
	return 0;
}
