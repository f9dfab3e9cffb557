/* SPDX-License-Identifier: MIT */
/* Functions for all steps of http: the reason of a failure, and settings. */
#include "outbound.h"

#include <stdarg.h>
#include <stdio.h>

int outbound_fail(struct outbound *o, int result, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(o->why, sizeof(o->why), fmt, ap);
	va_end(ap);
	return result;
}

const char *outbound_setting(const struct outbound *o, const char *name)
{
	const char *value = o->call->host->setting(o->call, name);

	return value && *value ? value : NULL;
}
