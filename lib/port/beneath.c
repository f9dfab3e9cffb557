/* SPDX-License-Identifier: MIT */
#include "port/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The path relative to the folder; NULL: it is absolute and begins with another. */
static const char *relative(const char *dir, const char *path)
{
	const char *names[] = { dir, NULL };
	char real[PATH_MAX];

	if (path[0] != '/')
		return path;
	names[1] = realpath(dir, real);
	for (size_t i = 0; i < 2 && names[i]; i++) {
		size_t len = strlen(names[i]);

		while (len > 0 && names[i][len - 1] == '/')
			len--;
		if (strncmp(path, names[i], len) == 0 && path[len] == '/')
			return path + len + strspn(path + len, "/");
	}
	return NULL;
}

static int open_in(int folder, const char *path, int flags, mode_t mode)
{
	struct open_how how = { .flags = (unsigned int)(flags | O_CLOEXEC),
				.mode = mode,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	int fd = -1;

	/* EAGAIN: something was renamed while a ".." was resolved. */
	for (int i = 0; i < 100; i++)
		if ((fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof(how))) >= 0 ||
		    (errno != EAGAIN && errno != EINTR))
			break;
	return fd;
}

static int open_folder(const char *dir)
{
	if (dir[0] == '/')
		return open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	errno = EINVAL;
	return -1;
}

static const char *reason(int code)
{
	switch (code) {
	case EXDEV:
		return "it lies outside of the folder";
	case ELOOP:
		return "it is a symbolic link";
	case ENOSYS:
		return "this kernel cannot keep a path below a folder: openat2 of Linux 5.6 is needed";
	default:
		return strerror(code);
	}
}

static int refused(int fd, int code, const char *text, const char **why)
{
	if (fd >= 0)
		close(fd);
	*why = text;
	errno = code;
	return -1;
}

int beneath_open(const char *dir, const char *path, int flags, mode_t mode, const char **why)
{
	const char *rest = relative(dir, path);
	int folder = rest ? open_folder(dir) : -1, fd, code;
	struct stat st;

	if (!rest)
		return refused(-1, EXDEV, reason(EXDEV), why);
	if (folder < 0)
		return refused(-1, errno,
			       dir[0] == '/' ? "the folder cannot be used" : "the folder is not an absolute path", why);
	/* Not waiting for who writes into a FIFO, nor getting a terminal. */
	fd = open_in(folder, rest, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
	code = errno;
	close(folder);
	if (fd < 0)
		return refused(-1, code, reason(code), why);
	if (fstat(fd, &st) < 0)
		return refused(fd, errno, "it cannot be examined", why);
	if (!S_ISREG(st.st_mode))
		return refused(fd, EINVAL, "not a regular file", why);
	if (st.st_nlink > 1)
		return refused(fd, EMLINK, "it has a second name, which may lie elsewhere (a hard link)", why);
	return fd;
}

/* ---- removing it later ------------------------------------------------------------------------ */

#define TICKET_FORMAT "//%llx:%llx:%zu:"

char *beneath_ticket(const char *dir, const char *path, int fd)
{
	const char *rest = relative(dir, path);
	struct stat st;
	char *ticket;

	if (!rest || dir[0] != '/' || strlen(dir) >= PATH_MAX || strlen(rest) >= PATH_MAX || fstat(fd, &st) < 0 ||
	    asprintf(&ticket, TICKET_FORMAT "%s/%s", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
		     strlen(dir), dir, rest) < 0)
		return NULL;
	return ticket;
}

static int remove_from(int folder, const char *name, unsigned long long dev, unsigned long long inode)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (st.st_dev == dev && st.st_ino == inode)
		return unlinkat(folder, name, 0);
	errno = ESTALE;
	return -1;
}

int beneath_redeem(const char *ticket)
{
	unsigned long long dev, inode;
	char copy[2 * PATH_MAX], *rest, *slash;
	int begin = 0, folder, parent, rc, code;
	size_t dir_len;

	if (strncmp(ticket, "//", 2) != 0)
		return unlink(ticket);
	if (sscanf(ticket, TICKET_FORMAT "%n", &dev, &inode, &dir_len, &begin) != 3 || begin == 0 ||
	    strlen(ticket + begin) >= sizeof(copy) || dir_len >= strlen(ticket + begin)) {
		errno = EINVAL;
		return -1;
	}
	strcpy(copy, ticket + begin);
	copy[dir_len] = '\0';
	rest = copy + dir_len + 1;
	if ((slash = strrchr(rest, '/')))
		*slash = '\0';
	if ((folder = open_folder(copy)) < 0)
		return -1;
	parent = open_in(folder, slash ? rest : ".", O_PATH | O_DIRECTORY, 0);
	rc = parent < 0 ? -1 : remove_from(parent, slash ? slash + 1 : rest, dev, inode);
	code = errno;
	if (parent >= 0)
		close(parent);
	close(folder);
	errno = code;
	return rc;
}
