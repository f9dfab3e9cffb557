/* SPDX-License-Identifier: MIT */
/* buf - text that grows. Without memory a small text uses the reserve of the arena, and a large one fails. */
#ifndef BUF_H
#define BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *p; /* NUL-terminated if len > 0 */
	size_t len, cap;
	bool failed; /* no memory: it stays empty */
};
void buf_add(struct buf *b, const char *text, size_t len);
void buf_text(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *b);

#endif
