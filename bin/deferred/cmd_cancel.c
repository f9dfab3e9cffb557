/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "store_client.h"

static int run(struct cli *cli, int argc, char **argv)
{
	return cli_each_id(cli, argc, argv, "cancelled", store_cancel);
}

const struct cmd cmd_cancel = {
	"cancel", "ID...", "take jobs out of the queue; an attempt in progress is asked to stop, then killed", run, "deferred_producer",
};
