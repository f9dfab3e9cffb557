/* SPDX-License-Identifier: MIT */
/*
 * html - text that becomes part of a page or of JSON. All that comes from outside goes through here. A program that
 * calls only these functions cannot write markup that it did not spell out itself.
 */
#ifndef HTML_H
#define HTML_H

#include "http/arena.h"
#include "http/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Markup, spelt out: takes a literal only. */
#define html_raw(b, literal) buf_add(b, "" literal, sizeof(literal) - 1)

/*
 * Markup with values in it. The format is a literal. %s is a text as html_text() writes it, %.s as html_json() does,
 * and
 * %-s is markup of ours. Numbers are %d, %u, %zu, %.1f and PRId64, without widths.
 */
#define html_printf(b, ...) html_format(b, "" __VA_ARGS__)
void html_format(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Text, or the value of an attribute in quotes. U+FFFD or a picture of itself stands for what no browser shows, and
 * for what would change the direction of the text behind it. NULL: nothing. */
void html_text(struct buf *b, const char *text);
void html_text_n(struct buf *b, const char *text, size_t len);

/* The same for a field of a form. Characters that no browser shows stay, because they come back. */
void html_field(struct buf *b, const char *text);

/* One piece of a path, or a value of a query, in the arena. Letters, digits and "-_~" stay, others become %XX. */
const char *html_url(struct arena *arena, const char *text);

/* A string of JSON with its quotes; NULL: null. Safe inside HTML too. */
void html_json(struct buf *b, const char *text);

#endif
