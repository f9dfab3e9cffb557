/* SPDX-License-Identifier: MIT */
/* Functions for all steps of send_mail: the reason of a failure, and settings. */
#include "send_mail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int fail(struct sending *s, int result, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s->why, sizeof(s->why), fmt, ap);
	va_end(ap);
	return result;
}

const char *setting(const struct sending *s, const char *name)
{
	const char *value = s->call->host->setting(s->call, name);

	return value && *value ? value : NULL;
}

long setting_number(const struct sending *s, const char *name, long def)
{
	const char *text = setting(s, name);

	return text ? strtol(text, NULL, 10) : def;
}
