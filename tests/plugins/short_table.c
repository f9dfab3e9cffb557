/* SPDX-License-Identifier: MIT */
/* short_table - its table says that it is smaller than any version of it was. */
#include <deferred_plugin.h>

extern DEFERRED_PLUGIN_EXPORT const struct deferred_plugin deferred_plugin;
const struct deferred_plugin deferred_plugin = {
	.abi = DEFERRED_PLUGIN_ABI, .size = 8, .name = "short_table", .version = "1.0"
};
