/* SPDX-License-Identifier: MIT */
/*
 * asks - what one attempt asks for: calls to defer and files to remove after its success.
 *
 * The limits are those of frame.h. The runner counts too and tells the function, so a runner that exceeds them lies.
 */
#ifndef ASKS_H
#define ASKS_H

#include "base/attempt.h"

struct asks {
	struct runner_call *follow, **follow_tail; /* tail NULL: no call yet */
	struct runner_path *remove;
	size_t n, bytes; /* of both lists */
	bool too_many;   /* beyond a limit: both lists were emptied and stay empty */
};

/* Add one from the payload of its frame, which a NUL follows. Returns 0, or -1: nonsense, or out of memory. */
int asks_add_call(struct asks *asks, const char *payload, size_t len);
int asks_add_path(struct asks *asks, const char *payload, size_t len);

void asks_clear(struct asks *asks); /* keeps the counts */

#endif
