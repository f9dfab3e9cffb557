/* SPDX-License-Identifier: MIT */
#include "names.h"

#include <string.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
#define DIGITS "0123456789"

bool names_is_function(const char *name)
{
	size_t len = name ? strspn(name, LETTERS DIGITS ".") : 0;

	return len > 0 && len <= NAMES_FUNCTION_MAX && name[len] == '\0' && strchr(LETTERS, name[0]);
}

bool names_is_queue(const char *name)
{
	size_t len = strspn(name, LETTERS DIGITS ".-");

	return len > 0 && len <= NAMES_QUEUE_MAX && name[len] == '\0' && strchr(LETTERS DIGITS, name[0]);
}

bool names_is_pattern(const char *name)
{
	size_t len = strspn(name, LETTERS DIGITS ".-");

	return len < NAMES_QUEUE_MAX && strcmp(name + len, "*") == 0 && strchr(LETTERS DIGITS "*", name[0]);
}
