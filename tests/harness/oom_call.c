/* SPDX-License-Identifier: MIT */
/*
 * oom_call - an application in which memory runs out: the n-th allocation fails, for every n until none is met.
 *
 *     oom_call open|defer|mail one|rest none|ignore|reap
 *
 * one: that allocation alone; rest: all after it, too. none, ignore, reap: what the application does with SIGCHLD:
 * nothing, ignores it, waits for whatever child has ended. Each n is a child of this process. Prints "N allocations, S
 * succeeded, E refused"; or what else a child did, and ends with 1.
 */
#include "deferred.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- memory: what the program defines, its libraries use --------------------------------------- */

static atomic_long left = -1; /* allocations until the one that fails; below 0: none does */
static atomic_bool rest, met;

#if !defined(__SANITIZE_ADDRESS__)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static bool fails(void)
{
	long now = atomic_load(&left);

	if (now < 0)
		return false;
	if (now > 0) {
		atomic_fetch_sub(&left, 1);
		return false;
	}
	if (!rest)
		atomic_store(&left, -1);
	met = true;
	errno = ENOMEM;
	return true;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}
#endif

/* ---- the application -------------------------------------------------------------------------- */

enum { SUCCEEDED = 40, REFUSED, NOT_MET, SILENT, CHILD_LEFT };

static int call(const char *what, struct deferred_error *err)
{
	static const struct deferred_mailbox to = { "ann@example.org", NULL };
	static const struct deferred_mail mail = {
		.from = { "a@example.org", NULL }, .to = &to, .to_len = 1, .subject = "s", .text = "t"
	};
	struct deferred *d = NULL;
	int64_t id = 0;
	int rc;

	if (strcmp(what, "mail") == 0)
		return deferred_send_mail(NULL, &mail, NULL, &id, err);
	if (strcmp(what, "defer") == 0) {
		if ((id = defer("noop", "{\"a\": [1, 2]}", NULL)) < 0)
			*err = *deferred_last_error();
		return id < 0 ? (int)id : 0;
	}
	rc = deferred_open(&d, NULL, err);
	deferred_close(d);
	return rc;
}

static void reap(int sig)
{
	int saved = errno;

	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = saved;
}

static void child(const char *what, long n, const char *children)
{
	struct deferred_error err = { 0 };
	int rc;

	alarm(60);
	signal(SIGCHLD, strcmp(children, "ignore") == 0 ? SIG_IGN : strcmp(children, "reap") == 0 ? reap : SIG_DFL);
	left = n;
	rc = call(what, &err);
	left = -1;
	if (strcmp(children, "none") == 0 && (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD))
		_exit(CHILD_LEFT);
	if (!met)
		_exit(rc == 0 ? NOT_MET : SILENT);
	if (rc < 0 && !err.message[0])
		_exit(SILENT);
	_exit(rc == 0 ? SUCCEEDED : REFUSED);
}

int main(int argc, char **argv)
{
	long succeeded = 0, refused = 0;
	int status = 0;

	if (argc != 4)
		return 2;
	rest = strcmp(argv[2], "rest") == 0;
	for (long n = 0; n < 1000000; n++) {
		pid_t pid = fork();

		if (pid == 0)
			child(argv[1], n, argv[3]);
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			return 2;
		if (status == NOT_MET << 8) {
			printf("%ld allocations, %ld succeeded, %ld refused\n", n, succeeded, refused);
			return 0;
		}
		succeeded += status == SUCCEEDED << 8;
		refused += status == REFUSED << 8;
		if (status != SUCCEEDED << 8 && status != REFUSED << 8) {
			printf("allocation %ld fails: %s %d\n", n, WIFSIGNALED(status) ? "signal" : "exit status",
			       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			return 1;
		}
	}
	return 1;
}
