/* SPDX-License-Identifier: MIT */
#include "base/attempt.h"

#include "base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

static size_t held_bytes; /* of all attempts */

void attempt_hold(struct attempt *attempt, size_t ask_bytes)
{
	attempt->held = ask_bytes + attempt->error_len + attempt->result_len;
	held_bytes += attempt->held;
}

size_t attempt_held_bytes(void)
{
	return held_bytes;
}

void attempt_free(struct attempt *attempt)
{
	struct runner_path *path;

	if (!attempt)
		return;
	held_bytes -= attempt->held;
	attempt_drop_follow(attempt);
	while ((path = attempt->remove)) {
		attempt->remove = path->next;
		free(path);
	}
	free(attempt->error);
	free(attempt->result);
	free(attempt->step);
	free(attempt->job);
	free(attempt);
}

/* A copy fit for a text column: valid UTF-8, no NUL, not longer than JOB_TEXT_MAX. */
static char *clean_text(const char *text, size_t len, size_t *out_len)
{
	size_t at = 0;
	char *copy;

	if (len > JOB_TEXT_MAX)
		len = JOB_TEXT_MAX;
	copy = malloc(len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	while ((at += utf8_prefix(copy + at, len - at)) < len)
		copy[at] = '?';
	copy[len] = '\0';
	*out_len = len;
	return copy;
}

void attempt_set_text(char **text, size_t *text_len, const char *data, size_t len)
{
	free(*text);
	*text = clean_text(data, len, text_len);
}

void attempt_set_error(struct attempt *attempt, const char *text)
{
	attempt_set_text(&attempt->error, &attempt->error_len, text, strlen(text));
}

void attempt_drop_follow(struct attempt *attempt)
{
	while (attempt->follow) {
		struct runner_call *call = attempt->follow;

		attempt->follow = call->next;
		free(call);
	}
}
