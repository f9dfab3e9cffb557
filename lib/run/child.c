/* SPDX-License-Identifier: MIT */
#include "run/child.h"

#include "base/clock.h"
#include "run/cgroup.h"
#include "run/namespace.h"
#include "run/orphan.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READS_MAX 17            /* reads of 4 KiB that empty a pipe of the usual size and reach its end */
#define READ_NS (5 * NS_PER_MS) /* for what one runner prints in a turn, and the same for what it sends */

/* ---- its environment -------------------------------------------------------------------------- */

/* Functions get what finds programs and reads time and text, and nothing of ours. */
#define OWN_NAMES 4 /* the first names of kept[]: they name the user, who is not root if the runner switches users */
static char **environment(const struct runner_setup *setup, char instance[static ORPHAN_COOKIE_SIZE])
{
	static const char *const kept[] = {
		"HOME=",
		"LOGNAME=",
		"SHELL=",
		"USER=",
		"LANG=",
		"LC_ALL=",
		"LC_CTYPE=",
		"TZ=",
#if defined(__SANITIZE_ADDRESS__)
		"ASAN_OPTIONS=",
		"UBSAN_OPTIONS=",
		"LSAN_OPTIONS=",
#endif
	};
	static char *env[sizeof(kept) / sizeof(kept[0]) + OWN_NAMES + 4];
	static char own[OWN_NAMES][600]; /* of the user switched to */
	static char term[128];
	const char *values[OWN_NAMES] = { setup->home, setup->user, setup->shell, setup->user };
	size_t n = 0;

	for (char **e = environ; *e; e++)
		for (size_t i = setup->switch_user ? OWN_NAMES : 0; i < sizeof(kept) / sizeof(kept[0]); i++)
			if (strncmp(*e, kept[i], strlen(kept[i])) == 0 && n < sizeof(kept) / sizeof(kept[0]))
				env[n++] = *e;
	for (size_t i = 0; i < OWN_NAMES && setup->switch_user; i++) {
		snprintf(own[i], sizeof(own[i]), "%s%s", kept[i], values[i]);
		env[n++] = own[i];
	}
	/* Only folders of root: others may own the folders in the PATH that we were started with. */
	env[n++] = (char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	snprintf(instance, ORPHAN_COOKIE_SIZE, "DEFERRED_INSTANCE=%s", setup->instance);
	env[n++] = instance;
	snprintf(term, sizeof(term), "TERM=%s", setup->tool && getenv("TERM") ? getenv("TERM") : "");
	if (setup->tool)
		env[n++] = term;
	env[n] = NULL;
	return env;
}

/* ---- in the child ----------------------------------------------------------------------------- */

/* The descriptors that the child takes over. */
struct ends {
	int sock, board, output, stop;
};

static void become_user(const struct runner_setup *setup)
{
	if (initgroups(setup->user, setup->gid) < 0 || setgid(setup->gid) < 0 || setuid(setup->uid) < 0)
		_exit(126);
	umask(022);
	/* Not the folder that root was in, which this user may be unable to read. */
	if (chdir(setup->home) < 0 && chdir("/") < 0)
		_exit(126);
}

/* A tool talks to whoever uses the terminal. As a background process it would be stopped when it reads. */
static void take_terminal(pid_t parent)
{
	if (tcgetpgrp(0) != getpgid(parent))
		return;
	signal(SIGTTOU, SIG_IGN);
	tcsetpgrp(0, getpid());
	signal(SIGTTOU, SIG_DFL);
}

/* Give each end the number that the runner expects, and close all other descriptors. */
static void place_ends(struct ends ends, bool tool)
{
	/* Above the final numbers first, because one end may lie on the number of another. */
	int null_fd = fcntl(tool ? 0 : open("/dev/null", O_RDONLY), F_DUPFD, 10), sock = fcntl(ends.sock, F_DUPFD, 10),
	    board = fcntl(ends.board, F_DUPFD, 10), output = fcntl(tool ? 2 : ends.output, F_DUPFD, 10),
	    stop = fcntl(ends.stop, F_DUPFD, 10);

	if (dup2(null_fd, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 || dup2(sock, FRAME_SOCKET_FD) < 0 ||
	    dup2(board, FRAME_BOARD_FD) < 0 || dup2(stop, FRAME_STOP_FD) < 0)
		_exit(126);
	syscall(SYS_close_range, (unsigned int)FRAME_STOP_FD + 1, ~0u, 0u);
}

/* Between fork and exec only calls that are safe there. Ends in exec or _exit. */
static void become_runner(const struct runner_setup *setup, char **env, const char *instance, pid_t parent, int cgroup,
			  bool namespace, struct ends ends)
{
	char ppid[16], build[64], *argv[RUNNER_TOOL_MAX + 5];
	const char *program = setup->tool ? setup->tool[0] : setup->program;
	size_t n = 0;
	sigset_t none;
	int oom;

	/* All signals have been blocked since before the fork, so that no handler of ours runs in the child. */
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	if (cgroup_enter(cgroup) < 0) { /* while we may: then nothing it will start is elsewhere */
		dprintf(ends.output, "cannot enter its control group: %s\n", strerror(errno));
		_exit(126);
	}
	if (namespace)
		namespace_enter(ends.sock);
	if (setup->switch_user)
		become_user(setup);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* after setuid, which clears it */
	if (getppid() != parent)
		_exit(126);
	oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (oom >= 0 && write(oom, "500", 3) < 0)
		oom = -1; /* only a wish */
	if (setup->tool)
		take_terminal(parent);
	place_ends(ends, setup->tool);
	snprintf(ppid, sizeof(ppid), "%d", setup->tool ? 0 : (int)parent);
	snprintf(build, sizeof(build), FRAME_BUILD_FORMAT, FRAME_BUILD_ARGS);
	for (; setup->tool && setup->tool[n] && n < RUNNER_TOOL_MAX; n++)
		argv[n] = (char *)setup->tool[n];
	argv[n] = (char *)(n > 0 ? setup->program : "deferred_runner");
	argv[n + 1] = ppid;
	argv[n + 2] = build;
	/* The arguments have the instance too: they can be read even of a process that nobody may look into. */
	argv[n + 3] = (char *)instance;
	argv[n + 4] = NULL;
	if (setup->tool)
		execvpe(program, argv, env); /* it is found as this process would find it */
	else
		execve(program, argv, env);
	dprintf(2, "cannot execute '%s': %s\n", program, strerror(errno));
	_exit(127);
}

/* ---- in the parent ---------------------------------------------------------------------------- */

/* Each runner gets its share of what all of them may have. */
static int make_group(const struct config *config, struct deferred_error *err)
{
	int64_t processes = config_int(config, "processes_limit"), share = processes / config_int(config, "runners");

	return cgroup_make(processes > 0 && share == 0 ? 1 : share, config_int(config, "memory_limit"), err);
}

static int open_ends(struct child *c, struct ends *ends, struct deferred_error *err)
{
	int sock[2] = { -1, -1 }, output[2] = { -1, -1 };

	ends->board = memfd_create("board", MFD_CLOEXEC);
	if (ends->board >= 0 && ftruncate(ends->board, sizeof(*c->board)) == 0)
		c->board = mmap(NULL, sizeof(*c->board), PROT_READ | PROT_WRITE, MAP_SHARED, ends->board, 0);
	if (c->board == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock) < 0 ||
	    pipe2(output, O_CLOEXEC) < 0 || (c->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		error_errno(err, DEFERRED_ESYSTEM, "runner",
			    "cannot start a runner\nraise the limits of open files and memory");
	c->socket = sock[0];
	c->output = output[0];
	ends->sock = sock[1];
	ends->output = output[1];
	ends->stop = c->stop;
	return c->stop < 0 ? DEFERRED_ESYSTEM : 0;
}

static void close_ends(const struct ends *ends)
{
	const int fds[] = { ends->board, ends->sock, ends->output };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int fork_child(struct child *c, const struct runner_setup *setup, struct ends ends, struct deferred_error *err)
{
	char instance[ORPHAN_COOKIE_SIZE], **env = environment(setup, instance);
	bool namespace = namespace_wanted(setup);
	pid_t parent = getpid();
	sigset_t all, mask;
	int rc;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &mask);
	c->pid = fork();
	if (c->pid == 0)
		become_runner(setup, env, instance, parent, c->cgroup, namespace, ends);
	rc = c->pid < 0 ? error_errno(err, DEFERRED_ESYSTEM, "runner",
				      "cannot fork a runner\nraise the limit of processes (ulimit -u, TasksMax)")
			: 0;
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (rc < 0)
		return rc;
	setpgid(c->pid, c->pid); /* the child does the same: one of both comes first */
	return namespace ? 1 : 0;
}

int child_start(struct child *c, const struct runner_setup *setup, struct deferred_error *err)
{
	struct ends ends = { -1, -1, -1, -1 };
	int rc;

	*c = (struct child){ .socket = -1, .output = -1, .stop = -1, .board = MAP_FAILED };
	rc = open_ends(c, &ends, err);
	if (rc == 0)
		rc = c->cgroup = make_group(setup->config, err);
	if (rc >= 0)
		rc = fork_child(c, setup, ends, err);
	close_ends(&ends);
	if (rc < 0)
		return rc;
	if (rc == 1)
		namespace_map_ids(c->pid, c->socket);
	fcntl(c->socket, F_SETFL, O_NONBLOCK);
	fcntl(c->output, F_SETFL, O_NONBLOCK);
	return 0;
}

void child_close_socket(struct child *c)
{
	if (c->socket >= 0)
		close(c->socket);
	c->socket = -1;
}

void child_close(struct child *c)
{
	cgroup_end(c->cgroup);
	child_close_socket(c);
	if (c->output >= 0)
		close(c->output);
	if (c->stop >= 0)
		close(c->stop);
	if (c->board != MAP_FAILED)
		munmap(c->board, sizeof(*c->board));
}

void child_ring(const struct child *c)
{
	static const uint64_t one = 1;

	if (write(c->stop, &one, sizeof(one)) < 0)
		return; /* it has rung already */
}

void child_kill(const struct child *c, int sig)
{
	if (!c->reaped && c->pid > 0 && kill(-c->pid, sig) < 0)
		kill(c->pid, sig); /* not yet the leader of its group */
}

bool child_may_read(const struct child *c, int reads, uint64_t began_ns)
{
	return reads < READS_MAX && (c->reaped || clock_ns() < began_ns + READ_NS);
}
