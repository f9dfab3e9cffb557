/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "rows/admin.h"
#include "store/admin.h"
#include "store/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROLE_NAME_MAX 63

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
	if (first && item->version)
		printf("-- roles\n%s;\n", sql_admin_migrate_roles.text);
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

/* For an administrator, where the migrator may not create roles. A longer name would be that of another role. */
static int print_roles(const struct cli *cli, const char *owner)
{
	if (!*owner || strlen(owner) > ROLE_NAME_MAX)
		return cli_bad_value(cli, NULL, "--owner", owner, "is not a name of 1 to %d bytes", ROLE_NAME_MAX);
	printf("begin;\n%s;\ngrant deferred_owner to \"", sql_admin_migrate_roles.text);
	for (; *owner; owner++) {
		if (*owner == '"')
			putchar('"');
		putchar(*owner);
	}
	puts("\";\ncommit;");
	return EX_OK;
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

	if (strcmp(err->sqlstate, "42501") == 0 && admin_migrate_rights_exec(pg, &res, NULL) == 0)
		error_hint(err, "migrate as a superuser, or have one run: %s", admin_migrate_rights_row(res, 0).remedy);
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
		{ "print-roles", NULL, "print the SQL that creates the roles, for an administrator", 'r' },
		{ "owner", "ROLE", "role that migrates, for --print-roles", 'o', "OWNER" },
		{ 0 },
	};
	struct progress progress = { 0 };
	struct deferred_error err = { 0 };
	const char *owner = NULL;
	int version = 0, c, rc;
	struct maintain_partitions_row added;
	bool known, roles = false;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		switch (c) {
		case 'n':
			progress.dry_run = true;
			break;
		case 'r':
			roles = true;
			break;
		case 'o':
			owner = optarg;
			break;
		default:
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		}
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if (owner && !roles)
		return cli_misuse(cli, "add --print-roles", "option '--owner' is only for --print-roles");
	if (roles && (progress.dry_run || cli->json))
		return cli_misuse(cli, "leave one of the two out", "option '--print-roles' contradicts option '--%s'",
				  cli->json ? "json" : "dry-run");
	if (roles)
		return print_roles(cli, owner ? owner : "OWNER");
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
	"migrate",
	"[--dry-run]\n--print-roles [--owner ROLE]",
	"create or upgrade the tables of deferred",
	cmd_migrate_run,
	NULL,
};
