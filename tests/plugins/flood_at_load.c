/* SPDX-License-Identifier: MIT */
/* flood_at_load - tells check_deferred of functions with names of a megabyte, before anything of it can be checked. */
#include <deferred_plugin.h>

#include "run/frame.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NAME_BYTES (1u << 20)
#define NAMES 200

static int nothing(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

static void send_all(const char *p, size_t len)
{
	while (len > 0) {
		ssize_t n = send(FRAME_SOCKET_FD, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		p += n;
		len -= (size_t)n;
	}
}

__attribute__((constructor)) static void flood(void)
{
	const size_t len = sizeof(struct frame_function) + NAME_BYTES + 2;
	struct frame_head head = { .len = (uint32_t)len, .type = FRAME_FUNCTION };
	char *payload = calloc(1, len);

	for (int i = 0; payload && i < NAMES; i++) {
		memset(payload + sizeof(struct frame_function), 'a' + i % 26, NAME_BYTES);
		send_all((const char *)&head, sizeof(head));
		send_all(payload, len);
	}
	free(payload);
}

static const struct deferred_function functions[] = { { .name = "never_reached", .run = nothing } };

DEFERRED_PLUGIN("flood_at_load", "1.0", functions);
