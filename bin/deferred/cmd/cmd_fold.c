/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "store/figures.h"

#include <inttypes.h>
#include <stdio.h>

static int cmd_fold_run(struct cli *cli, int argc, char **argv)
{
	enum { OPT_REBUILD };
	static const struct program_option own[] = {
		{ "rebuild", NULL, "compute all sums again from the history", OPT_REBUILD },
		{ 0 },
	};
	struct store_folded folded = { 0 };
	struct deferred_error err = { 0 };
	bool rebuild = false;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, own)) != CLI_OPT_DONE) {
		if (c != OPT_REBUILD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		rebuild = true;
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if (rebuild)
		cli->role = "deferred_owner";
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	cli_set_limits(cli, true);
	rc = rebuild ? fold_rebuild_exec(cli->pg, &err) : 0;
	if (rc == 0)
		rc = store_fold(cli->pg, 0, &folded, &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		printf("{\"attempts\": %" PRId64 ", \"deferred\": %" PRId64 ", \"done\": %s}\n", folded.attempts,
		       folded.arrived, folded.busy ? "false" : "true");
	else if (folded.busy)
		puts("somebody else is at it");
	else
		printf("%" PRId64 " attempts and %" PRId64 " deferred jobs added to the sums\n", folded.attempts,
		       folded.arrived);
	return folded.busy ? CLI_NOT_DONE : EX_OK;
}

const struct cmd cmd_fold = {
	"fold", "[--rebuild]", "bring the sums behind figures up to date", cmd_fold_run, "deferred_worker",
};
