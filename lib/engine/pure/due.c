/* SPDX-License-Identifier: MIT */
#include "engine/pure/due.h"

void due_clear(struct due *due)
{
	for (int i = 0; i < DUE_REASONS; i++)
		due->ns[i] = UINT64_MAX;
}

void due_add(struct due *due, enum due_reason reason, bool holds, uint64_t ns)
{
	if (holds)
		due->ns[reason] = ns;
}

bool due_now(const struct due *due, enum due_reason reason, uint64_t now)
{
	return due->ns[reason] <= now;
}

uint64_t due_first_ns(const struct due *due)
{
	uint64_t ns = UINT64_MAX;

	for (int i = 0; i < DUE_REASONS; i++)
		ns = due->ns[i] < ns ? due->ns[i] : ns;
	return ns;
}
