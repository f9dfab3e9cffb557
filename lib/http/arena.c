/* SPDX-License-Identifier: MIT */
#include "http/arena.h"

#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES 4000
#define RESERVE_BYTES (16 * 1024 * 1024) /* of address space: no memory until it is used */

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

static void *_Atomic reserve;

void arena_reserve(void)
{
	void *fresh, *none = NULL;

	if (reserve)
		return;
	fresh = malloc(RESERVE_BYTES);
	if (!atomic_compare_exchange_strong(&reserve, &none, fresh))
		free(fresh);
}

bool arena_is_short(void)
{
	return !reserve;
}

/*
 * Resizes p. Without memory it frees the reserve, and then waits for memory that other threads free. After a second
 * without memory the process exits with 71, since it could answer no request. A service manager starts it again.
 */
void *arena_realloc(void *p, size_t size)
{
	const struct timespec pause = { 0, 10 * 1000000 };

	for (int i = 0; i < 100; i++) {
		void *fresh = realloc(p, size);

		if (fresh)
			return fresh;
		if (i > 0)
			nanosleep(&pause, NULL);
		else
			log_line(LOG_L_ERROR, "out of memory: no more requests are taken for now");
		free(atomic_exchange(&reserve, NULL));
	}
	log_line(LOG_L_ERROR, "out of memory");
	_exit(EX_OSERR);
}

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *b = a->blocks;
	void *p;

	size = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
	if (!b || b->size - b->used < size) {
		size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;

		b = arena_realloc(NULL, sizeof(*b) + room);
		b->size = room;
		b->used = 0;
		b->next = a->blocks;
		a->blocks = b;
		a->bytes += room;
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
	a->bytes = 0;
}
