/* SPDX-License-Identifier: MIT */
#include "protocol/accounts.h"

#include <stdlib.h>
#include <string.h>

struct accounts *accounts_new(size_t len)
{
	struct arena arena = { 0 };
	struct accounts *a = arena_alloc(&arena, sizeof(*a));

	a->list = arena_alloc(&arena, (len + 1) * sizeof(*a->list));
	a->len = len;
	atomic_init(&a->users, 1);
	a->arena = arena;
	return a;
}

static int order_accounts(const void *a, const void *b)
{
	return strcmp(((const struct account *)a)->name, ((const struct account *)b)->name);
}

void accounts_sort(struct accounts *a)
{
	qsort(a->list, a->len, sizeof(*a->list), order_accounts);
}

struct accounts *accounts_use(struct accounts *a)
{
	if (a)
		atomic_fetch_add(&a->users, 1);
	return a;
}

void accounts_release(struct accounts *a)
{
	struct arena arena;

	if (!a || atomic_fetch_sub(&a->users, 1) > 1)
		return;
	for (size_t i = 0; i < a->len; i++)
		explicit_bzero(&a->list[i].keys, sizeof(a->list[i].keys));
	arena = a->arena; /* which holds the set itself */
	arena_clear(&arena);
}

static int compare_accounts(const void *name, const void *account)
{
	return strcmp(name, ((const struct account *)account)->name);
}

const struct account *accounts_find(const struct accounts *a, const char *name)
{
	return a && a->len > 0 ? bsearch(name, a->list, a->len, sizeof(*a->list), compare_accounts) : NULL;
}
