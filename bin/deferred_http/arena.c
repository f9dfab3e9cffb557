/* SPDX-License-Identifier: MIT */
#include "arena.h"

#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define BLOCK_BYTES 4000

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

static void *must(void *p)
{
	if (!p) {
		log_line(LOG_L_ERROR, "out of memory");
		_exit(EX_OSERR);
	}
	return p;
}

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *b = a->blocks;
	void *p;

	size = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	if (!b || b->size - b->used < size) {
		size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;

		b = must(malloc(sizeof(*b) + room));
		b->size = room;
		b->used = 0;
		b->next = a->blocks;
		a->blocks = b;
	}
	p = b->bytes + b->used;
	b->used += size;
	return memset(p, 0, size);
}

char *arena_copy(struct arena *a, const char *text, size_t len)
{
	char *p = arena_alloc(a, len + 1);

	if (len > 0)
		memcpy(p, text, len);
	return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	p = arena_alloc(a, (size_t)len + 1);
	va_start(ap, fmt);
	vsnprintf(p, (size_t)len + 1, fmt, ap);
	va_end(ap);
	return p;
}

void arena_clear(struct arena *a)
{
	struct arena_block *next;

	for (struct arena_block *b = a->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	a->blocks = NULL;
}

static void grow(struct buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 256;

	while (cap < b->len + more + 1)
		cap *= 2;
	if (cap > b->cap) {
		b->p = must(realloc(b->p, cap));
		b->cap = cap;
	}
}

void buf_add(struct buf *b, const char *text, size_t len)
{
	if (len == 0)
		return;
	grow(b, len);
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
	grow(b, (size_t)len);
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

char *buf_take(struct buf *b)
{
	char *p;

	grow(b, 0);
	p = b->p;
	p[b->len] = '\0';
	*b = (struct buf){ 0 };
	return p;
}
