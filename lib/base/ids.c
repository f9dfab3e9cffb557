/* SPDX-License-Identifier: MIT */
#include "base/ids.h"

#include <stdlib.h>

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

bool store_ids_add(struct store_ids *ids, int64_t id)
{
	if (ids->len == ids->cap) {
		size_t cap = ids->cap ? ids->cap * 2 : 64;
		int64_t *bigger = realloc(ids->id, cap * sizeof(*bigger));

		if (!bigger)
			return false;
		ids->id = bigger;
		ids->cap = cap;
	}
	ids->id[ids->len++] = id;
	return true;
}

void store_ids_sort(struct store_ids *ids)
{
	if (ids->len > 1)
		qsort(ids->id, ids->len, sizeof(*ids->id), compare_ids);
}

bool store_ids_have(const struct store_ids *ids, int64_t id)
{
	return ids->len > 0 && bsearch(&id, ids->id, ids->len, sizeof(id), compare_ids);
}
