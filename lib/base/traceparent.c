/* SPDX-License-Identifier: MIT */
#include "base/traceparent.h"

#include <string.h>

bool traceparent_valid(const char *text)
{
	static const char form[TRACEPARENT_SIZE] = TRACEPARENT_FORM;

	if (strlen(text) != sizeof(form) - 1)
		return false;
	for (size_t i = 0; text[i]; i++)
		if (form[i] == '-' ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
			return false;
	/* No version is ff, and neither id is all zeros. */
	return strncmp(text, "ff", 2) != 0 && strspn(text + 3, "0") < 32 && strspn(text + 36, "0") < 16;
}
