/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "migrate.h"

#include <stdio.h>

struct progress {
	bool json, dry_run;
	int steps;
};

static void on_step(void *data, const struct sql_migration *step)
{
	struct progress *progress = data;

	progress->steps++;
	if (progress->json)
		printf("%s{\"version\": %d, \"name\": \"%s\"}", progress->steps > 1 ? ", " : "", step->version, step->name);
	else if (progress->dry_run)
		printf("-- migration %d: %s\nbegin;\n%s\n"
		       "insert into deferred.__deferred_migration (version, name) values (%d, '%s');\ncommit;\n", step->version, step->name, step->text, step->version, step->name);
	else
		printf("migration %d: %s\n", step->version, step->name);
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = { { "dry-run", no_argument, NULL, 'n' }, { 0 } };
	struct progress progress = { 0 };
	struct deferred_error err = { 0 };
	int version, c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c != 'n')
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		progress.dry_run = true;
	}
	if (optind < argc)
		return cli_usage(cli, "unexpected argument \"%s\"", argv[optind]);
	if ((rc = cli_connect(cli, false)) != 0)
		return rc;
	progress.json = cli->json;
	if (cli->json)
		printf("{\"%s\": [", progress.dry_run ? "pending" : "applied");
	rc = progress.dry_run ? migrate_plan(cli->pg, on_step, &progress, &err) : migrate_run(cli->pg, on_step, &progress, &err);
	if (rc == 0)
		rc = migrate_version(cli->pg, &version, &err);
	if (cli->json)
		printf("], \"version\": %d}\n", rc == 0 ? version : 0);
	if (rc < 0)
		return cli_fail(&err);
	if (!cli->json && !progress.dry_run && progress.steps == 0)
		printf("nothing to do: the schema has version %d\n", version);
	return EX_OK;
}

const struct cmd cmd_migrate = {
	"migrate", "[--dry-run]", "bring the database up to the schema of this program", run,
};
