/* SPDX-License-Identifier: MIT */
#include "port/spool.h"

#include "port/beneath.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SPOOL_HEAD "deferred spool 1 "
#define REFUSED "refused"
#define NAME_SIZE (SPOOL_ID_SIZE + sizeof(".reason"))
#define ID_LEN (SPOOL_ID_SIZE - 1)
#define SWEEP_S 3600
#define KNOWN_MS (INT64_C(29) * 86400 * 1000) /* a day less than sql/functions/spool/__spool_some.sql has */

static const char spool_hint[] = "install -d -m 700 -o USER FOLDER; of several users: -m 3770 -g GROUP";

static int spool_failed(const struct spool *s, const char *what, struct deferred_error *err)
{
	error_errno(err, DEFERRED_ESYSTEM, "spool", "spool '%.200s': %s", s->path, what);
	error_hint(err, errno == ENOSPC || errno == EDQUOT || errno == EFBIG
				? "free space on its file system, or raise the limit"
				: spool_hint);
	return DEFERRED_ESYSTEM;
}

/* ---- ids -------------------------------------------------------------------------------------- */

static int64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int make_id(char id[SPOOL_ID_SIZE])
{
	uint64_t ms = (uint64_t)wall_ms();
	unsigned char b[16];

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return -1;
	for (int i = 0; i < 6; i++)
		b[i] = (unsigned char)(ms >> (40 - 8 * i));
	b[6] = (b[6] & 0x0f) | 0x70;
	b[8] = (b[8] & 0x3f) | 0x80;
	for (int i = 0, at = 0; i < 16; i++)
		at += snprintf(id + at, SPOOL_ID_SIZE - (size_t)at,
			       i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
	return 0;
}

/* The time of a name of ours; -1: it is another name. */
static int64_t time_of(const char *name, const char *suffix)
{
	int64_t ms = 0;

	for (size_t i = 0; i < ID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? name[i] != '-' : !name[i] || !strchr("0123456789abcdef", name[i]))
			return -1;
		if (!dash && i < 13)
			ms = ms << 4 | (name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
	}
	return name[14] == '7' && strcmp(name + ID_LEN, suffix) == 0 ? ms : -1;
}

static const char *name_of(char name[NAME_SIZE], const char *id, const char *suffix)
{
	snprintf(name, NAME_SIZE, "%s%s", id, suffix);
	return name;
}

/* ---- the folder ------------------------------------------------------------------------------- */

/* In a folder of another user, or one that is not sticky, somebody else could replace what we wrote. */
static int spool_folder(int at, const char *path, const char **why)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	*why = NULL;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		*why = "it cannot be examined";
	else if (st.st_uid != 0 && st.st_uid != geteuid())
		*why = "the folder belongs to another user, who is not root";
	else if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))
		*why = "others can write in the folder, and it is not sticky";
	if (!*why)
		return fd;
	close(fd);
	return -1;
}

int spool_open(struct spool *s, const char *path, struct deferred_error *err)
{
	const char *why = NULL;

	*s = (struct spool){ .path = path, .fd = -1 };
	if (path[0] == '/')
		s->fd = spool_folder(AT_FDCWD, path, &why);
	else
		why = "it is not an absolute path";
	if (s->fd >= 0)
		return 0;
	if (!why)
		return spool_failed(s, "cannot use the folder", err);
	error_set(err, DEFERRED_ESYSTEM, "spool", "spool '%.200s': %s", path, why);
	error_hint(err, "%s", spool_hint);
	return DEFERRED_ESYSTEM;
}

void spool_close(struct spool *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* ---- writing ---------------------------------------------------------------------------------- */

static int write_all(int fd, struct iovec *part, int n)
{
	while (n > 0) {
		ssize_t done = writev(fd, part, n);

		if (done < 0 && errno != EINTR)
			return -1;
		for (; n > 0 && done >= (ssize_t)part->iov_len; part++, n--)
			done -= (ssize_t)part->iov_len;
		if (n > 0 && done > 0) {
			part->iov_base = (char *)part->iov_base + done;
			part->iov_len -= (size_t)done;
		}
	}
	return 0;
}

static struct iovec part_of(const char *text)
{
	return (struct iovec){ (void *)(uintptr_t)text, strlen(text) };
}

/* A new file with these texts, on disk. -1: errno, and no file. */
static int write_new(int folder, const char *name, struct iovec *parts, int n)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), rc, code;

	if (fd < 0)
		return -1;
	rc = write_all(fd, parts, n);
	if (rc == 0)
		rc = fsync(fd);
	code = errno;
	if (close(fd) < 0 && rc == 0) {
		rc = -1;
		code = errno;
	}
	if (rc < 0)
		unlinkat(folder, name, 0);
	errno = code;
	return rc;
}

