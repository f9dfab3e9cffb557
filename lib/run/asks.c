/* SPDX-License-Identifier: MIT */
#include "run/asks.h"

#include "run/frame.h"

#include <stdlib.h>
#include <string.h>

void asks_clear(struct asks *asks)
{
	struct attempt rest = { .follow = asks->follow };

	attempt_drop_follow(&rest);
	while (asks->remove) {
		struct runner_path *path = asks->remove;

		asks->remove = path->next;
		free(path);
	}
	asks->follow = NULL;
	asks->follow_tail = NULL;
}

static bool count_ask(struct asks *asks, size_t len)
{
	asks->n++;
	asks->bytes += len + FRAME_ASK_BYTES;
	if (asks->n > FRAME_ASKS_MAX || asks->bytes > FRAME_ASK_BYTES_MAX) {
		asks->too_many = true;
		asks_clear(asks);
	}
	return !asks->too_many;
}

int asks_add_call(struct asks *asks, const char *payload, size_t len)
{
	struct runner_call *call;
	size_t at = 0;

	if (!count_ask(asks, len))
		return 0;
	call = malloc(sizeof(*call) + len + 1);
	if (!call)
		return -1;
	memcpy(call->text, payload, len + 1);
	call->next = NULL;
	call->fn = frame_text(call->text, len, &at);
	call->params = call->fn ? frame_text(call->text, len, &at) : NULL;
	call->opts = call->params ? frame_text(call->text, len, &at) : NULL;
	if (!call->opts) {
		free(call);
		return -1;
	}
	if (!*call->opts)
		call->opts = NULL;
	*(asks->follow_tail ? asks->follow_tail : &asks->follow) = call;
	asks->follow_tail = &call->next;
	return 0;
}

int asks_add_path(struct asks *asks, const char *payload, size_t len)
{
	struct runner_path *path;

	if (!count_ask(asks, len))
		return 0;
	if (len < 2 || payload[0] != '/' || payload[len - 1] != '\0')
		return -1;
	path = malloc(sizeof(*path) + len);
	if (!path)
		return -1;
	memcpy(path->path, payload, len);
	path->next = asks->remove;
	asks->remove = path;
	return 0;
}
