/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "migrate.h"
#include "store_admin.h"

#include <stdio.h>
#include <string.h>

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

static void hint_rights(struct pg *pg, struct deferred_error *err)
{
	struct pg_result *res = NULL;

	if (strcmp(err->sqlstate, "42501") == 0 && store_admin_migrate_rights(pg, &res, NULL) == 0) {
		const char *say = pg_text(res, 0, 0, NULL);

		error_hint(err, "migrate as a superuser%s%s", say[0] ? ", or have one say: " : "", say);
	}
	pg_result_free(res);
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = { { "dry-run", no_argument, NULL, 'n' }, { 0 } };
	struct progress progress = { 0 };
	struct deferred_error err = { 0 };
	int version = 0, c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c != 'n')
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		progress.dry_run = true;
	}
	if (optind < argc)
		return cli_usage(cli, "unexpected argument \"%.64s\"", argv[optind]);
	if ((rc = cli_connect(cli, false)) != 0)
		return rc;
	progress.json = cli->json;
	if (cli->json)
		printf("{\"%s\": [", progress.dry_run ? "pending" : "applied");
	rc = progress.dry_run ? migrate_plan(cli->pg, on_step, &progress, &err) : migrate_run(cli->pg, on_step, &progress, &err);
	if (migrate_version(cli->pg, &version, rc == 0 ? &err : NULL) == 0 && cli->json)
		printf("], \"version\": %d}\n", version);
	else if (cli->json)
		puts("], \"version\": null}");
	if (err.code) {
		hint_rights(cli->pg, &err);
		return cli_fail(cli, &err);
	}
	if (!cli->json && !progress.dry_run && progress.steps == 0)
		printf("nothing to do: the schema has version %d\n", version);
	return EX_OK;
}

const struct cmd cmd_migrate = {
	"migrate", "[--dry-run]", "bring the database up to the schema of this program", run, NULL,
};
