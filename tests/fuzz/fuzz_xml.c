/* SPDX-License-Identifier: MIT */
/* XML bodies: what was read, written and read again is the same. */
#include "fuzz.h"

#include "protocol/service_xml.h"
#include "http/text.h"
#include "protocol/xml.h"

static void write_node(const struct xml_node *node, struct buf *out)
{
	xml_open(out, node->name);
	if (node->first)
		for (const struct xml_node *child = node->first; child; child = child->next)
			write_node(child, out);
	else
		xml_text(out, node->text, node->text_len);
	xml_close(out, node->name);
}

static void compare(const struct xml_node *a, const struct xml_node *b)
{
	HOLDS(b && strcmp(a->name, b->name) == 0);
	HOLDS(text_is_utf8(a->text, a->text_len) && strlen(a->text) == a->text_len);
	if (!a->first)
		HOLDS(strcmp(a->text, b->text) == 0);
	for (a = a->first, b = b->first; a; a = a->next, b = b->next)
		compare(a, b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct service_properties properties = { 0 }, again = { 0 };
	struct arena arena = { 0 };
	struct buf out = { 0 };
	const struct xml_node *root = size < 1 << 20 ? xml_parse(&arena, (const char *)data, size) : NULL;

	if (root) {
		write_node(root, &out);
		compare(root, xml_parse(&arena, out.p, out.len));
		out.len = 0;
		if (service_xml_read(&arena, (const char *)data, size, &properties) == FAULT_NONE) {
			char *kept = json_write_properties(&properties);

			HOLDS(kept);
			json_read_properties(&arena, kept, &again);
			free(kept);
			HOLDS(again.cors_len == properties.cors_len);
			service_xml_write(&again, &out);
			HOLDS(service_xml_read(&arena, out.p, out.len, &again) == FAULT_NONE);
		}
	}
	buf_clear(&out);
	arena_clear(&arena);
	return 0;
}
