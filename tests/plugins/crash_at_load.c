/* SPDX-License-Identifier: MIT */
/* crash_at_load - crashes before anything of it can be checked. */
#include <deferred_plugin.h>

#include <stdlib.h>

static int nothing(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

__attribute__((constructor, no_sanitize("undefined"), no_sanitize("address"))) static void crash(void)
{
	volatile int *volatile p = NULL;

	*p = 1;
}

static const struct deferred_function functions[] = { { .name = "never_reached", .run = nothing } };

DEFERRED_PLUGIN("crash_at_load", "1.0", functions);