int spool_append(struct spool *s, const char *database, const char *job, char id[SPOOL_ID_SIZE],
		 struct deferred_error *err)
{
	struct iovec parts[] = { part_of(SPOOL_HEAD), part_of(database), part_of("\n"), part_of(job), part_of("\n") };
	char fresh[NAME_SIZE], name[NAME_SIZE];
	int code;

	if (strlen(database) + strlen(job) > SPOOL_ENTRY_MAX - 100) {
		errno = EFBIG;
		return spool_failed(s, "cannot keep the job", err);
	}
	if (make_id(id) < 0 ||
	    write_new(s->fd, name_of(fresh, id, ".new"), parts, (int)(sizeof(parts) / sizeof(parts[0]))) < 0)
		return spool_failed(s, "cannot keep the job", err);
	if (renameat(s->fd, fresh, s->fd, name_of(name, id, ".job")) == 0 && fsync(s->fd) == 0)
		return 0;
	code = errno;
	unlinkat(s->fd, fresh, 0);
	unlinkat(s->fd, name, 0);
	errno = code;
	return spool_failed(s, "cannot keep the job", err);
}

/* ---- listing ---------------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
	return memcmp(a, b, ID_LEN);
}

static bool add_id(struct spool_list *l, size_t *cap, const char *id)
{
	if (l->n == *cap) {
		size_t more = *cap * 2 + 64;
		char(*ids)[SPOOL_ID_SIZE] = realloc(l->ids, more * sizeof(*ids));

		if (!ids)
			return false;
		l->ids = ids;
		*cap = more;
	}
	memcpy(l->ids[l->n], id, ID_LEN);
	l->ids[l->n++][ID_LEN] = '\0';
	return true;
}

/* fd is closed. */
static int list_folder(int fd, struct spool_list *l)
{
	int64_t now = wall_ms(), oldest = now;
	DIR *dir = fdopendir(fd);
	struct dirent *e;
	size_t cap = 0;
	struct stat st;

	if (!dir) {
		close(fd);
		return -1;
	}
	for (errno = 0; (e = readdir(dir)); errno = 0) {
		int64_t ms = time_of(e->d_name, ".job");

		if (ms < 0 || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (!S_ISREG(st.st_mode))
			l->strange++;
		else if (st.st_uid != geteuid())
			l->others++;
		else if (!add_id(l, &cap, e->d_name))
			break;
		oldest = ms < oldest ? ms : oldest;
	}
	l->oldest_ms = now - oldest;
	if (errno == 0 && l->n > 0)
		qsort(l->ids, l->n, sizeof(*l->ids), compare_entries);
	return closedir(dir) < 0 || errno ? -1 : 0;
}

int spool_list(struct spool *s, bool refused, struct spool_list *l, struct deferred_error *err)
{
	const char *why;
	int fd;

	*l = (struct spool_list){ 0 };
	fd = spool_folder(s->fd, refused ? REFUSED : ".", &why);
	if (refused && fd < 0 && !why && errno == ENOENT)
		return 0;
	if (fd >= 0 && list_folder(fd, l) == 0)
		return 0;
	spool_list_free(l);
	return spool_failed(s, refused ? "cannot read the folder " REFUSED : "cannot read the folder", err);
}

void spool_list_free(struct spool_list *l)
{
	free(l->ids);
	*l = (struct spool_list){ 0 };
}

int spool_look(const char *path, struct spool_figures *f, struct deferred_error *err)
{
	struct spool_list l = { 0 }, refused = { 0 };
	struct spool s;
	int rc = spool_open(&s, path, err);

	if (rc == 0)
		rc = spool_list(&s, false, &l, err);
	if (rc == 0)
		rc = spool_list(&s, true, &refused, err);
	*f = (struct spool_figures){ l.n + l.others, l.n, refused.n + refused.others, l.oldest_ms / 1000 };
	spool_list_free(&l);
	spool_list_free(&refused);
	spool_close(&s);
	return rc;
}

/* ---- one entry -------------------------------------------------------------------------------- */

static enum spool_read read_open(int fd, char **text, size_t *len, const char **why)
{
	struct stat st;
	size_t size;

	if (fstat(fd, &st) < 0 || st.st_uid != geteuid())
		return *why = "it is a file of another user", SPOOL_WRONG;
	if ((size_t)st.st_size > SPOOL_ENTRY_MAX)
		return *why = "it has more than 64 MiB", SPOOL_WRONG;
	size = (size_t)st.st_size;
	*text = malloc(size + 1);
	if (!*text)
		return *why = "out of memory", SPOOL_FAILED;
	for (*len = 0; *len < size;) {
		ssize_t n = read(fd, *text + *len, size - *len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return *why = strerror(errno), SPOOL_FAILED;
		if (n == 0)
			break;
		*len += (size_t)n;
	}
	(*text)[*len] = '\0';
	return SPOOL_READ;
}

enum spool_read spool_read(struct spool *s, const char *id, char **text, const char **database, const char **job,
			   const char **why)
{
	char name[NAME_SIZE], *end;
	int fd = beneath_open(s->path, name_of(name, id, ".job"), O_RDONLY, 0, why);
	enum spool_read found;
	size_t len = 0;

	*text = NULL;
	if (fd < 0)
		return errno == ENOENT                                        ? SPOOL_GONE
		       : errno == EINVAL || errno == ELOOP || errno == EMLINK ? SPOOL_WRONG
									      : SPOOL_FAILED;
	found = read_open(fd, text, &len, why);
	close(fd);
	if (found != SPOOL_READ)
		return found;
	*why = "it is not an entry of this version, or was not written to its end";
	end = strchr(*text, '\n');
	if (!end || strncmp(*text, SPOOL_HEAD, strlen(SPOOL_HEAD)) != 0 || len < 2 || (*text)[len - 1] != '\n' ||
	    strlen(*text) != len)
		return SPOOL_WRONG;
	*end = '\0';
	*database = *text + strlen(SPOOL_HEAD);
	*job = end + 1;
	return SPOOL_READ;
}

int spool_remove(struct spool *s, const char *id, struct deferred_error *err)
{
	char name[NAME_SIZE];

	if (unlinkat(s->fd, name_of(name, id, ".job"), 0) == 0 || errno == ENOENT)
		return 0;
	return spool_failed(s, "cannot remove an entry that is stored", err);
}

void spool_sync(struct spool *s)
{
	fsync(s->fd); /* in vain: the entries come back, and are known in the database */
}

/* ---- entries that are refused ----------------------------------------------------------------- */

/* Made where the folder is ours alone. Where several users share it, one of them would own what the others need. */
static int open_refused(struct spool *s, struct deferred_error *err)
{
	const char *why;
	struct stat st;
	int fd;

	if (fstat(s->fd, &st) == 0 && st.st_uid == geteuid())
		mkdirat(s->fd, REFUSED, (st.st_mode & 0770) | (st.st_mode & S_ISVTX));
	fd = spool_folder(s->fd, REFUSED, &why);
	if (fd < 0 && why)
		error_set(err, DEFERRED_ESYSTEM, "spool", "spool '%.200s': folder " REFUSED ": %s", s->path, why);
	else if (fd < 0)
		error_errno(err, DEFERRED_ESYSTEM, "spool", "spool '%.200s': folder " REFUSED " cannot be used",
			    s->path);
	if (fd < 0)
		error_hint(err, "make the folder " REFUSED " in it, with the owner and mode of the spool");
	return fd;
}

int spool_refuse(struct spool *s, const char *id, const char *reason, struct deferred_error *err)
{
	struct iovec parts[] = { part_of(reason), part_of("\n") };
	char job[NAME_SIZE], why[NAME_SIZE];
	int fd = open_refused(s, err), rc;

	if (fd < 0)
		return DEFERRED_ESYSTEM;
	name_of(job, id, ".job");
	name_of(why, id, ".reason");
	unlinkat(fd, why, 0); /* of a drain that died before the next step but one */
	rc = write_new(fd, why, parts, 2);
	if (rc == 0)
		rc = renameat(s->fd, job, fd, job);
	if (rc == 0)
		rc = fsync(fd);
	if (rc == 0)
		rc = fsync(s->fd);
	if (rc < 0)
		spool_failed(s, "cannot move an entry to " REFUSED, err);
	close(fd);
	return rc < 0 ? DEFERRED_ESYSTEM : 0;
}

int spool_retry(struct spool *s, const char *id, struct deferred_error *err)
{
	char from[NAME_SIZE], to[NAME_SIZE], fresh[SPOOL_ID_SIZE];
	int64_t age = wall_ms() - time_of(name_of(from, id, ".job"), ".job");
	int fd = open_refused(s, err), rc = 0;

	if (fd < 0)
		return DEFERRED_ESYSTEM;
	snprintf(fresh, sizeof(fresh), "%s", id);
	if (age < 0 || age > KNOWN_MS)
		rc = make_id(fresh);
	if (rc == 0)
		rc = renameat(fd, from, s->fd, name_of(to, fresh, ".job"));
	if (rc == 0)
		unlinkat(fd, name_of(to, id, ".reason"), 0);
	if (rc == 0)
		rc = fsync(s->fd);
	if (rc < 0)
		spool_failed(s, "cannot move an entry back", err);
	close(fd);
	return rc < 0 ? DEFERRED_ESYSTEM : 0;
}

void spool_sweep(struct spool *s)
{
	int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	time_t now = time(NULL);
	struct dirent *e;
	struct stat st;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && (e = readdir(dir)))
		if (time_of(e->d_name, ".new") >= 0 && fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_mtime < now - SWEEP_S)
			unlinkat(fd, e->d_name, 0);
	if (dir)
		closedir(dir);
}
