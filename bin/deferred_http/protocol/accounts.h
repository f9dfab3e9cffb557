/* SPDX-License-Identifier: MIT */
/*
 * accounts - those who may send requests, in memory: their keys, in clear, and their service properties. A set of
 * accounts does not change once it is made; it is counted, so that a request keeps the one it began with.
 */
#ifndef ACCOUNTS_H
#define ACCOUNTS_H

#include "protocol/json.h"
#include "protocol/sign.h"

#include <stdatomic.h>

struct account {
	const char *name;
	bool enabled;
	struct sign_keys keys;
	struct service_properties properties;
};

struct accounts {
	struct arena arena;
	atomic_int users;
	struct account *list; /* sorted by name */
	size_t len;
};

struct accounts *accounts_new(size_t len); /* len empty ones, one user; list[].name etc. are to be filled in, then: */
void accounts_sort(struct accounts *a);
struct accounts *accounts_use(struct accounts *a); /* NULL is accepted */
void accounts_release(struct accounts *a);         /* the same; the keys are wiped with the last user */

const struct account *accounts_find(const struct accounts *a, const char *name);

#endif
