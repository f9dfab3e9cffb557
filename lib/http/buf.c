/* SPDX-License-Identifier: MIT */
#include "http/buf.h"

#include "http/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES (64 * 1024)

/* False: it has failed. */
static bool grow_buf(struct buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 256;
	char *p;

	if (b->failed)
		return false;
	while (cap < b->len + more + 1)
		cap *= 2;
	if (cap <= b->cap)
		return true;
	p = cap > LARGE_BYTES ? realloc(b->p, cap) : arena_realloc(b->p, cap);
	if (!p) {
		free(b->p);
		*b = (struct buf){ .failed = true };
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const char *text, size_t len)
{
	if (len == 0 || !grow_buf(b, len))
		return;
	memcpy(b->p + b->len, text, len);
	b->len += len;
	b->p[b->len] = '\0';
}

void buf_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (!grow_buf(b, (size_t)len))
		return;
	va_start(ap, fmt);
	vsnprintf(b->p + b->len, (size_t)len + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)len;
}

void buf_clear(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ 0 };
}
