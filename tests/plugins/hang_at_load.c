/* SPDX-License-Identifier: MIT */
/* hang_at_load - never finishes loading. */
#include <deferred_plugin.h>

#include <unistd.h>

static int nothing(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

__attribute__((constructor)) static void hang(void)
{
	for (;;)
		pause();
}

static const struct deferred_function functions[] = { { .name = "never_loaded", .run = nothing } };

DEFERRED_PLUGIN("hang_at_load", "1.0", functions);
