/* SPDX-License-Identifier: MIT */
/*
 * pidfile - one running copy for each file.
 *
 * The lock is a record lock (fcntl) on the open file, held for the life of the process. It ends with the process
 * however that dies, children do not inherit it, and the kernel names its holder. The text in the file is for people;
 * no signal is ever sent by it. The file stays when the process ends, because another start may have it open. It is
 * then empty, unless the process was killed.
 *
 * Taking over: ask the kernel for the holder, pin that process by a pidfd, and ask again. Only if it is still the
 * holder does it get SIGTERM through the pidfd, and SIGKILL after the grace period. A stale, forged or recycled number
 * therefore harms nobody.
 *
 * The holder updates the time of the file. Starts that spare a running copy can therefore replace one that hangs or is
 * stopped.
 *
 * Closing any descriptor of the file drops the lock: nobody else in this process opens it.
 */
#ifndef PIDFILE_H
#define PIDFILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define PIDFILE_MARK 96

struct pidfile {
	int fd;
	bool held;              /* the lock is ours, and the file says so */
	bool replaced;          /* a running copy was ended for us */
	bool unclean;           /* the copy before left without tidying up */
	bool silent;            /* the copy that holds it has shown no sign of life for a lease, and cannot be ended */
	bool missed;            /* it was said that the file is gone */
	const char *path;       /* as given to pidfile_take(); may be set to a copy */
	uint64_t device, inode; /* of the file: a new file is another instance */
	/*
	 * Names the file that is locked: "#DEVICE.INODE@BOOT". A file keeps these numbers in every namespace while
	 * a process has it open. Neither an inode nor the number of a mounted file system is given out again before.
	 */
	char mark[PIDFILE_MARK];
};

enum pidfile_result {
	PIDFILE_HELD = 0,   /* we hold it */
	PIDFILE_BUSY = 1,   /* another copy runs and is not to be, or cannot be, replaced */
	PIDFILE_CANNOT = 2, /* the file cannot be made or opened */
	PIDFILE_REFUSED = 3 /* its kind, owner or mode is not safe */
};

/* How a copy is taken over from, and what it tells of itself. */
struct pidfile_terms {
	bool replace;     /* end a copy that runs; else only one that shows no sign of life */
	int64_t grace_ms; /* which it has after SIGTERM, if it lives */
	int64_t lease_ms; /* so long a sign of life is good for */
};

/* Open, check and lock the file. path: borrowed until it is released. err says what was wrong unless PIDFILE_HELD is
 * returned. */
enum pidfile_result pidfile_take(struct pidfile *p, const char *path, const struct pidfile_terms *terms,
				 struct deferred_error *err);

#define PIDFILE_ALIVE_MS 15000 /* pidfile_alive() is called that often, at least */

/* Update the time of the file. Logs once if the file was moved or removed, because the next start then runs in
 * parallel. */
void pidfile_alive(struct pidfile *p);

/*
 * Is it proven that the holder of another pidfile has ended? instance: "HOST:PATH#DEVICE.INODE@BOOT", as that holder
 * wrote it, or any other text. True only if that very file is seen here, under this kernel, and nobody holds its lock.
 * A file that was removed, that lies in another mount namespace or on another host, or that we may not read, proves
 * nothing.
 */
bool pidfile_is_left(const struct pidfile *p, const char *instance);

/* Leave in order: empty the file and drop the lock. */
void pidfile_release(struct pidfile *p);

#endif
