/* SPDX-License-Identifier: MIT */
/*
 * arena - what one request needs is taken from here and given back in one sweep; and text that grows.
 *
 * Neither returns NULL: sizes are bounded by the limits on requests, and a process that cannot hold even those
 * ends (exit code 71) and is started anew by its manager. What had been answered is in the database.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena {
	struct arena_block *blocks;
};
void *arena_alloc(struct arena *a, size_t size); /* zeroed, aligned for anything */
char *arena_copy(struct arena *a, const char *text, size_t len); /* with a NUL behind it */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_clear(struct arena *a);

struct buf {
	char *p; /* NUL-terminated where len > 0 */
	size_t len, cap;
};
void buf_add(struct buf *b, const char *text, size_t len);
void buf_text(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b);
char *buf_take(struct buf *b); /* given: free() it; "" where nothing was added */

#endif
