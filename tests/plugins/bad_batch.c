/* SPDX-License-Identifier: MIT */
/* bad_batch - a function that wants more jobs at once than a runner holds. */
#include <deferred_plugin.h>

static int too_many(const struct deferred_call *const *calls, size_t n)
{
	(void)calls;
	(void)n;
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = {
	{ .name = "too_many", .run_many = too_many, .batch = DEFERRED_BATCH_MAX + 1 },
};

DEFERRED_PLUGIN("bad_batch", "1.0", functions);
