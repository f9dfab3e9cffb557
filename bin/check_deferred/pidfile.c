/* SPDX-License-Identifier: MIT */
#include "pidfile.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILL_WAIT_MS 5000 /* from SIGKILL to giving up: a process may be stuck in the kernel */
#define TAKEOVERS_MAX 1000

static enum pidfile_result refuse(struct deferred_error *err, const char *path, const char *why, const char *remedy)
{
	error_set(err, DEFERRED_ESYSTEM, "pidfile", "pidfile '%s' refused: %s", path, why);
	error_hint(err, "%s", remedy);
	return PIDFILE_REFUSED;
}

/* In a folder where others may put files, they can put a file of ours aside too. Sticky folders are fine. */
static enum pidfile_result check_folder(const char *path, struct deferred_error *err)
{
	char copy[PATH_MAX];
	struct stat st;

	if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
		return refuse(err, "...", "the path is too long", "use a shorter one");
	if (stat(dirname(copy), &st) < 0) {
		error_errno(err, DEFERRED_ESYSTEM, "pidfile", "cannot create pidfile '%s'", path);
		error_hint(err, "make the folder, or name another file with --pidfile");
		return PIDFILE_CANNOT;
	}
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return refuse(err, path, "its folder belongs to another user", "use a folder of your own, or /run");
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return refuse(err, path, "its folder is writable by others", "chmod go-w the folder");
	return PIDFILE_HELD;
}

static enum pidfile_result open_checked(struct pidfile *p, const char *path, struct deferred_error *err)
{
	struct stat st;

	/* Not blocking: a FIFO put there must not hold us. */
	p->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	if (p->fd < 0) {
		if (errno == ELOOP)
			return refuse(err, path, "it is a symbolic link", "remove it");
		if (errno == EISDIR || errno == ENXIO)
			return refuse(err, path, "it is no regular file", "name another file with --pidfile");
		error_errno(err, DEFERRED_ESYSTEM, "pidfile", "cannot open pidfile '%s'", path);
		error_hint(err, "name a file you may write with --pidfile");
		return errno == EACCES && access(path, F_OK) == 0 ? PIDFILE_REFUSED : PIDFILE_CANNOT;
	}
	if (fstat(p->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return refuse(err, path, "it is no regular file", "name another file with --pidfile");
	if (st.st_uid != geteuid())
		return refuse(err, path, "it belongs to another user", "remove it, or name another file with --pidfile");
	if (st.st_nlink != 1)
		return refuse(err, path, "it has several names (hard links)", "remove it");
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return refuse(err, path, "it is writable by others", "chmod go-w the file");
	p->unclean = st.st_size > 0;
	return PIDFILE_HELD;
}

static bool try_lock(struct pidfile *p)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(p->fd, F_SETLK, &lock) == 0;
}

/* Pid of the process that holds the lock; 0: nobody does; -1: one that we cannot see. */
static pid_t holder(struct pidfile *p)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(p->fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid > 0 ? lock.l_pid : -1;
}

static bool wait_gone(int pidfd, int64_t limit_ms)
{
	struct pollfd fd = { pidfd, POLLIN, 0 };
	uint64_t end = clock_ns() + (uint64_t)limit_ms * NS_PER_MS, now;

	while ((now = clock_ns()) < end)
		if (poll(&fd, 1, (int)((end - now) / NS_PER_MS) + 1) > 0)
			return true;
	return poll(&fd, 1, 0) > 0;
}

/* SIGTERM, marked as coming from a successor. */
static int send_term(int pidfd)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = SIGTERM;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = WORKER_SUPERSEDED;
	return (int)syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, &info, 0);
}

/* End the process that holds the lock. Returns false when it cannot be ended. */
static bool end_holder(struct pidfile *p, int64_t grace_ms)
{
	pid_t pid = holder(p);
	bool gone = true;
	int pidfd;

	if (pid == 0)
		return true;
	if (pid < 0)
		return false; /* it lives in another pid namespace */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return errno == ESRCH;
	/* The number may have been recycled before the pidfd pinned it: is that process the holder now? */
	if (holder(p) == pid) {
		if (send_term(pidfd) < 0 && errno != ESRCH) {
			gone = false;
		} else if (!wait_gone(pidfd, grace_ms)) {
			syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
			gone = wait_gone(pidfd, KILL_WAIT_MS);
		}
		p->replaced |= gone;
	}
	close(pidfd);
	return gone;
}

/* The number is for people, but that there is something in the file tells the next start that we did not leave in
 * order: without it we do not begin. */
static int write_pid(struct pidfile *p)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	return ftruncate(p->fd, 0) == 0 && pwrite(p->fd, text, (size_t)n, 0) == n ? 0 : -1;
}

/* Who locks a file that has been removed locks nothing. */
static bool still_there(struct pidfile *p, const char *path)
{
	struct stat ours, named;

	if (fstat(p->fd, &ours) < 0 || stat(path, &named) < 0)
		return false;
	p->device = ours.st_dev;
	p->inode = ours.st_ino;
	return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

enum pidfile_result pidfile_take(struct pidfile *p, const char *path, bool replace, int64_t grace_ms, struct deferred_error *err)
{
	enum pidfile_result rc;

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	rc = check_folder(path, err);
	if (rc == PIDFILE_HELD)
		rc = open_checked(p, path, err);
	if (rc == PIDFILE_HELD && !try_lock(p)) {
		/* Many starts at once each end the one before; every round one process is gone. */
		int round = 0;
		bool ended = replace;

		while (ended && round++ < TAKEOVERS_MAX && (ended = end_holder(p, grace_ms)) && !try_lock(p))
			;
		if (!ended || round > TAKEOVERS_MAX) {
			pid_t pid = holder(p);

			error_set(err, DEFERRED_ESYSTEM, "pidfile", "another copy (pid %d) holds '%s'", (int)pid, path);
			rc = PIDFILE_BUSY;
		} else {
			struct stat st;

			p->unclean = fstat(p->fd, &st) == 0 && st.st_size > 0;
		}
	}
	if (rc == PIDFILE_HELD && !still_there(p, path)) {
		error_set(err, DEFERRED_ESYSTEM, "pidfile", "pidfile '%s' was replaced while it was being locked", path);
		rc = PIDFILE_BUSY;
	}
	if (rc == PIDFILE_HELD && write_pid(p) < 0) {
		error_errno(err, DEFERRED_ESYSTEM, "pidfile", "cannot write pidfile '%s'", path);
		error_hint(err, "is the disk full?");
		rc = PIDFILE_CANNOT;
	}
	if (rc != PIDFILE_HELD) {
		if (p->fd >= 0)
			close(p->fd);
		p->fd = -1;
		return rc;
	}
	p->held = true;
	return rc;
}

void pidfile_release(struct pidfile *p)
{
	if (p->fd < 0)
		return;
	if (ftruncate(p->fd, 0) < 0)
		log_line(LOG_L_WARNING, "cannot empty the pidfile: %s", strerror(errno));
	close(p->fd);
	p->fd = -1;
}
