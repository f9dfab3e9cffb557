/* SPDX-License-Identifier: MIT */
#include "gist.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* How lines begin that are about an error and do not say what it is. */
static const char *const around[] = { "Traceback (", "Stack trace:",   "stack backtrace:", "Node.js v",
				      "hint:",       "note: run with", "goroutine ",       "exit status " };

static bool says_something(const char *line, size_t len)
{
	bool letters = false;

	if (isspace((unsigned char)line[0]) || (line[0] == '#' && isdigit((unsigned char)line[1])))
		return false; /* a call, or the source that was at fault */
	for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++)
		if (strncmp(line, around[i], strlen(around[i])) == 0)
			return false;
	for (size_t i = 0; i < len; i++)
		letters |= isalnum((unsigned char)line[i]) || ((unsigned char)line[i] & 0x80);
	return letters;
}

static size_t line_len(const char *line)
{
	return strcspn(line, "\r\n");
}

const char *gist(const char *text, int *len)
{
	const char *found = text;

	for (const char *line = text; *line; line += line_len(line), line += strspn(line, "\r\n"))
		if (line_len(line) > 0 && says_something(line, line_len(line)))
			found = line;
	*len = (int)line_len(found);
	return found;
}
