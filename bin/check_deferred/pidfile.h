/* SPDX-License-Identifier: MIT */
/*
 * pidfile - one running copy for each file.
 *
 * The truth is a record lock of the kernel (fcntl) on the open file, held for the life of the process: it goes
 * with the process however that dies, children do not inherit it, and the kernel names its holder. The text in
 * the file informs people; it is never read to find out whom to signal. The file stays when the process goes,
 * since another start may have it open; it is then empty, unless the process was killed.
 *
 * Taking over: ask the kernel for the holder, pin that process by a pidfd, ask again; only if it is still the
 * holder it gets SIGTERM through the pidfd, and SIGKILL after the grace period. So a stale, forged or recycled
 * number harms nobody.
 *
 * Closing any descriptor of the file drops the lock: nobody else in this process opens it.
 */
#ifndef PIDFILE_H
#define PIDFILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct pidfile {
	int fd;
	bool held;      /* the lock is ours, and the file says so */
	bool replaced;  /* a running copy was ended for us */
	bool unclean;   /* the copy before left without tidying up */
	uint64_t device, inode; /* of the file: a new file is another instance */
};

enum pidfile_result {
	PIDFILE_HELD = 0,   /* we hold it */
	PIDFILE_BUSY = 1,   /* another copy runs and is not to be, or cannot be, replaced */
	PIDFILE_CANNOT = 2, /* the file cannot be made or opened */
	PIDFILE_REFUSED = 3 /* its kind, owner or mode is not safe */
};

/*
 * Open, check and lock the file. replace: end a copy that runs, which has grace_ms after SIGTERM. err says what
 * was wrong unless PIDFILE_HELD is returned.
 */
enum pidfile_result pidfile_take(struct pidfile *p, const char *path, bool replace, int64_t grace_ms, struct deferred_error *err);

/* Leave in order: empty the file and drop the lock. */
void pidfile_release(struct pidfile *p);

#endif
