/* SPDX-License-Identifier: MIT */
#include "seen.h"

#include <stdlib.h>

#define CAP_MIN 1024

/* Where it is, or would be. The set is never full. */
static size_t seen_place(const struct seen_set *set, uint64_t number)
{
	size_t i = number & (set->cap - 1);

	while (set->slot[i] && set->slot[i] != number)
		i = (i + 1) & (set->cap - 1);
	return i;
}

static bool seen_has(const struct seen_set *set, uint64_t number)
{
	return set->cap > 0 && set->slot[seen_place(set, number)] == number;
}

static bool seen_grow(struct seen_set *set)
{
	struct seen_set more = { .len = set->len, .cap = set->cap ? 2 * set->cap : CAP_MIN };

	more.slot = calloc(more.cap, sizeof(*more.slot));
	if (!more.slot)
		return false;
	for (size_t i = 0; i < set->cap; i++)
		if (set->slot[i])
			more.slot[seen_place(&more, set->slot[i])] = set->slot[i];
	free(set->slot);
	*set = more;
	return true;
}

bool seen_first(struct seen *seen, uint64_t number)
{
	if (seen_has(&seen->young, number) || seen_has(&seen->old, number))
		return false;
	if (seen->young.len == SEEN_MAX || (2 * seen->young.len >= seen->young.cap && !seen_grow(&seen->young)))
		seen_turn(seen);
	if (seen->young.cap == 0 && !seen_grow(&seen->young))
		return true;
	seen->young.slot[seen_place(&seen->young, number)] = number;
	seen->young.len++;
	return true;
}

void seen_turn(struct seen *seen)
{
	free(seen->old.slot);
	seen->old = seen->young;
	seen->young = (struct seen_set){ 0 };
}

void seen_clear(struct seen *seen)
{
	seen_turn(seen);
	seen_turn(seen);
}
