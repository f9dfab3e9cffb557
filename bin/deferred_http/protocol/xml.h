/* SPDX-License-Identifier: MIT */
/*
 * xml - reads an XML document as a small tree, and writes XML. It is the only file to include expat.
 *
 * A document is UTF-8 whatever it declares. Documents with a document type, with elements deeper than XML_DEPTH_MAX or
 * with more than XML_NODES_MAX of them are refused. Line ends are LF, as XML demands.
 *
 * Written text has named entities for &, < and >, since many clients do not decode numeric ones. A carriage return is a
 * numeric entity, since parsers read the character as a line feed. There is no white space between elements. What XML
 * cannot carry becomes U+FFFD.
 */
#ifndef XML_H
#define XML_H

#include "http/arena.h"
#include "http/buf.h"

#define XML_DEPTH_MAX 8
#define XML_NODES_MAX 400

struct xml_node {
	const char *name;
	const char *text; /* all text in it, joined; "" */
	size_t text_len;
	struct xml_node *first, *next;
};

/* NULL: not well-formed, or refused. Everything lives in the arena. */
struct xml_node *xml_parse(struct arena *arena, const char *document, size_t len);

/* The first child of that name. NULL: none. parent may be NULL. */
struct xml_node *xml_child(const struct xml_node *parent, const char *name);

/* Text of the first child of that name. NULL: none. */
const char *xml_child_text(const struct xml_node *parent, const char *name);

void xml_start(struct buf *out); /* the line that says it is XML */
void xml_text(struct buf *out, const char *text, size_t len);
void xml_open(struct buf *out, const char *name);
void xml_close(struct buf *out, const char *name);
void xml_element(struct buf *out, const char *name, const char *text); /* text "": <name/> */

#endif
