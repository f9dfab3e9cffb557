/* SPDX-License-Identifier: MIT */
/* indent - JSON with a line for each value. Strings and numbers stay byte for byte, so no number is rounded. */
#ifndef INDENT_H
#define INDENT_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* False: it is not JSON, or would become longer than max. Drop what is in `to` then. */
bool indent_json(struct buf *to, const char *text, size_t len, size_t max);

#endif
