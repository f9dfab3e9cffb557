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

/* It has not been met, and is from now on. Of a set that cannot grow for want of memory nothing is known any more. */
bool seen_first(struct seen *seen, uint64_t number);

/* What was met before the last call is forgotten. */
void seen_turn(struct seen *seen);

void seen_clear(struct seen *seen);

#endif
