/* SPDX-License-Identifier: MIT */
/*
 * html - text that becomes part of a page or of JSON. Whatever comes from outside goes through here: a program that
 * only calls these cannot write markup that it did not spell out itself.
 */
#ifndef HTML_H
#define HTML_H

#include "http/arena.h"

#include <stdbool.h>
#include <stddef.h>

/* Markup, spelt out: takes a literal only. */
#define html_raw(b, literal) buf_add(b, "" literal, sizeof(literal) - 1)

/* Text, or the value of an attribute in quotes. What no browser shows, or what would change the direction of what
 * follows, is shown as U+FFFD or as a picture of itself. */
void html_text(struct buf *b, const char *text);
void html_text_n(struct buf *b, const char *text, size_t len);

/* The value of a field of a form, to go on from: the same, but what no browser shows is there as it was, for it comes
 * back. */
void html_field(struct buf *b, const char *text);

/* One piece of a path, or a value of a query: what is no letter, digit or one of "-_~" becomes %XX. */
void html_url(struct buf *b, const char *text);

/* A string of JSON with its quotes; NULL: null. Safe inside HTML too. */
void html_json(struct buf *b, const char *text);

#endif
