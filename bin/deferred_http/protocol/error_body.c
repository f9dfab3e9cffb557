/* SPDX-License-Identifier: MIT */
#include "protocol/error_body.h"

#include "http/text.h"
#include "protocol/xml.h"

#include <string.h>

void error_body_write(struct reply *reply, const char *request_id, int64_t now_us)
{
	const struct fault_info *info = fault_info(reply->fault);
	const char *message = reply->message ? reply->message : info->message;
	struct buf *body = &reply->body;
	char now[TEXT_ISO_SIZE];

	text_iso8601(now_us, now);
	xml_start(body);
	xml_open(body, "Error");
	xml_element(body, "Code", info->code);
	xml_open(body, "Message");
	xml_text(body, message, strlen(message));
	buf_printf(body, "\nRequestId:%s\nTime:%s", request_id, now);
	xml_close(body, "Message");
	for (size_t i = 0; i < reply->details_len; i++)
		xml_element(body, reply->details[i].name, reply->details[i].value);
	xml_close(body, "Error");
	reply_header(reply, "x-ms-error-code", info->code);
}
