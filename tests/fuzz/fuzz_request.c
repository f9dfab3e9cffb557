/* SPDX-License-Identifier: MIT */
/* Request line and headers: what they address, which operation that is, the metadata they carry. */
#include "fuzz.h"

#include "protocol/queue_metadata.h"
#include "protocol/operation.h"
#include "http/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct operation *op = NULL;
	struct arena arena = { 0 };
	const char *json = NULL;
	struct reply reply;
	struct request r;

	if (fuzz_request(&r, &arena, (const char *)data, size) == FAULT_NONE) {
		HOLDS(r.raw_path[0] == '/');
		HOLDS(!r.broken);
		HOLDS(text_is_utf8(r.queue, strlen(r.queue)) && text_is_utf8(r.id, strlen(r.id)));
		for (size_t i = 1; i < r.headers_len; i++)
			HOLDS(strcmp(r.headers[i - 1].name, r.headers[i].name) < 0);
		for (size_t i = 0; i < r.params_len; i++)
			HOLDS(text_is_utf8(r.params[i].value, strlen(r.params[i].value)));
		if (r.verb != VERB_OPTIONS && operation_find(&r, &op) == FAULT_NONE) {
			HOLDS(op && (op->verbs & r.verb) && op->level == r.level);
			HOLDS(r.level == LEVEL_ACCOUNT || r.queue[0]);
		}
		/* What is kept comes back as the header it was. */
		if (queue_metadata_read(&r, &json) == FAULT_NONE) {
			reply_init(&reply, &arena);
			queue_metadata_headers(json, &reply);
			for (size_t i = 0; i < reply.headers_len; i++)
				HOLDS(strpbrk(reply.headers[i].value, "\r\n") == NULL &&
				      strncmp(reply.headers[i].name, "x-ms-meta-", 10) == 0);
		}
	}
	arena_clear(&arena);
	return 0;
}
