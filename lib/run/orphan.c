/* SPDX-License-Identifier: MIT */
#include "run/orphan.h"

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

/* The children that a thread has started, as the kernel lists them. */
static size_t list_children(const char *process, pid_t thread, pid_t *pids, size_t max)
{
	char path[64];
	FILE *f;
	size_t n = 0;
	int pid;

	snprintf(path, sizeof(path), "/proc/%s/task/%d/children", process, (int)thread);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (n < max && fscanf(f, "%d", &pid) == 1)
		pids[n++] = (pid_t)pid;
	fclose(f);
	return n;
}

/* Of this process, which has one thread. Where /proc is that of another pid namespace it knows no such thread of ours:
 * then there are none. */
static size_t list_own(pid_t *pids, size_t max)
{
	return list_children("self", getpid(), pids, max);
}

/* Children this process already had: those of the shell, say, that became us by exec. Pids, of those that live. */
static pid_t inherited[256];
static size_t inherited_len;

void orphan_init(void)
{
	inherited_len = list_own(inherited, sizeof(inherited) / sizeof(inherited[0]));
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

/* Wait for a killed process for a limited time, and not at all for one that is stuck. A later sweep finds it again. */
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

static pid_t parent_of(pid_t pid)
{
	char path[64], text[512], *end;
	FILE *f;
	size_t n;
	int ppid;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	end = strrchr(text, ')'); /* a name may hold anything */
	return end && sscanf(end, ") %*c %d", &ppid) == 1 ? (pid_t)ppid : 0;
}

/* The descriptor pins the process: what is looked at and what gets the signal are the same. */
static void signal_child(pid_t pid, pid_t parent, int sig)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0 && parent_of(pid) == parent)
		syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
	if (fd >= 0)
		close(fd);
}

struct family {
	pid_t pid[4096], parent[4096];
	size_t len;
};

static void stop_children(struct family *f, pid_t parent, pid_t thread)
{
	char process[16];
	pid_t found[1024];
	size_t n;

	snprintf(process, sizeof(process), "%d", (int)parent);
	n = list_children(process, thread, found, sizeof(found) / sizeof(found[0]));

	for (size_t i = 0; i < n && f->len < sizeof(f->pid) / sizeof(f->pid[0]); i++) {
		if (is_known(found[i], f->pid, f->len))
			continue;
		signal_child(found[i], parent, SIGSTOP);
		f->parent[f->len] = parent;
		f->pid[f->len++] = found[i];
	}
}

/*
 * A process that keeps forking could replace each child that is killed. A stopped process has no more children. All
 * descendants of our child are therefore stopped first, until no new one is found. They are killed before their
 * parents: on a busy machine a parent dies late, and its children would live until a later sweep finds them.
 */
static void kill_family(pid_t child)
{
	struct family f = { .pid = { child }, .parent = { getpid() }, .len = 1 };
	size_t before;

	signal_child(child, getpid(), SIGSTOP);
	do {
		before = f.len;
		for (size_t i = 0; i < f.len; i++) {
			char path[64];
			struct dirent *e;
			DIR *threads;

			snprintf(path, sizeof(path), "/proc/%d/task", (int)f.pid[i]);
			threads = opendir(path);
			while (threads && (e = readdir(threads)))
				if (isdigit((unsigned char)e->d_name[0]))
					stop_children(&f, f.pid[i], (pid_t)atoi(e->d_name));
			if (threads)
				closedir(threads);
		}
	} while (f.len > before);
	while (--f.len > 0)
		signal_child(f.pid[f.len], f.parent[f.len], SIGKILL);
}

void orphan_sweep(const pid_t *known, size_t known_len)
{
	pid_t pids[1024];
	int patience_ms = SWEEP_MS;

	/* A process that forks while it is killed hands its child to us: look again until none is left. */
	for (int round = 0; round < 100; round++) {
		size_t n = list_own(pids, sizeof(pids) / sizeof(pids[0])), killed = 0;

		if (n < sizeof(pids) / sizeof(pids[0]) && n > 0)
			forget_inherited(pids, n);
		for (size_t i = 0; i < n; i++) {
			if (is_known(pids[i], known, known_len) || is_known(pids[i], inherited, inherited_len))
				continue;
			kill_family(pids[i]);
			kill(pids[i], SIGKILL); /* a child of ours: its pid is not reused before we reap it */
			killed += reap(pids[i], &patience_ms);
		}
		if (killed == 0)
			return;
	}
}

void orphan_end(void)
{
	orphan_sweep(NULL, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* Search the environment or the arguments. Only root can read the environment of a runner and its children, so their
 * arguments have it too, after the name. The argument file says which of the two; first is the required beginning. */
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
		if (has_cookie(e->d_name, "environ", NULL, cookie) ||
		    has_cookie(e->d_name, "cmdline", "deferred_runner", cookie))
			syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		close(fd);
	}
	if (proc)
		closedir(proc);
}
