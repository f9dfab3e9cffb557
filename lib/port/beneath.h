/* SPDX-License-Identifier: MIT */
/*
 * beneath - files below a folder that a setting names, where somebody else chose the path and may change what lies
 * there.
 *
 * The kernel resolves each path (openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS), so neither "..", links, an
 * absolute path nor a rename meanwhile leads out of the folder. Where it cannot do that, all is refused.
 */
#ifndef BENEATH_H
#define BENEATH_H

#include <sys/types.h>

/*
 * Open a regular file that has one name only: a second one could be that of a file elsewhere. Nothing is waited for,
 * and a link in the place of the file is not followed.
 *
 * dir    absolute path of the folder, trusted
 * path   relative to it, or absolute and beginning with it
 * flags  of open(2): O_RDONLY, or O_WRONLY with O_APPEND, O_CREAT
 * why    receives, on failure, what is wrong, as the end of a message; borrowed until the next call
 *
 * Returns a descriptor, or -1 with errno.
 */
int beneath_open(const char *dir, const char *path, int flags, mode_t mode, const char **why);

/* A ticket with which beneath_redeem() removes the file that is open as fd, and no other. It is a text that begins with
 * "//", at most 8 KiB; the caller frees it. NULL: dir is not absolute, path is not below it, or out of memory. */
char *beneath_ticket(const char *dir, const char *path, int fd);

/* Remove the file of a ticket if its path still names that file. If the text is a path and no ticket, remove the file
 * of that path. Returns 0, or -1 with errno: ESTALE if it is another file. */
int beneath_redeem(const char *ticket);

#endif
