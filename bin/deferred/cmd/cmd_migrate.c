/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "rows/admin.h"
#include "store/admin.h"
#include "store/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct progress {
	bool json, dry_run;
	int64_t lock_ms; /* 0: no limit */
	int items, sources;
};

static void migrate_print_json(const struct migrate_item *item, bool first)
{
	fputs(first ? "" : ", ", stdout);
	if (item->version)
		printf("{\"version\": %d, \"name\": \"%s\"}", item->version, item->name);
	else
		printf("{\"name\": \"%s\"}", item->name);
}

/* Does in psql what a run does. */
static void print_sql(const struct migrate_item *item, int64_t lock_ms, bool first, bool first_source)
{
	if (first)
		printf("begin isolation level read committed;\nset local lock_timeout = %" PRId64 ";\n", lock_ms);
	if (first_source)
		puts(MIGRATE_SOURCES_BEGIN ";");
	printf("-- %s\n%s", item->name, item->text);
	if (item->version)
		printf("insert into deferred.__deferred_migration (version, name, oldest) values (%d, '%s', nullif(%d, "
		       "0));\n",
		       item->version, item->name, item->oldest);
	else
		printf("insert into deferred.__deferred_source (name, checksum) values ('%s', '%s')"
		       " on conflict (name) do update set checksum = excluded.checksum, applied_at = "
		       "excluded.applied_at;\n",
		       item->name, item->checksum);
}

static void on_item(void *data, const struct migrate_item *item)
{
	struct progress *progress = data;
	bool first = progress->items++ == 0, first_source = !item->version && progress->sources++ == 0;

	if (progress->json)
		migrate_print_json(item, first);
	else if (progress->dry_run)
		print_sql(item, progress->lock_ms, first, first_source);
	else if (item->version)
		printf("migration %d: %s\n", item->version, item->name);
}

static void print_end(const struct progress *progress, int version)
{
	if (progress->json)
		printf("], \"version\": %d}\n", version);
	else if (progress->dry_run)
		fputs(progress->sources ? MIGRATE_SOURCES_END ";\ncommit;\n" : "", stdout);
	else if (progress->sources)
		printf("%d functions and views\n", progress->sources);
	else if (progress->items == 0)
		printf("nothing to do: the schema has version %d%s\n", version,
		       version > MIGRATE_VERSION_MAX ? ", newer than this program, which works with it" : "");
}

static void hint_rights(struct pg *pg, struct deferred_error *err)
{
	struct pg_result *res = NULL;

	if (strcmp(err->sqlstate, "42501") == 0 && admin_migrate_rights_exec(pg, &res, NULL) == 0) {
		const char *say = admin_migrate_rights_row(res, 0).statements;

		error_hint(err, "migrate as a superuser%s%s", say[0] ? ", or have one say: " : "", say);
	}
	pg_result_free(res);
}

/* Of several databases each has its number, for good. */
static int number_shard(struct cli *cli, struct deferred_error *err)
{
	const struct config_shard *shard = cli->conninfo ? NULL : config_shard(cli->config);
	struct shard_set_row r = { 0 };
	int rc = shard ? shard_set_one(cli->pg, shard->number, &r, err) : 0;

	if (r.added && !cli->json)
		printf("shard %s: number %d\n", shard->name, shard->number);
	return rc;
}

static int cmd_migrate_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "dry-run", NULL, "print the SQL and change nothing", 'n' },
		{ 0 },
	};
	struct progress progress = { 0 };
	struct deferred_error err = { 0 };
	int version = 0, c, rc;
	struct maintain_partitions_row added;
	bool known;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c != 'n')
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		progress.dry_run = true;
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if ((rc = cli_connect(cli, false)) != 0)
		return rc;
	if (!cli->lock_ms && !(cli->lock_ms = config_int(cli->config, "database.lock_timeout")))
		cli->lock_ms = MIGRATE_LOCK_MS;
	cli_set_limits(cli, true);
	progress.lock_ms = cli->lock_ms > 0 ? cli->lock_ms : 0;
	progress.json = cli->json;
	if (cli->json)
		printf("{\"%s\": [", progress.dry_run ? "pending" : "applied");
	rc = progress.dry_run ? migrate_plan(cli->pg, on_item, &progress, &err)
			      : migrate_run(cli->pg, on_item, &progress, &err);
	known = migrate_version(cli->pg, &version, rc == 0 ? &err : NULL) == 0;
	if (!known && cli->json)
		puts("], \"version\": null}");
	else if (known && (rc == 0 || cli->json))
		print_end(&progress, version);
	/* Jobs of a dump that was restored are ready at once. */
	if (!err.code && !progress.dry_run && number_shard(cli, &err) == 0)
		maintain_partitions_one(cli->pg, &added, &err);
	if (err.code) {
		hint_rights(cli->pg, &err);
		return cli_fail(cli, &err);
	}
	return EX_OK;
}

const struct cmd cmd_migrate = {
	"migrate", "[--dry-run]", "create or upgrade the tables of deferred", cmd_migrate_run, NULL,
};
