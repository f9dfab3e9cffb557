/* SPDX-License-Identifier: MIT */
/*
 * outlet - lines written to a descriptor by a process that must never wait for the reader. Nobody may read a pipe, and
 * a terminal can be stopped. Lines that find no room are kept, up to OUTLET_KEPT bytes, and written later. Lines beyond
 * that are counted and lost.
 *
 * A pipe is opened again, because O_NONBLOCK belongs to all who share the open file. If that fails, the pipe is polled
 * before each write; nobody else may fill it in between. Writes to a regular file are not changed.
 *
 * For one thread at a time. All zero: not begun, and nothing is written.
 */
#ifndef OUTLET_H
#define OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTLET_KEPT (256u << 10)

struct outlet {
	int kind; /* outlet.c */
	int fd;
	char kept[OUTLET_KEPT];
	size_t len;
	bool torn; /* the line written last has no end yet */
	uint64_t lost;
	int why;
};

void outlet_begin(struct outlet *out, int fd); /* which stays the caller's. Again: what is kept goes there */
void outlet_end(struct outlet *out);
bool outlet_begun(const struct outlet *out);
void outlet_put(struct outlet *out, const char *line, size_t len); /* whole, with its end; after outlet_flush() */
void outlet_flush(struct outlet *out, int patience_ms);            /* write what is kept, and wait so long for room */
int outlet_fd(const struct outlet *out); /* something is kept: to be polled for POLLOUT, then outlet_flush(); else -1 */

/* The number of lost lines, once the lines kept before them are written, and 0 before that. Reading it resets it. why:
 * errno. */
uint64_t outlet_take_lost(struct outlet *out, int *why);
void outlet_lost(struct outlet *out, uint64_t lines, int why); /* it could not be said */

#endif
