/* SPDX-License-Identifier: MIT */
#include "filter.h"

static const char *const states[] = { "dead", "delayed", "cancelled", "expired", NULL };
static int cmd_retry_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		FILTER_OPTIONS(states, "dead and delayed"),
		{ "error", "LINE", "ended jobs whose last error begins so", FILTER_ERROR },
		{ "from-start", NULL, "delete the steps that the jobs have saved", 's' },
		{ "dry-run", NULL, "count the jobs and change nothing", 'n' },
		{ 0 },
	};

	return filter_run(cli, argc, argv, options, "ready", STORE_ADMIN_RETRY, states, store_admin_retry);
}

const struct cmd cmd_retry = {
	"retry",
	"[--from-start] ID...\n[--from-start] [--dry-run] FILTER...",
	"run jobs again",
	cmd_retry_run,
	"deferred_worker",
};
