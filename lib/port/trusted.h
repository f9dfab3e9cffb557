/* SPDX-License-Identifier: MIT */
/* trusted - files that nobody but root and one user could have written, and whose path nobody else can change. */
#ifndef TRUSTED_H
#define TRUSTED_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Refuse what somebody else could have written. sticky_ok: a sticky folder passes, because others cannot replace what
 * is ours in it. The mode of a link means nothing. Returns 0 or DEFERRED_EPLUGIN.
 */
int trusted_check_owner(int fd, const struct stat *st, unsigned int owner_uid, bool sticky_ok,
			struct deferred_error *err);

/*
 * Open what is at the path component by component. Each step is made from a descriptor whose folder nobody else can
 * change, so no component can be exchanged between check and use.
 * Returns 0, DEFERRED_EPLUGIN, or DEFERRED_ESYSTEM with errno and without err: it cannot be opened.
 */
int trusted_open(const char *path, unsigned int owner_uid, int *fd, struct deferred_error *err);

/* Check a program, the folders above it and the links on the way. A program that does not exist passes, because
 * executing it says so. */
int trusted_check_program(const char *path, unsigned int owner_uid, struct deferred_error *err);

#endif
