/* SPDX-License-Identifier: MIT */
#include "filter.h"

static int run(struct cli *cli, int argc, char **argv)
{
	static const char *const states[] = { "dead", "delayed", "cancelled", "expired", NULL };

	return filter_run(cli, argc, argv, "ready", STORE_ADMIN_RETRY, states, store_admin_retry);
}

const struct cmd cmd_retry = {
	"retry", "ID... | [--dry-run] [--state STATE] " FILTER_USAGE,
	"have dead, cancelled, expired or delayed jobs run now, with all their attempts again", run, "deferred_worker",
};
