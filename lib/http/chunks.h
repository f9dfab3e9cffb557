/* SPDX-License-Identifier: MIT */
/*
 * chunks - decodes a body that comes in chunks. Extensions and trailers are checked and dropped. A size has digits
 * only, lines end in CR LF, and a trailer looks like a header.
 */
#ifndef CHUNKS_H
#define CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNKS_DROPPED_MAX 4096 /* bytes of all extensions and trailers of a body */

/* The zero value: no byte of the body was seen. */
struct chunks {
	unsigned state;
	uint64_t left;  /* bytes of data in this chunk; its size so far */
	size_t digits;  /* of the size; bytes of a trailer's name */
	size_t dropped; /* bytes of extensions and trailers */
	bool ended, wrong;
};

/* Reads bytes up to the end of the body or to what is wrong. *data_len bytes of data are now at their beginning.
 * Returns how many bytes were read. */
size_t chunks_read(struct chunks *k, char *bytes, size_t len, size_t *data_len);

#endif
