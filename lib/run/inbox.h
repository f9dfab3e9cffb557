/* SPDX-License-Identifier: MIT */
/*
 * inbox - the messages that a runner sends through its socket: which functions it has, and the texts of its calls.
 *
 * A function may write to the socket too, so nothing in it is trusted.
 */
#ifndef INBOX_H
#define INBOX_H

#include "base/error.h"
#include "run/calls.h"
#include "run/child.h"
#include "run/functions.h"

struct inbox {
	struct frame_buf in;
	uint64_t bytes_received; /* of whole frames */
	bool ready;              /* the plugins are loaded */
	bool drained;            /* the last turn read all that had been sent */
	bool paused;             /* nothing is read */
	bool broken;             /* something was not a frame */
	char *loading;           /* the plugin that is being loaded */
	unsigned int changes;    /* of plugins, as reported */
	struct runner_function *functions;
	size_t functions_len, functions_bytes;
};

/* Returns as runner_read(). */
int inbox_read(struct inbox *inbox, struct child *child, struct calls *calls, struct deferred_error *err);

/* Has part of a frame come, and the rest not yet? The bytes behind it, at least FRAME_BELL, show whether it is one. */
bool inbox_is_torn(const struct inbox *inbox, const struct child *child);

/* Functions that were reported since the last call. The caller owns them. */
struct runner_function *inbox_take_functions(struct inbox *inbox, size_t *len);
void inbox_clear(struct inbox *inbox);

#endif
