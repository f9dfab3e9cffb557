/* SPDX-License-Identifier: MIT */
#include "filter.h"

static const char *const states[] = { "dead", "delayed", "cancelled", "expired", NULL };
static const struct cli_value values[] = { { "state", states }, { 0 } };

static int run(struct cli *cli, int argc, char **argv)
{
	return filter_run(cli, argc, argv, "ready", STORE_ADMIN_RETRY, states, store_admin_retry);
}

const struct cmd cmd_retry = {
	"retry", "ID... | [--dry-run] [--state STATE] [--error LINE] " FILTER_USAGE,
	"have dead, cancelled, expired or delayed jobs run now, with all their attempts again", run, "deferred_worker", NULL, values,
};
