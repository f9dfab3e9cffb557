/* SPDX-License-Identifier: MIT */
#include "lineage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVERS_MAX 64 /* the last ones seen; a host works for few */

struct known {
	size_t len;
	struct {
		char system[24];
		int64_t timeline;
	} server[SERVERS_MAX];
};

static int refuse_file(struct deferred_error *err, const char *path, const char *why)
{
	error_set(err, DEFERRED_ESYSTEM, "lineage", "'%s' refused: %s", path, why);
	error_hint(err, "look at it; once it is removed any server is taken");
	return err->code;
}

/* No file: nothing is known yet. One that cannot be understood is no reason to trust a server. */
static int read_known(const char *path, struct known *known, struct deferred_error *err)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	FILE *f;
	int n = 0;

	known->len = 0;
	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : error_errno(err, DEFERRED_ESYSTEM, "lineage",
					     "cannot open '%s'\nlet the user of the worker read it, or remove it",
					     path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & (S_IWGRP | S_IWOTH))) {
		close(fd);
		return refuse_file(err, path, "it is not a regular file that only this user may write");
	}
	f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return error_errno(err, DEFERRED_ESYSTEM, "lineage", "cannot read '%s'\nremove it; it is made again",
				   path);
	}
	while (known->len < SERVERS_MAX && (n = fscanf(f, "%23[0-9] %" SCNd64 "\n", known->server[known->len].system,
						       &known->server[known->len].timeline)) == 2)
		known->len++;
	if (!feof(f))
		n = 0;
	fclose(f);
	return n == EOF || n == 2 ? 0 : refuse_file(err, path, "it is not what check_deferred writes");
}

/* The whole file, or the one before: a host may lose power in between. */
static int write_known(const char *path, const struct known *known, struct deferred_error *err)
{
	char fresh[PATH_MAX + 8];
	FILE *f;
	int fd;
	bool failed;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	f = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!f) {
		error_errno(err, DEFERRED_ESYSTEM, "lineage",
			    "cannot write '%s'\nfree space there, and let the user of the worker write to the folder",
			    fresh);
		if (fd >= 0)
			close(fd);
		return err->code;
	}
	for (size_t i = 0; i < known->len; i++)
		fprintf(f, "%s %" PRId64 "\n", known->server[i].system, known->server[i].timeline);
	failed = fflush(f) != 0 || fsync(fd) < 0;
	failed |= fclose(f) != 0;
	if (failed || rename(fresh, path) < 0)
		return error_errno(
			err, DEFERRED_ESYSTEM, "lineage",
			"cannot write '%s'\nfree space there, and let the user of the worker write to the folder",
			path);
	return 0;
}

int lineage_check(const char *pidfile, const char *system, int64_t timeline, struct deferred_error *err)
{
	char path[PATH_MAX];
	struct known known;
	size_t i;
	int rc;

	if (snprintf(path, sizeof(path), "%s.server", pidfile) >= (int)sizeof(path))
		return refuse_file(err, pidfile, "the path is too long");
	rc = read_known(path, &known, err);
	if (rc < 0)
		return rc;
	for (i = 0; i < known.len && strcmp(known.server[i].system, system) != 0; i++)
		;
	if (i < known.len && known.server[i].timeline == timeline)
		return 0;
	if (i < known.len && known.server[i].timeline > timeline) {
		error_set(err, DEFERRED_ECONNECT, "lineage",
			  "old primary refused: the server is on timeline %" PRId64
			  " of system %s, and '%s' knows of timeline %" PRId64,
			  timeline, system, path, known.server[i].timeline);
		error_hint(err, "have the failover manager make it a standby of the new primary; if it is right, as "
				"after a disk was restored, remove that file");
		return DEFERRED_ECONNECT;
	}
	if (i == SERVERS_MAX) { /* the one known longest goes */
		memmove(&known.server[0], &known.server[1], sizeof(known.server) - sizeof(known.server[0]));
		i = --known.len;
	}
	known.len += i == known.len;
	snprintf(known.server[i].system, sizeof(known.server[i].system), "%s", system);
	known.server[i].timeline = timeline;
	return write_known(path, &known, err);
}
