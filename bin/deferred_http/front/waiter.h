/* SPDX-License-Identifier: MIT */
/*
 * waiter - requests that wait for the end of a job. One thread with a connection of its own looks for all of them at
 * once, at a bounded rate. So a client that waits takes no connection from others, and no client makes it look more
 * often.
 */
#ifndef WAITER_H
#define WAITER_H

#include "base/error.h"

#include <stdint.h>

struct waiter_entry {
	int64_t id;
	uint64_t until_ns;        /* the end is waited for until then */
	void (*wake)(void *data); /* called once, by another thread: then the entry is the caller's again */
	void *wake_data;
	struct waiter_entry *next;
};

struct waiter;

/* conninfo is copied. NULL: no memory or no thread, and err says so. */
struct waiter *waiter_start(const char *conninfo, struct deferred_error *err);

/* The entry is borrowed until wake(). */
void waiter_add(struct waiter *waiter, struct waiter_entry *entry);

/* From now on nothing waits. */
void waiter_quiesce(struct waiter *waiter);
void waiter_stop(struct waiter *waiter);

#endif
