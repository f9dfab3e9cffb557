/* SPDX-License-Identifier: MIT */
/* wrong_abi - a plugin made for an ABI to come. */
#include <deferred_plugin.h>

static int nothing(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = { { .name = "from_the_future", .run = nothing } };

extern DEFERRED_PLUGIN_EXPORT const struct deferred_plugin deferred_plugin;
const struct deferred_plugin deferred_plugin = {
	.abi = DEFERRED_PLUGIN_ABI + 1,
	.size = sizeof(struct deferred_plugin),
	.name = "wrong_abi",
	.version = "1.0",
	.functions = functions,
	.functions_len = 1,
	.function_size = sizeof(functions[0]),
};
