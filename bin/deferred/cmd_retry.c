/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "store/admin.h"

static int run(struct cli *cli, int argc, char **argv)
{
	return cli_each_id(cli, argc, argv, "ready", store_admin_retry);
}

const struct cmd cmd_retry = {
	"retry", "ID...", "have dead, cancelled, expired or delayed jobs run now, with all their attempts again", run, "deferred_worker",
};
