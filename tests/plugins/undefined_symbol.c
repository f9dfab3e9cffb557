/* SPDX-License-Identifier: MIT */
/* undefined_symbol - calls what nobody defines. */
#include <deferred_plugin.h>

int nobody_defines_this(void);

static int call_it(const struct deferred_call *call)
{
	(void)call;
	return nobody_defines_this();
}

static const struct deferred_function functions[] = { { .name = "call_it", .run = call_it } };

DEFERRED_PLUGIN("undefined_symbol", "1.0", functions);
