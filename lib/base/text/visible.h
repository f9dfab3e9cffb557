/* SPDX-License-Identifier: MIT */
/*
 * visible - text from others as people get to see it, on a terminal or in a log: one home for what is escaped.
 *
 * It escapes characters that act on a terminal: C0, C1 and DEL. It escapes characters that make a line look like two or
 * like another one: line ends, marks of direction, characters without width. Bytes that are not UTF-8 are escaped too.
 * The result is valid UTF-8 on one line.
 */
#ifndef VISIBLE_H
#define VISIBLE_H

#include <stddef.h>

#define VISIBLE_MAX 8

/*
 * The first character of a text that is not empty, as it is or escaped: \n, \x1b for a byte, \u202e for a character
 * beyond.
 *
 * out  receives it, with a NUL
 *
 * Returns how many bytes of the text that was.
 */
size_t visible_char(const char *text, char out[VISIBLE_MAX]);

#endif
