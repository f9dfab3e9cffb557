/* SPDX-License-Identifier: MIT */
/*
 * xml_out - writing XML. &, < and > are escaped as named entities, since widespread clients do not decode numeric ones.
 * A carriage return is a numeric entity: parsers read the character itself as a line feed. No white space is put
 * between elements. What XML cannot carry becomes U+FFFD.
 */
#ifndef XML_OUT_H
#define XML_OUT_H

#include "http/arena.h"

void xml_start(struct buf *out); /* the line that says it is XML */
void xml_text(struct buf *out, const char *text, size_t len);
void xml_open(struct buf *out, const char *name);
void xml_close(struct buf *out, const char *name);
void xml_element(struct buf *out, const char *name,
		 const char *text); /* <name>text</name>; <name/> where the text is "" */

#endif
