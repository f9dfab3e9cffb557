/* SPDX-License-Identifier: MIT */
/*
 * child - the process of one runner and the descriptors that lead to it.
 *
 * The process is exec'd in a process group of its own and is killed by the kernel when we die. Its environment is
 * scrubbed; DEFERRED_INSTANCE names the instance it belongs to. It has its socket, its board, a pipe for what it prints
 * and an eventfd, and no other descriptor of ours.
 */
#ifndef CHILD_H
#define CHILD_H

#include "run/board.h"
#include "run/runner_setup.h"

#include <limits.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	int socket, output, stop; /* -1: closed. stop: see FRAME_STOP_FD */
	int cgroup;               /* 0: none */
	bool reaped;              /* or given up */
	struct board *board;
};

int child_start(struct child *child, const struct runner_setup *setup, struct deferred_error *err);

/* Close and free all that belongs to it. The process must have been reaped or given up, or never started. */
void child_close(struct child *child);

void child_close_socket(struct child *child);

/* Make the runner look at its board. */
void child_ring(const struct child *child);

/* Kill all its processes by this signal. */
void child_kill(const struct child *child, int sig);

/*
 * May its socket or pipe be read once more in this turn? A function that writes faster than we read must not hold us
 * up, and poll() brings us back. The leftovers of a dead runner are read completely, but not the output of others that
 * have its pipe.
 */
bool child_may_read(const struct child *child, int reads, uint64_t began_ns);

#endif
