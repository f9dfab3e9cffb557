/* SPDX-License-Identifier: MIT */
/*
 * arena - memory of one request, freed at once.
 *
 * arena_alloc() and the functions that use it never return NULL. The limits on requests bound what a request needs.
 * When memory runs out, they use a reserve, and the server accepts no more requests.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates the reserve, or allocates it again. Call it at the start and about every second. */
void arena_reserve(void);
bool arena_is_short(void); /* it is in use */

struct arena {
	struct arena_block *blocks;
	size_t bytes; /* of all of them */
};
void *arena_alloc(struct arena *a, size_t size);                 /* zeroed, aligned for anything */
char *arena_copy(struct arena *a, const char *text, size_t len); /* with a NUL behind it */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_clear(struct arena *a);

/* As realloc(), with the reserve. Never NULL. */
void *arena_realloc(void *p, size_t size);

#endif
