/* SPDX-License-Identifier: MIT */
/*
 * head - finds the end of a request's head among the bytes of a connection.
 *
 * Each line ends in CR LF, and neither byte occurs elsewhere. A recipient may accept more. But a proxy in front of us
 * could then see another end, and take the rest for another request. request_head() checks what the lines say.
 */
#ifndef HEAD_H
#define HEAD_H

#include "http/fault.h"

#include <stdbool.h>
#include <stddef.h>

#define HEAD_MAX (42 * 1024) /* bytes of a head, where */
#define HEAD_FIELD_BYTES 64  /* each header and parameter counts so much extra */

/* The zero value: no byte of the head was seen. */
struct head {
	size_t start;     /* behind empty lines */
	size_t len;       /* bytes that were checked */
	size_t lines;     /* that are complete */
	size_t line_len;  /* of the line that is not complete */
	size_t cost;      /* counted against HEAD_MAX */
	bool after_cr;    /* the last byte was CR */
	enum fault fault; /* why the head is wrong */
	int status;       /* of that answer */
};

enum head_found { HEAD_INCOMPLETE, HEAD_COMPLETE, HEAD_WRONG };

/* bytes begins where it began in earlier calls. A complete head is from start up to len. */
enum head_found head_scan(struct head *h, const char *bytes, size_t len);

/* A character of methods and of header names. */
bool head_is_token(char c);

#endif
