/* SPDX-License-Identifier: MIT */
/*
 * store_ids - sets of numbers that a statement answered with.
 */
#ifndef STORE_IDS_H
#define STORE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_ids {
	int64_t *id; /* sorted */
	size_t len, cap;
};
bool store_ids_add(struct store_ids *ids, int64_t id); /* false: out of memory */
void store_ids_sort(struct store_ids *ids);            /* before store_ids_have() */
bool store_ids_have(const struct store_ids *ids, int64_t id);

#endif
