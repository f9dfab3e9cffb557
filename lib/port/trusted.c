/* SPDX-License-Identifier: MIT */
#include "port/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 16

/* The path an open descriptor stands for, to tell people. */
static const char *fd_path(int fd, char path[PATH_MAX])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, PATH_MAX - 1);
	path[n > 0 ? n : 0] = '\0';
	return path;
}

int trusted_check_owner(int fd, const struct stat *st, unsigned int owner_uid, bool sticky_ok,
			struct deferred_error *err)
{
	char path[PATH_MAX];

	if (st->st_uid != 0 && st->st_uid != owner_uid) {
		error_set(err, DEFERRED_EPLUGIN, "plugin", "'%.300s' belongs to user %u, not to root or user %u",
			  fd_path(fd, path), (unsigned int)st->st_uid, owner_uid);
		error_hint(err, "chown root \"%.200s\"", path);
		return DEFERRED_EPLUGIN;
	}
	if (S_ISLNK(st->st_mode) || (sticky_ok && (st->st_mode & S_ISVTX)))
		return 0;
	if (st->st_mode & (S_IWGRP | S_IWOTH)) {
		error_set(err, DEFERRED_EPLUGIN, "plugin", "'%.300s' is writable by others (mode %04o)",
			  fd_path(fd, path), (unsigned int)st->st_mode & 07777);
		error_hint(err, "chmod go-w \"%.200s\"", path);
		return DEFERRED_EPLUGIN;
	}
	return 0;
}

/* Put the target of the link `fd` in front of what is left of the path. */
static int expand_link(int fd, char rest[PATH_MAX], const char *tail)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof(target));

	if (n < 0)
		return -1;
	if ((size_t)n + 1 + strlen(tail) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memmove(rest + n + 1, tail, strlen(tail) + 1);
	memcpy(rest, target, (size_t)n);
	rest[n] = '/';
	return 0;
}

int trusted_open(const char *path, unsigned int owner_uid, int *out, struct deferred_error *err)
{
	char rest[PATH_MAX] = "", name[NAME_MAX + 1];
	const char *p = rest;
	struct stat st;
	int fd = -1, next = -1, links = 0, rc = DEFERRED_ESYSTEM, failure = 0;

	if (path[0] != '/' && !getcwd(rest, sizeof(rest)))
		goto fail;
	if (strlen(rest) + 1 + strlen(path) >= sizeof(rest)) {
		errno = ENAMETOOLONG;
		goto fail;
	}
	strcat(rest, "/");
	strcat(rest, path);
	if ((fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		goto fail;
	for (;;) {
		size_t n;

		p += strspn(p, "/");
		if (fstat(fd, &st) < 0)
			goto fail;
		if ((rc = trusted_check_owner(fd, &st, owner_uid, *p != '\0', err)) < 0)
			goto out;
		rc = DEFERRED_ESYSTEM;
		if (*p == '\0')
			break;
		n = strcspn(p, "/");
		if (n >= sizeof(name)) {
			errno = ENAMETOOLONG;
			goto fail;
		}
		memcpy(name, p, n);
		name[n] = '\0';
		p += n;
		if ((next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC)) < 0 || fstat(next, &st) < 0)
			goto fail;
		if (S_ISLNK(st.st_mode)) {
			if ((rc = trusted_check_owner(next, &st, owner_uid, false, err)) < 0)
				goto out;
			rc = DEFERRED_ESYSTEM;
			if (++links > LINKS_MAX) {
				errno = ELOOP;
				goto fail;
			}
			if (expand_link(next, rest, p) < 0)
				goto fail;
			close(next);
			p = rest;
			next = openat(fd, rest[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
			if (next < 0)
				goto fail;
		}
		close(fd);
		fd = next;
		next = -1;
	}
	*out = fd;
	return 0;
fail:
	failure = errno;
out:
	if (next >= 0)
		close(next);
	if (fd >= 0)
		close(fd);
	errno = failure;
	return rc;
}

int trusted_check_program(const char *path, unsigned int owner_uid, struct deferred_error *err)
{
	int fd = -1, rc = trusted_open(path, owner_uid, &fd, err);

	if (fd >= 0)
		close(fd);
	return rc == DEFERRED_ESYSTEM ? 0 : rc;
}
