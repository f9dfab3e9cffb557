/* SPDX-License-Identifier: MIT */
/*
 * arena - what one request needs is taken from here and given back in one sweep; and text that grows.
 *
 * arena_alloc() and what is made of it never return NULL: what one request takes is bounded by the limits on requests,
 * and when memory runs out they live on a reserve, while whoever serves takes no more requests. A text that has grown
 * large does not touch that: it fails.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>

/* Set the reserve aside; and again, once there is memory. To be called at the start and every second or so. */
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

struct buf {
	char *p; /* NUL-terminated where len > 0 */
	size_t len, cap;
	bool failed; /* no memory: it is empty, and what is added is dropped */
};
void buf_add(struct buf *b, const char *text, size_t len);
void buf_text(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b);
char *buf_take(struct buf *b); /* given: free() it; "" where nothing was added; NULL: it has failed */

#endif
