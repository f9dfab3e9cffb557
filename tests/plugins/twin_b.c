/* SPDX-License-Identifier: MIT */
/* twin_b - offers a function that twin_a offers too. */
#include <deferred_plugin.h>

static int nothing(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = { { .name = "twin", .run = nothing } };

DEFERRED_PLUGIN("twin_b", "1.0", functions);
