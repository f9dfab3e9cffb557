/* SPDX-License-Identifier: MIT */
#include "http/head.h"

#include <string.h>

#define EMPTY_BYTES_MAX 32 /* of empty lines before a request, which are ignored */

bool head_is_token(char c)
{
	char letter = (char)(c | 0x20);

	return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static enum head_found refuse_head(struct head *h, enum fault fault, int status)
{
	h->fault = fault;
	h->status = status;
	return HEAD_WRONG;
}

/* The line that CR LF has ended. */
static enum head_found end_line(struct head *h)
{
	if (h->line_len == 0 && h->lines > 0)
		return HEAD_COMPLETE;
	if (h->line_len == 0) {
		h->start = h->len;
		if (h->start > EMPTY_BYTES_MAX)
			return refuse_head(h, FAULT_InvalidInput, 400);
	} else {
		h->lines++;
		h->line_len = 0;
	}
	return HEAD_INCOMPLETE;
}

enum head_found head_scan(struct head *h, const char *bytes, size_t len)
{
	while (h->len < len) {
		char c = bytes[h->len++];
		bool in_line = c != '\r' && c != '\n';

		if (h->after_cr != (c == '\n') || (in_line && h->lines + h->line_len == 0 && !head_is_token(c)))
			return refuse_head(h, h->lines > 0 ? FAULT_InvalidHeaderValue : FAULT_InvalidInput, 400);
		h->after_cr = c == '\r';
		if (c == '\n') {
			enum head_found found = end_line(h);

			if (found != HEAD_INCOMPLETE)
				return found;
		} else if (in_line) {
			bool field = h->lines == 0 ? c == '?' || c == '&' : h->line_len == 0;

			h->line_len++;
			h->cost += field ? 1 + HEAD_FIELD_BYTES : 1;
			if (h->cost > HEAD_MAX)
				return h->lines == 0 ? refuse_head(h, FAULT_InvalidUri, 414)
						     : refuse_head(h, FAULT_InvalidHeaderValue, 431);
		}
	}
	return HEAD_INCOMPLETE;
}
