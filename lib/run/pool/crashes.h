/* SPDX-License-Identifier: MIT */
/*
 * crashes - functions that crashed lately.
 *
 * Symbols of a crash take a process of their own, and hold up the runner for a quarter of a second. The next crashes of
 * the same function look alike. So for a minute they are reported by file and offset only.
 */
#ifndef CRASHES_H
#define CRASHES_H

#include <stdbool.h>
#include <stdint.h>

#define CRASHES_MAX 32 /* functions remembered at the same time */

struct crashes {
	struct crashes_function {
		char fn[128];
		uint64_t until_ns; /* 0: free */
	} function[CRASHES_MAX];
};

void crashes_add(struct crashes *crashes, const char *fn);
bool crashes_have(const struct crashes *crashes, const char *fn);

#endif
