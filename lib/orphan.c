/* SPDX-License-Identifier: MIT */
#include "orphan.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SWEEP_MS 100 /* so long a sweep waits for what it killed to die */

static bool is_known(pid_t pid, const pid_t *known, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (known[i] == pid)
			return true;
	return false;
}

/* The children of this (single-threaded) process, as the kernel lists them. */
static size_t list_children(pid_t *pids, size_t max)
{
	char path[64];
	FILE *f;
	size_t n = 0;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (n < max && fscanf(f, "%d", &pid) == 1)
		pids[n++] = (pid_t)pid;
	fclose(f);
	return n;
}

/* Children this process already had: those of the shell, say, that became us by exec. Pids, of those that live. */
static pid_t inherited[256];
static size_t inherited_len;

void orphan_init(void)
{
	inherited_len = list_children(inherited, sizeof(inherited) / sizeof(inherited[0]));
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* A number is free to be used again when its child has been reaped. */
static void forget_inherited(const pid_t *children, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < inherited_len; i++)
		if (is_known(inherited[i], children, n))
			inherited[left++] = inherited[i];
	inherited_len = left;
}

/* Children that did not die when they were killed, for they are stuck in the kernel. */
static pid_t stuck[256];
static size_t stuck_len;

/* Wait for one that was killed, but not for ever, and for one that is stuck not at all: a later sweep comes upon it again. */
static bool reap(pid_t pid, int *patience_ms)
{
	pid_t got;

	if (is_known(pid, stuck, stuck_len))
		return waitpid(pid, NULL, WNOHANG) != 0;

	while ((got = waitpid(pid, NULL, WNOHANG)) == 0 && *patience_ms > 0) {
		poll(NULL, 0, 1);
		--*patience_ms;
	}
	if (got == 0 && stuck_len < sizeof(stuck) / sizeof(stuck[0]))
		stuck[stuck_len++] = pid;
	return got != 0;
}

void orphan_sweep(const pid_t *known, size_t known_len)
{
	pid_t pids[1024];
	int patience_ms = SWEEP_MS;

	/* A process that forks while it is killed hands its child to us: look again until none is left. */
	for (int round = 0; round < 100; round++) {
		size_t n = list_children(pids, sizeof(pids) / sizeof(pids[0])), killed = 0;

		if (n < sizeof(pids) / sizeof(pids[0]) && n > 0)
			forget_inherited(pids, n);
		for (size_t i = 0; i < n; i++) {
			if (is_known(pids[i], known, known_len) || is_known(pids[i], inherited, inherited_len))
				continue;
			kill(pids[i], SIGKILL); /* a child of ours: its pid is not reused before we reap it */
			killed += reap(pids[i], &patience_ms);
		}
		if (killed == 0)
			return;
	}
}

/* Is it in the environment? That of a runner, and of what it forks, only root can read: it stands in their arguments too, behind
 * their name. file: of the two; first: what it must begin with. */
static bool has_cookie(const char *pid, const char *file, const char *first, const char *cookie)
{
	char path[64], buf[65536];
	size_t cookie_len = strlen(cookie) + 1;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf));
	close(fd);
	if (first && (n < (ssize_t)strlen(first) + 1 || memcmp(buf, first, strlen(first) + 1) != 0))
		return false;
	for (ssize_t at = 0; n - at >= (ssize_t)cookie_len;) {
		char *end = memchr(buf + at, '\0', (size_t)(n - at));

		if (memcmp(buf + at, cookie, cookie_len) == 0)
			return true;
		if (!end)
			break;
		at = end - buf + 1;
	}
	return false;
}

void orphan_sweep_instance(const char *instance)
{
	char cookie[ORPHAN_COOKIE_SIZE];
	struct dirent *e;
	DIR *proc = opendir("/proc");

	snprintf(cookie, sizeof(cookie), "DEFERRED_INSTANCE=%s", instance);
	while (proc && (e = readdir(proc))) {
		int pid = atoi(e->d_name), fd;

		if (!isdigit((unsigned char)e->d_name[0]) || pid == getpid())
			continue;
		/* The descriptor pins the process: what is read and what is killed are the same. */
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (fd < 0)
			continue;
		if (has_cookie(e->d_name, "environ", NULL, cookie) || has_cookie(e->d_name, "cmdline", "deferred_runner", cookie))
			syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		close(fd);
	}
	if (proc)
		closedir(proc);
}
