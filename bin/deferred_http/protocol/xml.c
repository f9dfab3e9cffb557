/* SPDX-License-Identifier: MIT */
#include "protocol/xml.h"

#include <expat.h>
#include <stdbool.h>
#include <string.h>

struct parsing {
	struct arena *arena;
	XML_Parser parser;
	struct xml_node *root, *open[XML_DEPTH_MAX], *last_child[XML_DEPTH_MAX];
	struct buf text[XML_DEPTH_MAX];
	int depth, nodes;
	bool refused;
};

static void refuse_document(struct parsing *p)
{
	p->refused = true;
	XML_StopParser(p->parser, XML_FALSE);
}

static void XMLCALL on_doctype(void *data, const XML_Char *name, const XML_Char *system_id, const XML_Char *public_id,
			       int has_subset)
{
	(void)name;
	(void)system_id;
	(void)public_id;
	(void)has_subset;
	refuse_document(data);
}

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
	struct parsing *p = data;
	struct xml_node *node;

	(void)attributes;
	if (p->refused)
		return;
	if (p->depth == XML_DEPTH_MAX || ++p->nodes > XML_NODES_MAX) {
		refuse_document(p);
		return;
	}
	node = arena_alloc(p->arena, sizeof(*node));
	node->name = arena_copy(p->arena, name, strlen(name));
	node->text = "";
	if (p->depth == 0)
		p->root = node;
	else if (p->last_child[p->depth - 1])
		p->last_child[p->depth - 1]->next = node;
	else
		p->open[p->depth - 1]->first = node;
	if (p->depth > 0)
		p->last_child[p->depth - 1] = node;
	p->open[p->depth] = node;
	p->last_child[p->depth] = NULL;
	p->text[p->depth].len = 0;
	p->depth++;
}

static void XMLCALL on_end(void *data, const XML_Char *name)
{
	struct parsing *p = data;
	struct buf *text;

	(void)name;
	if (p->refused)
		return;
	text = &p->text[--p->depth];
	if (text->len > 0) {
		p->open[p->depth]->text = arena_copy(p->arena, text->p, text->len);
		p->open[p->depth]->text_len = text->len;
	}
}

static void XMLCALL on_text(void *data, const XML_Char *text, int len)
{
	struct parsing *p = data;

	if (!p->refused && p->depth > 0)
		buf_add(&p->text[p->depth - 1], text, (size_t)len);
}

struct xml_node *xml_parse(struct arena *arena, const char *document, size_t len)
{
	struct parsing p = { .arena = arena, .parser = XML_ParserCreate("UTF-8") };
	bool ok;

	if (!p.parser)
		return NULL;
	XML_SetUserData(p.parser, &p);
	XML_SetElementHandler(p.parser, on_start, on_end);
	XML_SetCharacterDataHandler(p.parser, on_text);
	XML_SetStartDoctypeDeclHandler(p.parser, on_doctype);
	ok = XML_Parse(p.parser, document, (int)len, XML_TRUE) == XML_STATUS_OK && !p.refused;
	XML_ParserFree(p.parser);
	for (int i = 0; i < XML_DEPTH_MAX; i++)
		buf_clear(&p.text[i]);
	return ok ? p.root : NULL;
}

struct xml_node *xml_child(const struct xml_node *parent, const char *name)
{
	struct xml_node *node = parent ? parent->first : NULL;

	while (node && strcmp(node->name, name) != 0)
		node = node->next;
	return node;
}

const char *xml_child_text(const struct xml_node *parent, const char *name)
{
	const struct xml_node *node = xml_child(parent, name);

	return node ? node->text : NULL;
}

/* ---- writing ----------------------------------------------------------------------------------- */

void xml_start(struct buf *out)
{
	buf_text(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?>");
}

/* The entity for the byte at p, or U+FFFD for what XML cannot carry. It stands for *len bytes. */
static const char *entity_of(const unsigned char *p, size_t left, size_t *len)
{
	*len = 1;
	if (*p == '&')
		return "&amp;";
	if (*p == '<')
		return "&lt;";
	if (*p == '>')
		return "&gt;";
	if (*p == '\r')
		return "&#xD;";
	if (*p < 0x20 && *p != '\t' && *p != '\n')
		return "\xef\xbf\xbd";
	if (*p == 0xef && left >= 3 && p[1] == 0xbf && p[2] >= 0xbe) { /* U+FFFE, U+FFFF */
		*len = 3;
		return "\xef\xbf\xbd";
	}
	return NULL;
}

void xml_text(struct buf *out, const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + len, *from = p;

	while (p < end) {
		size_t used;
		const char *other = *p >= 0x40 && *p != 0xef ? NULL : entity_of(p, (size_t)(end - p), &used);

		if (!other) {
			p++;
			continue;
		}
		buf_add(out, (const char *)from, (size_t)(p - from));
		buf_text(out, other);
		from = p += used;
	}
	buf_add(out, (const char *)from, (size_t)(end - from));
}

void xml_open(struct buf *out, const char *name)
{
	buf_add(out, "<", 1);
	buf_text(out, name);
	buf_add(out, ">", 1);
}

void xml_close(struct buf *out, const char *name)
{
	buf_add(out, "</", 2);
	buf_text(out, name);
	buf_add(out, ">", 1);
}

void xml_element(struct buf *out, const char *name, const char *text)
{
	if (!text[0]) {
		buf_add(out, "<", 1);
		buf_text(out, name);
		buf_add(out, "/>", 2);
		return;
	}
	xml_open(out, name);
	xml_text(out, text, strlen(text));
	xml_close(out, name);
}
