/* SPDX-License-Identifier: MIT */
#include "protocol/queue_metadata.h"

#include "http/text.h"
#include "protocol/json.h"
#include "protocol/xml.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX "x-ms-meta-"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

static bool is_identifier(const char *name)
{
	return name[0] && strchr(LETTERS, name[0]) && !name[strspn(name, LETTERS "0123456789")];
}

enum fault queue_metadata_read(const struct request *r, const char **json)
{
	struct json_pair *pairs = arena_alloc(r->arena, (r->headers_len + 1) * sizeof(*pairs));
	size_t n = 0, bytes = 0;
	char *text;

	for (size_t i = 0; i < r->headers_len; i++) {
		const struct request_header *h = &r->headers[i];
		const char *name = h->spelt + strlen(PREFIX);

		if (strncmp(h->name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		if (!*name)
			return FAULT_EmptyMetadataKey;
		if (!is_identifier(name) || !text_is_utf8(h->value, strlen(h->value)))
			return FAULT_InvalidMetadata;
		bytes += strlen(name) + strlen(h->value);
		pairs[n++] = (struct json_pair){ name, h->value };
	}
	if (bytes > QUEUE_METADATA_MAX_BYTES)
		return FAULT_MetadataTooLarge;
	text = json_write_pairs(pairs, n);
	if (!text)
		return FAULT_ServerBusy;
	*json = arena_copy(r->arena, text, strlen(text));
	free(text);
	return FAULT_NONE;
}

void queue_metadata_headers(const char *json, struct reply *reply)
{
	size_t n;
	struct json_pair *pairs = json_read_pairs(reply->arena, json, &n);

	for (size_t i = 0; i < n; i++)
		if (is_identifier(pairs[i].name))
			reply_header(reply, arena_printf(reply->arena, PREFIX "%s", pairs[i].name), pairs[i].value);
}

void queue_metadata_xml(struct arena *arena, const char *json, struct buf *out)
{
	size_t n;
	struct json_pair *pairs = json_read_pairs(arena, json, &n);

	for (size_t i = 0; i < n; i++)
		if (is_identifier(pairs[i].name))
			xml_element(out, pairs[i].name, pairs[i].value);
}
