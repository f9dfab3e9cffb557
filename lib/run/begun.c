/* SPDX-License-Identifier: MIT */
#include "run/begun.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t name_of(const char *database)
{
	uint64_t hash = 14695981039346656037u;

	for (; database && *database; database++)
		hash = (hash ^ (unsigned char)*database) * 1099511628211u;
	return hash;
}

static bool name_file(char path[static PATH_MAX], const char *pidfile)
{
	return pidfile && snprintf(path, PATH_MAX, "%s.begun", pidfile) < PATH_MAX;
}

bool begun_read(struct begun_file *left, const char *pidfile, const char *database)
{
	char path[PATH_MAX];
	struct stat st;
	bool ok = false;
	int fd = name_file(path, pidfile) ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;

	if (fd < 0)
		return false;
	/* One that others may write proves nothing. */
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		ok = read(fd, left, sizeof(*left)) == sizeof(*left) && left->database == name_of(database);
	close(fd);
	return ok;
}

void begun_open(struct begun *b, const char *pidfile, const char *database, int64_t worker)
{
	int fd;

	memset(b, 0, sizeof(*b));
	if (!name_file(b->path, pidfile))
		return;
	unlink(b->path);
	fd = open(b->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* The room is taken now: writing to a page that a full disk has no place for would end this process. */
	if (posix_fallocate(fd, 0, sizeof(*b->file)) == 0)
		b->file = mmap(NULL, sizeof(*b->file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (!b->file || b->file == MAP_FAILED) {
		unlink(b->path);
		b->file = NULL;
		return;
	}
	b->file->database = name_of(database);
	b->file->worker = worker;
}

bool begun_mark(struct begun *b, int64_t receipt)
{
	size_t i = 0;

	while (i < b->used && b->file->receipt[i] != 0 && b->file->receipt[i] != receipt)
		i++;
	if (i == BEGUN_MAX)
		return false;
	b->file->receipt[i] = receipt;
	b->used += i == b->used;
	atomic_thread_fence(memory_order_seq_cst); /* before what follows, which may begin it */
	return true;
}

void begun_drop(struct begun *b, int64_t receipt)
{
	for (size_t i = 0; i < b->used; i++)
		if (b->file->receipt[i] == receipt)
			b->file->receipt[i] = 0;
}

void begun_keep(struct begun *b, const struct store_ids *held)
{
	for (size_t i = 0; i < b->used; i++)
		if (!store_ids_have(held, b->file->receipt[i]))
			b->file->receipt[i] = 0;
	while (b->used > 0 && b->file->receipt[b->used - 1] == 0)
		b->used--;
}

void begun_close(struct begun *b, bool remove)
{
	if (!b->file)
		return;
	if (remove)
		unlink(b->path);
	munmap(b->file, sizeof(*b->file));
	b->file = NULL;
}
