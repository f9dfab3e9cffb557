/* SPDX-License-Identifier: MIT */
#include "crashes.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define CRASH_NS (60 * NS_PER_S)

void crashes_add(struct crashes *crashes, const char *fn)
{
	struct crashes_function *oldest = &crashes->function[0];

	if (crashes_have(crashes, fn))
		return;
	for (size_t i = 0; i < CRASHES_MAX; i++)
		if (crashes->function[i].until_ns < oldest->until_ns)
			oldest = &crashes->function[i];
	snprintf(oldest->fn, sizeof(oldest->fn), "%s", fn);
	oldest->until_ns = clock_ns() + CRASH_NS;
}

bool crashes_have(const struct crashes *crashes, const char *fn)
{
	for (size_t i = 0; i < CRASHES_MAX; i++) {
		const struct crashes_function *f = &crashes->function[i];

		if (f->until_ns && strcmp(f->fn, fn) == 0 && f->until_ns > clock_ns())
			return true;
	}
	return false;
}
