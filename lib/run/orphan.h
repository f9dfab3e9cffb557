/* SPDX-License-Identifier: MIT */
/*
 * orphan - processes of functions that outlive the one that started them: they fall to us, and are killed.
 */
#ifndef ORPHAN_H
#define ORPHAN_H

#include <stddef.h>
#include <sys/types.h>

/* Room for the longest: what tells instances apart is at its end. */
#define ORPHAN_COOKIE_SIZE 4600

/* Make this process the one to which they fall, and spare the children it has by now. It has one thread. */
void orphan_init(void);

/* Kill the children that are neither known, the pids of runners, nor were there when orphan_init() was called. */
void orphan_sweep(const pid_t *known, size_t known_len);

/* Kill all of them, and let later ones fall to the next process above. */
void orphan_end(void);

/* Kill what an earlier run of this instance, which died, left behind: processes with its DEFERRED_INSTANCE. */
void orphan_sweep_instance(const char *instance);

#endif
