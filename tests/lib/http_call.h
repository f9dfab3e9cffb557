/* SPDX-License-Identifier: MIT */
/* http_call - a request made of text, for the tests of deferred_http. */
#ifndef HTTP_CALL_H
#define HTTP_CALL_H

#include "http/request.h"
#include "protocol/address.h"

#include <string.h>

/* "GET /path?query\nName: value\nName: value". The arena has to be cleared by the caller. */
static inline enum fault http_call(struct request *r, struct arena *arena, const char *text)
{
	size_t method = strcspn(text, " "), line = strcspn(text, "\n"), target = line > method ? line - method - 1 : 0;
	char name[32] = "";

	memcpy(name, text, method < sizeof(name) ? method : sizeof(name) - 1);
	request_line(r, arena, name, text + method + 1, target);
	for (const char *p = text + line; *p == '\n';) {
		size_t len = strcspn(++p, "\n"), colon = strcspn(p, ":");

		if (len > 0)
			request_header(r, p, colon < len ? colon : len, colon < len ? p + colon + 1 : "",
				       colon < len ? len - colon - 1 : 0);
		p += len;
	}
	return address_read(r);
}

#endif
