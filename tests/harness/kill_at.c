/* SPDX-License-Identifier: MIT */
/*
 * kill_at - preloaded into a program, it kills the program by SIGKILL at a call: $KILL_AT is "fsync 2" for the second
 * call of fsync(), before anything is done. Of writev() half of the first text is written before.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static char call[32];
static int left;

__attribute__((constructor)) static void read_call(void)
{
	const char *at = getenv("KILL_AT");

	if (!at || sscanf(at, "%31s %d", call, &left) != 2)
		abort(); /* a test must not go on without what it is about */
}

static int is_met(const char *name)
{
	return strcmp(name, call) == 0 && --left == 0;
}

static void *next_or_die(const char *name)
{
	if (is_met(name))
		kill(getpid(), SIGKILL);
	return dlsym(RTLD_NEXT, name);
}

int fsync(int fd)
{
	int (*next)(int);

	*(void **)&next = next_or_die("fsync");
	return next(fd);
}

int renameat(int from, const char *old, int to, const char *new)
{
	int (*next)(int, const char *, int, const char *);

	*(void **)&next = next_or_die("renameat");
	return next(from, old, to, new);
}

int unlinkat(int folder, const char *name, int flags)
{
	int (*next)(int, const char *, int);

	*(void **)&next = next_or_die("unlinkat");
	return next(folder, name, flags);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
	ssize_t (*next)(int, const struct iovec *, int);

	if (is_met("writev")) {
		if (write(fd, parts[0].iov_base, parts[0].iov_len / 2) >= 0)
			kill(getpid(), SIGKILL);
		abort();
	}
	*(void **)&next = dlsym(RTLD_NEXT, "writev");
	return next(fd, parts, n);
}
