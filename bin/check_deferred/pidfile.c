/* SPDX-License-Identifier: MIT */
#include "pidfile.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILL_WAIT_MS 5000 /* from SIGKILL to giving up: a process may be stuck in the kernel */
#define TAKEOVERS_MAX 1000
#define SILENT_MIN_MS 5000   /* however short the lease */
#define SILENT_GRACE_MS 1000 /* for one that shows no sign of life */

static enum pidfile_result pidfile_refuse(struct deferred_error *err, const char *path, const char *why,
					  const char *remedy)
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
		return pidfile_refuse(err, "...", "the path is too long", "use a shorter one");
	if (stat(dirname(copy), &st) < 0) {
		error_errno(err, DEFERRED_ESYSTEM, "pidfile", "cannot create pidfile '%s'", path);
		error_hint(err, "make the folder, or name another file with --pidfile");
		return PIDFILE_CANNOT;
	}
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return pidfile_refuse(err, path, "its folder belongs to another user",
				      "use a folder of your own, or /run");
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		return pidfile_refuse(err, path, "its folder is writable by others", "chmod go-w the folder");
	return PIDFILE_HELD;
}

static enum pidfile_result open_checked(struct pidfile *p, const char *path, struct deferred_error *err)
{
	struct stat st;

	/* Not blocking: a FIFO put there must not hold us. */
	p->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	if (p->fd < 0) {
		if (errno == ELOOP)
			return pidfile_refuse(err, path, "it is a symbolic link", "remove it");
		if (errno == EISDIR || errno == ENXIO)
			return pidfile_refuse(err, path, "it is not a regular file",
					      "name another file with --pidfile");
		error_errno(err, DEFERRED_ESYSTEM, "pidfile", "cannot open pidfile '%s'", path);
		error_hint(err, "name a file you may write with --pidfile");
		return errno == EACCES && access(path, F_OK) == 0 ? PIDFILE_REFUSED : PIDFILE_CANNOT;
	}
	if (fstat(p->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return pidfile_refuse(err, path, "it is not a regular file", "name another file with --pidfile");
	if (st.st_uid != geteuid())
		return pidfile_refuse(err, path, "it belongs to another user",
				      "remove it, or name another file with --pidfile");
	if (st.st_nlink != 1)
		return pidfile_refuse(err, path, "it has several names (hard links)", "remove it");
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return pidfile_refuse(err, path, "it is writable by others", "chmod go-w the file");
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

/* End the process that holds the lock, if it still does. Returns false when it cannot be ended. */
static bool end_holder(struct pidfile *p, pid_t pid, int64_t grace_ms)
{
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

/* The number is for people. But text in the file tells the next start that this process did not end in order. Without
 * it the process does not begin. */
static int write_pid(struct pidfile *p)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	return ftruncate(p->fd, 0) == 0 && pwrite(p->fd, text, (size_t)n, 0) == n ? 0 : -1;
}

/* ---- signs of life ------------------------------------------------------------------------------ */

static struct timespec last_sign(struct pidfile *p)
{
	struct stat st;

	return fstat(p->fd, &st) == 0 ? st.st_mtim : (struct timespec){ 0 };
}

/* Since the holder showed last that it lives, in ms. */
static int64_t silent_ms(struct pidfile *p)
{
	struct timespec now, last = last_sign(p);

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)(now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000;
}

static bool is_stopped(pid_t pid)
{
	char path[64], text[512], *end = NULL;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (n > 0) {
		text[n] = '\0';
		end = strrchr(text, ')'); /* a name may hold anything */
	}
	return end && (strncmp(end, ") T", 3) == 0 || strncmp(end, ") t", 3) == 0);
}

/* The clock may have been set, or the host have slept: then the next sign comes as soon as ever. */
static bool stays_silent(struct pidfile *p)
{
	struct timespec last = last_sign(p), next = last;

	for (int ms = 0; ms < PIDFILE_ALIVE_MS + 1000 && next.tv_sec == last.tv_sec && next.tv_nsec == last.tv_nsec &&
			 holder(p) != 0;
	     ms += 100) {
		poll(NULL, 0, 100);
		next = last_sign(p);
	}
	return next.tv_sec == last.tv_sec && next.tv_nsec == last.tv_nsec;
}

static void name_holder(pid_t pid, char name[static 64])
{
	if (pid > 0)
		snprintf(name, 64, "another copy (pid %d)", (int)pid);
	else
		snprintf(name, 64, "another copy, in another pid namespace,");
}

/* Is it one that would be left alone for ever, or hold us up? Says so. */
static bool is_silent(struct pidfile *p, pid_t pid, const char *path, const struct pidfile_terms *terms)
{
	int64_t ms = silent_ms(p);
	bool stopped = pid > 0 && is_stopped(pid);
	char name[64];

	if (pid == 0 || ms <= terms->lease_ms || ms <= SILENT_MIN_MS ||
	    (!stopped && (terms->replace || !stays_silent(p))))
		return false;
	name_holder(pid, name);
	log_line(LOG_L_WARNING,
		 "%s holds '%s' and has shown no sign of life for %.0f s, which is longer than its lease%s; it is %s",
		 name, path, (double)ms / 1000, stopped ? ": it is stopped, as by SIGSTOP" : "",
		 pid > 0 ? "replaced" : "out of reach");
	return true;
}

/* The lock of a removed file locks nothing. */
static bool still_there(struct pidfile *p, const char *path)
{
	struct stat ours, named;

	if (fstat(p->fd, &ours) < 0 || stat(path, &named) < 0)
		return false;
	p->device = ours.st_dev;
	p->inode = ours.st_ino;
	return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

static enum pidfile_result say_busy(struct pidfile *p, const char *path, struct deferred_error *err)
{
	pid_t pid = holder(p);
	char name[64];

	name_holder(pid, name);
	error_set(err, DEFERRED_ESYSTEM, "pidfile", "%s holds '%s'", name, path);
	if (pid < 0)
		error_hint(err, "end that copy where it runs, for example in its container; or let both run, with "
				"another --pidfile");
	return PIDFILE_BUSY;
}

/*
 * The kernel's name for the time since it was booted. Where it cannot be read, a number that nobody else has: then
 * leases are waited for.
 */
static void name_boot(char boot[static 37])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	uint64_t number = 0;

	boot[0] = '\0';
	if (f && !fgets(boot, 37, f))
		boot[0] = '\0';
	if (f)
		fclose(f);
	if (strlen(boot) != 36 && getrandom(&number, sizeof(number), 0) == sizeof(number))
		snprintf(boot, 37, "%016llx", (unsigned long long)number);
}

static void write_mark(char mark[static PIDFILE_MARK], uint64_t device, uint64_t inode)
{
	char boot[37];

	name_boot(boot);
	snprintf(mark, PIDFILE_MARK, "#%llu.%llu@%s", (unsigned long long)device, (unsigned long long)inode, boot);
}

/* Many starts at once each end the one before; every round one process is gone. */
static enum pidfile_result lock(struct pidfile *p, const char *path, const struct pidfile_terms *terms,
				struct deferred_error *err)
{
	struct stat st;

	for (int round = 0; !try_lock(p); round++) {
		pid_t pid = holder(p);

		p->silent = is_silent(p, pid, path, terms);
		if ((!terms->replace && !p->silent) || round == TAKEOVERS_MAX ||
		    !end_holder(p, pid, p->silent ? SILENT_GRACE_MS : terms->grace_ms))
			return say_busy(p, path, err);
	}
	p->silent = false;
	p->unclean = fstat(p->fd, &st) == 0 && st.st_size > 0;
	return PIDFILE_HELD;
}

enum pidfile_result pidfile_take(struct pidfile *p, const char *path, const struct pidfile_terms *terms,
				 struct deferred_error *err)
{
	enum pidfile_result rc;

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	p->path = path;
	rc = check_folder(path, err);
	if (rc == PIDFILE_HELD)
		rc = open_checked(p, path, err);
	if (rc == PIDFILE_HELD)
		rc = lock(p, path, terms, err);
	if (rc == PIDFILE_HELD && !still_there(p, path)) {
		error_set(err, DEFERRED_ESYSTEM, "pidfile", "pidfile '%s' was replaced while it was being locked",
			  path);
		rc = PIDFILE_BUSY;
	}
	if (rc == PIDFILE_HELD && write_pid(p) < 0) {
		error_errno(err, DEFERRED_ESYSTEM, "pidfile", "cannot write pidfile '%s'", path);
		error_hint(err, "free space on the disk, or name another file with --pidfile");
		rc = PIDFILE_CANNOT;
	}
	if (rc != PIDFILE_HELD) {
		if (p->fd >= 0)
			close(p->fd);
		p->fd = -1;
		return rc;
	}
	write_mark(p->mark, p->device, p->inode);
	p->held = true;
	return rc;
}

void pidfile_alive(struct pidfile *p)
{
	if (p->fd < 0)
		return;
	if (!p->missed && !still_there(p, p->path)) {
		p->missed = true;
		log_line(LOG_L_ERROR,
			 "pidfile '%s' has been %s while this copy runs: the next start will run as well; "
			 "hint: to stop this copy, run: kill %d",
			 p->path, access(p->path, F_OK) < 0 ? "removed" : "replaced", (int)getpid());
	}
	futimens(p->fd, NULL);
}

/* Opens nothing but a regular file, and waits for no server or automounter: the path may be an attacker's. */
static int open_marked(const struct pidfile *p, const char *path, const char *mark)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS };
	int place = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)), fd = -1;
	char own[PIDFILE_MARK], again[40];
	struct stat st;

	if (place < 0)
		return -1;
	/* Our own is not opened: closing it would drop our lock. */
	if (fstat(place, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_dev == p->device && st.st_ino == p->inode)) {
		write_mark(own, st.st_dev, st.st_ino);
		snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
		if (strcmp(own, mark) == 0)
			fd = open(again, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
	close(place);
	return fd;
}

bool pidfile_is_left(const struct pidfile *p, const char *instance)
{
	const char *path = strchr(instance, '/'), *mark = strrchr(instance, '#');
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char name[PATH_MAX];
	bool left;
	int fd;

	if (!path || !mark || mark < path || mark - path >= (ptrdiff_t)sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(mark - path), path);
	fd = open_marked(p, name, mark);
	if (fd < 0)
		return false;
	left = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
	close(fd);
	return left;
}

void pidfile_release(struct pidfile *p)
{
	if (p->fd < 0)
		return;
	if (ftruncate(p->fd, 0) < 0)
		log_line(LOG_L_WARNING, "pidfile: cannot be emptied: %s", strerror(errno));
	close(p->fd);
	p->fd = -1;
}
