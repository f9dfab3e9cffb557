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

/* What beneath_redeem() needs to remove the file that is open as fd, and no other: a text that begins with "//", at
 * most 8 KiB. Given: free(). NULL: dir is not absolute, path not below it, or out of memory. */
char *beneath_ticket(const char *dir, const char *path, int fd);

/* Remove the file of a ticket, if what has its path still is that file; or, where the text is no ticket but a path,
 * what has that.
 * Returns 0, or -1 with errno: ESTALE where it is another file. */
int beneath_redeem(const char *ticket);

#endif
