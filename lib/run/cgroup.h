/* SPDX-License-Identifier: MIT */
/*
 * cgroup - a control group (version 2) for each runner, below the group that this process was started in: it bounds
 * what the runner and all it starts take together, and ends all of it at once, whatever session, parent or environment
 * it gave itself.
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
 * delegated: the group we are in has been given to us, so it may be rearranged: where limits need it, for a group that
 * hands on controllers has no processes of its own, this process moves into a group below. Else groups are there to end
 * what is in them, have no limits, and where one cannot be had after all its runner goes without.
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

/* Kill what is in it, and remove it. What is stuck in the kernel stays, and its group with it. */
void cgroup_end(int group);

/* Remove what is left, and go back to where this process was started. */
void cgroup_leave(void);

#endif
