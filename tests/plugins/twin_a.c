/* SPDX-License-Identifier: MIT */
/* twin_a - offers a function that twin_b offers too. */
#include <deferred_plugin.h>

static int nothing(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = { { .name = "twin", .run = nothing } };

DEFERRED_PLUGIN("twin_a", "1.0", functions);
