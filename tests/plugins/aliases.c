/* SPDX-License-Identifier: MIT */
/* aliases - a function of several names, with limits of its own. */
#include <deferred_plugin.h>

static int say_name(const struct deferred_call *call)
{
	call->host->result(call, call->fn, __builtin_strlen(call->fn));
	return DEFERRED_OK;
}

static const char *const also[] = { "say_it", "old.name", 0 };
static const struct deferred_function functions[] = {
	{ .name = "say_name", .run = say_name, .timeout_ms = 1500, .max_attempts = 2, .aliases = also },
};

DEFERRED_PLUGIN("aliases", "1.0", functions);
