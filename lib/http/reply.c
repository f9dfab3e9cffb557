/* SPDX-License-Identifier: MIT */
#include "http/reply.h"

#include <string.h>

void reply_init(struct reply *reply, struct arena *arena)
{
	*reply = (struct reply){ .arena = arena, .status = 200 };
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
	reply->headers[reply->headers_len++] = (struct reply_pair){ name, value };
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
