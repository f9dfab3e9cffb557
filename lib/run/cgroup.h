/* SPDX-License-Identifier: MIT */
/*
 * cgroup - a control group (version 2) for each runner, below the group in which this process was started. It limits
 * the runner and all its children together. It ends them all at once, whatever session, parent or environment they
 * have.
 *
 * Order of calls: cgroup_init() once; cgroup_make() before a fork, cgroup_enter() in the child, cgroup_end() when the
 * child has been reaped; cgroup_leave() at the end. Without cgroup_init(), or where it found nothing to work with, the
 * others do nothing.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Look whether groups can be made here, and end those that an earlier process of this name left behind.
 *
 * delegated: our group was delegated to us and may be changed. A group that passes on controllers has no processes of
 * its own, so this process moves into a group below if limits need it. If the group is not delegated, groups only end
 * their processes and have no limits. A runner whose group cannot be made runs without.
 *
 * name: tells those apart that share a group; at most 80 bytes, fit for a file name. While this process lives no other
 * uses it. Copied.
 */
void cgroup_init(const char *name, bool delegated);

/* Make a group. processes, memory_bytes: limits of all in it, where it is delegated and the controllers are there; 0:
 * none. Returns its number, above 0;
 * 0 where groups are not in use; or DEFERRED_ESYSTEM with err. */
int cgroup_make(int64_t processes, int64_t memory_bytes, struct deferred_error *err);

/* Enter it, for this process and all it will start. Safe after fork. Returns 0, or -1 with errno. */
int cgroup_enter(int group);

/* Kill its processes and remove it. A process that is stuck in the kernel stays, and so does its group. */
void cgroup_end(int group);

/* Remove what is left, and go back to where this process was started. */
void cgroup_leave(void);

#endif
