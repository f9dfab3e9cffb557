/* SPDX-License-Identifier: MIT */
#include "runner_process.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

struct runner_state state;

void flush_frames(void)
{
	if (frame_flush(&state.out, FRAME_SOCKET_FD, 0) < 0)
		_exit(EX_OSERR); /* the parent is gone, or a plugin closed the socket: nobody to talk to */
}

void send_frame(enum frame_type type, unsigned int slot, const struct frame_part *parts, size_t n)
{
	size_t before = state.out.len - state.out.at;

	if (frame_put(&state.out, type, slot, parts, n) < 0)
		_exit(EX_OSERR);
	state.bytes_sent += state.out.len - state.out.at - before;
}

void *state_grow(void *array, size_t *len, size_t size)
{
	void *bigger = realloc(array, (*len + 1) * size);

	if (!bigger)
		_exit(EX_OSERR);
	++*len;
	return bigger;
}

char *state_copy(const char *text)
{
	char *s = strdup(text ? text : "");

	if (!s)
		_exit(EX_OSERR);
	return s;
}

struct command *command_add(const char *name, int64_t timeout_ms, int32_t max_attempts)
{
	struct command *c;

	state.commands = state_grow(state.commands, &state.commands_len, sizeof(*state.commands));
	c = &state.commands[state.commands_len - 1];
	*c = (struct command){ .name = state_copy(name), .timeout_ms = timeout_ms, .max_attempts = max_attempts };
	return c;
}

static int commands_compare(const void *a, const void *b)
{
	return strcmp(((const struct command *)a)->name, ((const struct command *)b)->name);
}

void commands_sort(void)
{
	if (state.commands_len > 0)
		qsort(state.commands, state.commands_len, sizeof(*state.commands), commands_compare);
}

const struct command *command_find(const char *name)
{
	struct command key = { .name = (char *)name };

	return state.commands_len == 0
		       ? NULL
		       : bsearch(&key, state.commands, state.commands_len, sizeof(key), commands_compare);
}
