/* SPDX-License-Identifier: MIT */
/*
 * History for a server of its own: rows of calls and of attempts are added and, long after, purged, never changed, so
 * PostgreSQL's logical replication carries them off as they are. This prints the statements; psql runs them.
 */
#include "cmd.h"

#include "store/admin.h"

#include <stdio.h>
#include <string.h>

#define NAME "deferred_history"

/* Rows of a result from *row on that are of one table. */
static void table(const struct pg_result *res, size_t *row)
{
	const char *name = pg_text(res, *row, 0, NULL), *sep = "";

	printf("create table if not exists deferred.%s (", name);
	for (; !pg_null(res, *row, 0) && strcmp(pg_text(res, *row, 0, NULL), name) == 0; ++*row) {
		printf("%s\n    %s", sep, pg_text(res, *row, 1, NULL));
		sep = ",";
	}
	puts("\n);");
}

/* *res: what is there, also the last row's wal_level; NULL where only help was asked for. Returns an exit code. */
static int look(struct cli *cli, int argc, char **argv, struct pg_result **res)
{
	struct deferred_error err = { 0 };
	int c = cli_getopt(cli, argc, argv, NULL), rc;

	*res = NULL;
	if (c != CLI_OPT_DONE)
		return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	if (optind < argc)
		return cli_usage(cli, "argument \"%.64s\" is not expected", argv[optind]);
	if (cli->json)
		return cli_misuse(cli, "leave --json out", "--json is not possible: history prints SQL");
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	return store_admin_history(cli->pg, res, &err) < 0 ? cli_fail(cli, &err) : EX_OK;
}

static int show_publication(struct cli *cli, int argc, char **argv)
{
	struct pg_result *res;
	int exit_code = look(cli, argc, argv, &res);
	const char *level = res ? pg_text(res, pg_rows(res) - 1, 1, NULL) : NULL;

	if (!res)
		return exit_code;
	/* By default a purge would be refused, for want of a replica identity; and it is to stay here. */
	puts("create publication " NAME " for table deferred.__deferred, deferred.__deferred_log\n"
	     "    with (publish = 'insert', publish_via_partition_root = true);");
	if (strcmp(level, "logical") != 0)
		fprintf(stderr,
			"deferred: wal_level of this server is %s, not logical\nhint: alter system set wal_level = "
			"logical; then restart the server\n",
			level);
	pg_result_free(res);
	return EX_OK;
}

static int show_subscription(struct cli *cli, int argc, char **argv)
{
	const struct config_shard *shard;
	struct pg_result *res;
	size_t row = 0;
	int exit_code = look(cli, argc, argv, &res);

	if (!res)
		return exit_code;
	puts("create schema if not exists deferred;");
	while (!pg_null(res, row, 0))
		table(res, &row);
	/* Not unique: an id that an asynchronous standby has lost may come again. */
	puts("create index if not exists __deferred_id on deferred.__deferred (id);\n"
	     "create index if not exists __deferred_log_job on deferred.__deferred_log (job_id);\n"
	     "create index if not exists __deferred_log_finished on deferred.__deferred_log using brin (finished_at);");
	/* One for each shard, all of them into the same tables. */
	shard = config_shard(cli->config);
	printf("create subscription \"" NAME "%s%s\" connection :'conninfo' publication " NAME ";\n", shard ? "_" : "",
	       shard ? shard->name : "");
	pg_result_free(res);
	return EX_OK;
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = { { "publication", show_publication },
						 { "subscription", show_subscription },
						 { 0 } };

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_history = {
	"history",
	"publication\nsubscription",
	"print SQL that replicates the history",
	run,
	NULL,
	"publication and subscription",
	SHARDS_ONE,
};
