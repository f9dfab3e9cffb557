/* SPDX-License-Identifier: MIT */
#include "indent.h"

#include "http/buf.h"

#define STEP 2
#define DEEPEST 32 /* levels that are indented */

static void indent_line(struct buf *to, size_t depth)
{
	static const char spaces[] = "                                                                ";

	buf_add(to, "\n", 1);
	buf_add(to, spaces, STEP * (depth < DEEPEST ? depth : DEEPEST));
}

/* The bytes of a string, with its quotes; 0: it does not end. */
static size_t string_len(const char *text, size_t len)
{
	for (size_t i = 1; i < len; i++) {
		if (text[i] == '\\')
			i++;
		else if (text[i] == '"')
			return i + 1;
	}
	return 0;
}

static size_t count_blanks(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && (text[n] == ' ' || text[n] == '\t' || text[n] == '\n' || text[n] == '\r'))
		n++;
	return n;
}

bool indent_json(struct buf *to, const char *text, size_t len, size_t max)
{
	size_t depth = 0, begin = to->len;

	for (size_t i = 0, n; i < len; i += n) {
		n = 1;
		if (to->len - begin > max)
			return false;
		switch (text[i]) {
		case ' ':
		case '\t':
		case '\n':
		case '\r':
			break;
		case '"':
			n = string_len(text + i, len - i);
			if (n == 0)
				return false;
			buf_add(to, text + i, n);
			break;
		case '{':
		case '[':
			buf_add(to, text + i, 1);
			n += count_blanks(text + i + 1, len - i - 1);
			/* An empty object or array stays on one line. */
			if (i + n < len && (text[i + n] == '}' || text[i + n] == ']')) {
				buf_add(to, text + i + n, 1);
				n++;
			} else {
				indent_line(to, ++depth);
			}
			break;
		case '}':
		case ']':
			if (depth == 0)
				return false;
			indent_line(to, --depth);
			buf_add(to, text + i, 1);
			break;
		case ',':
			buf_add(to, ",", 1);
			indent_line(to, depth);
			break;
		case ':':
			buf_add(to, ": ", 2);
			break;
		default:
			buf_add(to, text + i, 1);
		}
	}
	return depth == 0 && !to->failed && to->len - begin <= max;
}
