/* SPDX-License-Identifier: MIT */
/*
 * wire - the bytes of a connection on their way to libmicrohttpd, which takes more than it should: lines that are
 * folded or end in a bare LF, names that are empty, sizes of chunks with anything behind them. Whoever stands in front
 * of us may read these in another way, and then it is in doubt where a request ends and whose the next one is.
 *
 * So only what can be read in one way is passed on, and chunks without their extensions and trailers. Where something
 * else comes the request is ended on the spot, so that it is whole to libmicrohttpd, and marked; the rest is dropped.
 * The same is done with what libmicrohttpd would refuse by itself: that way each refusal is an answer of ours.
 */
#ifndef WIRE_H
#define WIRE_H

#include "http/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_HEAD_MAX (42 * 1024) /* what the headers of a request cost libmicrohttpd */
#define WIRE_FIELD_BYTES 64       /* of it for a header or parameter, beside its text */
#define WIRE_LATER_BYTES 128

struct wire {
	bool tls; /* set before anything has come */
	unsigned state;
	unsigned requests; /* how many have begun */
	/* Of the one that began last. */
	size_t cost;
	char name[20]; /* of the header, in lower case; longer ones are none of those that count here */
	size_t name_len, value_len;
	bool has_host, has_length, chunked, old;
	uint64_t left; /* of the body, or of the chunk */
	size_t digits;
	size_t line; /* what was dropped: empty lines before it, or of its chunks */

	bool broken;                  /* the request that began last was ended here: */
	enum fault fault;             /* why */
	int status;                   /* and what the answer is to say */
	char later[WIRE_LATER_BYTES]; /* to be passed on, but for want of room */
	size_t later_len;
};

/* The zero value is a connection of HTTP on which nothing has come. */

/* Take all of `in`. Returns how much was written to out, up to room, which is >= len; what is more comes by
 * wire_later(). */
size_t wire_pass(struct wire *w, const char *in, size_t len, char *out, size_t room);
size_t wire_later(struct wire *w, char *out, size_t room);

#endif
