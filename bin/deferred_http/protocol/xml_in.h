/* SPDX-License-Identifier: MIT */
/*
 * xml_in - an XML document as a small tree; the only file to include expat.
 *
 * UTF-8 whatever the document says of itself. A document type, elements nested deeper than XML_DEPTH_MAX, or more than
 * XML_NODES_MAX of them are refused. Line ends are LF, as XML demands.
 */
#ifndef XML_IN_H
#define XML_IN_H

#include "http/arena.h"

#define XML_DEPTH_MAX 8
#define XML_NODES_MAX 400

struct xml_node {
	const char *name;
	const char *text; /* all text in it, together; "" where there is none */
	size_t text_len;
	struct xml_node *first, *next;
};

/* NULL: not well-formed, or refused. Everything lives in the arena. */
struct xml_node *xml_parse(struct arena *arena, const char *document, size_t len);

/* The first child of that name. NULL: none. parent may be NULL. */
struct xml_node *xml_child(const struct xml_node *parent, const char *name);

/* Text of the first child of that name. NULL: none. */
const char *xml_child_text(const struct xml_node *parent, const char *name);

#endif
