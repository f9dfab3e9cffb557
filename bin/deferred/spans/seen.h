/* SPDX-License-Identifier: MIT */
/* seen - numbers that were met not long ago: two sets, of which the elder is thrown away in time, or when the younger
 * is full. */
#ifndef SEEN_H
#define SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEEN_MAX (1u << 21) /* numbers in a set, 32 MB */

struct seen {
	struct seen_set {
		uint64_t *slot; /* 0: free */
		size_t len, cap;
	} young, old;
};

/* True the first time for an id. A set that cannot grow for lack of memory forgets all. */
bool seen_first(struct seen *seen, uint64_t number);

/* Forget the ids met before the last call. */
void seen_turn(struct seen *seen);

void seen_clear(struct seen *seen);

#endif
