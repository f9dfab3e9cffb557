/* SPDX-License-Identifier: MIT */
#include "doctor_here.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_NS (10 * NS_PER_S)
#define BYTES_MAX (4 << 20) /* that is said in all */

/* Writes the letter and the text, which ends with its NUL. */
void doctor_tell(int fd, char letter, const char *text)
{
	char record[2048];
	size_t len = (size_t)snprintf(record, sizeof(record), "%c%s", letter, text) + 1;

	if (len > sizeof(record))
		len = sizeof(record);
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, record + at, len - at);

		if (n <= 0 && errno != EINTR)
			_exit(1);
		at += n > 0 ? (size_t)n : 0;
	}
}

static void __attribute__((noreturn)) child(struct doctor *d, doctor_child *f, int fd)
{
	const struct runner_setup *user = &d->host->user;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The output of a plugin is not part of the answer. */
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
		_exit(1);
	if (user->switch_user &&
	    (initgroups(user->user, user->gid) < 0 || setgid(user->gid) < 0 || setuid(user->uid) < 0))
		_exit(1);
	f(d, fd);
	_exit(0);
}

/* Takes in what the child says. Returns NULL, or why it has not come to its end. */
static const char *listen_to(struct doctor *d, int fd, doctor_take *take)
{
	uint64_t end = clock_ns() + LIMIT_NS;
	char buf[8192];
	size_t len = 0, all = 0;
	const char *why = NULL;

	while (!why) {
		struct pollfd p = { fd, POLLIN, 0 };
		uint64_t now = clock_ns();
		ssize_t n;
		char *nul;

		if (now >= end || poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1) == 0) {
			why = "took longer than 10 s";
			break;
		}
		n = read(fd, buf + len, sizeof(buf) - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
		if ((all += (size_t)n) > BYTES_MAX)
			why = "says more than it should";
		while (!why && (nul = memchr(buf, '\0', len))) {
			size_t used = (size_t)(nul - buf) + 1;

			if (used > 1)
				take(d, buf[0], buf + 1);
			memmove(buf, nul + 1, len -= used);
		}
		if (len == sizeof(buf))
			why = "says more than it should";
	}
	return why;
}

const char *doctor_in_child(struct doctor *d, doctor_child *f, doctor_take *take)
{
	static char died[64];
	int fds[2], status = 0;
	const char *why;
	pid_t pid;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return strerror(errno);
	if ((pid = fork()) < 0) {
		close(fds[0]);
		close(fds[1]);
		return strerror(errno);
	}
	if (pid == 0) {
		close(fds[0]);
		child(d, f, fds[1]);
	}
	close(fds[1]);
	why = listen_to(d, fds[0], take);
	close(fds[0]);
	if (why)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (why || status == 0)
		return why;
	if (WIFSIGNALED(status))
		snprintf(died, sizeof(died), "died of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(died, sizeof(died), "ended the process with exit code %d", WEXITSTATUS(status));
	return died;
}
