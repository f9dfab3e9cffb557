/* SPDX-License-Identifier: MIT */
/* newer_header - a plugin built with a later header of the same ABI: tables and functions have more members. */
#include <deferred_plugin.h>

static int nothing(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

struct later_function {
	struct deferred_function v1;
	const char *added;
};
struct later_plugin {
	struct deferred_plugin v1;
	const char *added;
};

static const struct later_function functions[] = {
	{ .v1 = { .name = "later_one", .run = nothing, .timeout_ms = 1000 }, .added = "x" },
	{ .v1 = { .name = "later_two", .run = nothing, .timeout_ms = 2000 }, .added = "x" },
};

extern DEFERRED_PLUGIN_EXPORT const struct later_plugin deferred_plugin;
const struct later_plugin deferred_plugin = {
	.v1 = { DEFERRED_PLUGIN_ABI, sizeof(struct later_plugin), "newer_header", "2.0", &functions[0].v1, 2,
		sizeof(functions[0]) },
	.added = "x",
};
