/* SPDX-License-Identifier: MIT */
#include "http/reply.h"

#include <string.h>

void reply_init(struct reply *reply, struct arena *arena)
{
	*reply = (struct reply){ .arena = arena, .status = 200 };
}

/* Some values come from the database. A line end in one would begin a header of its own. */
static const char *without_controls(struct arena *arena, const char *value)
{
	char *copy = NULL;

	for (size_t i = 0; value[i]; i++) {
		if ((unsigned char)value[i] >= ' ' && value[i] != 0x7f)
			continue;
		copy = copy ? copy : arena_copy(arena, value, strlen(value));
		copy[i] = ' ';
	}
	return copy ? copy : value;
}

void reply_header(struct reply *reply, const char *name, const char *value)
{
	if (reply->headers_len == reply->headers_cap) {
		size_t cap = reply->headers_cap ? reply->headers_cap * 2 : 16;
		struct reply_pair *more = arena_alloc(reply->arena, cap * sizeof(*more));

		if (reply->headers_len > 0)
			memcpy(more, reply->headers, reply->headers_len * sizeof(*more));
		reply->headers = more;
		reply->headers_cap = cap;
	}
	reply->headers[reply->headers_len++] = (struct reply_pair){ name, without_controls(reply->arena, value) };
}

void reply_fault(struct reply *reply, enum fault fault)
{
	reply->fault = fault;
	reply->status = fault_info(fault)->status;
	reply->headers_len = 0;
	reply->details_len = 0;
	buf_clear(&reply->body);
}

void reply_detail(struct reply *reply, const char *name, const char *value)
{
	if (reply->details_len < REPLY_DETAILS_MAX)
		reply->details[reply->details_len++] = (struct reply_pair){ name, value };
}

void reply_clear(struct reply *reply)
{
	buf_clear(&reply->body);
}
