/* SPDX-License-Identifier: MIT */
/* indent - JSON with a line for each value. Strings and numbers stay byte for byte: no number is read, so none is
 * rounded. */
#ifndef INDENT_H
#define INDENT_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* False: it would become longer than max, or is no JSON; what is in `to` then is to be thrown away. */
bool indent_json(struct buf *to, const char *text, size_t len, size_t max);

#endif
