/* SPDX-License-Identifier: MIT */
/* A head from a program is refused with a reason, or all that was read from it is within its bounds. A text that is
 * written into a head is read from it unchanged. */
#include "fuzz.h"

#include "base/text/utf8.h"
#include "program_message.h"

static void check_text(const char *text, const char *line, size_t len)
{
	HOLDS(text);
	HOLDS(text[0] == '\0' || (text >= line && text + strlen(text) < line + len));
}

static void read_head(const uint8_t *data, size_t size)
{
	size_t len = size < MESSAGE_HEAD_MAX ? size : MESSAGE_HEAD_MAX - 1;
	char *line = malloc(len + (len == 0)); /* of that size, so that a byte too many is noticed */
	struct message m;
	const char *wrong;

	HOLDS(line);
	memcpy(line, data, len);
	wrong = message_read(line, len, &m);
	HOLDS(!wrong || *wrong);
	if (!wrong) {
		HOLDS(m.type < MESSAGE_TYPES && m.bytes >= 0 && m.bytes <= MESSAGE_BODY_MAX);
		HOLDS(m.params >= 0 && m.params <= m.bytes);
		check_text(m.name, line, len);
		check_text(m.text, line, len);
		check_text(m.version, line, len);
		check_text(m.outcome, line, len);
	}
	free(line);
}

static void write_head(const uint8_t *data, size_t size)
{
	static struct message_head head;
	char *text = malloc(size + 1);
	struct message m;

	HOLDS(text);
	memcpy(text, data, size);
	text[size] = '\0';
	message_begin(&head, "progress");
	message_put_id(&head, "job", INT64_MAX);
	message_put_text(&head, "text", text);
	message_put_number(&head, "done", INT64_MIN);
	message_end(&head);
	HOLDS(head.len <= MESSAGE_HEAD_MAX && head.data[head.len - 1] == '\n');
	HOLDS(!memchr(head.data, '\n', head.len - 1));
	if (!head.too_long) {
		HOLDS(!message_read(head.data, head.len - 1, &m) && m.type == MESSAGE_PROGRESS);
		HOLDS(m.job == INT64_MAX && m.done == INT64_MIN);
		HOLDS(utf8_prefix(m.text, strlen(m.text)) == strlen(m.text));
		HOLDS(utf8_prefix(text, strlen(text)) < strlen(text) || strcmp(m.text, text) == 0);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_head(data, size);
	write_head(data, size);
	return 0;
}
