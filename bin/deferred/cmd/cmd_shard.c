/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/shard_route.h"
#include "deferred.h"
#include "port/params.h"
#include "rows/admin.h"
#include "store/migrate.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- ls ----------------------------------------------------------------------------------------- */

/* Does it answer, and as what? */
static int shard_look(const struct cli *cli, const struct config_shard *shard, struct shard_look_row *found,
		      struct deferred_error *err)
{
	struct cli one = {
		.cmd = cli->cmd, .config = cli->config, .answer_ms = cli->answer_ms, .lock_ms = cli->lock_ms
	};
	int rc = pg_open(&one.pg, shard->conninfo, "deferred", err);

	if (rc == 0)
		cli_set_limits(&one, false);
	if (rc == 0)
		rc = migrate_check(one.pg, err);
	if (rc == 0)
		rc = shard_look_one(one.pg, CLI_SHARD_READY_MAX, found, err);
	if (rc == 0 && found->shard != shard->number)
		rc = found->shard
			     ? error_set(err, DEFERRED_ECONFIG, "shard",
					 "its database is number %d\ncorrect number or conninfo", (int)found->shard)
			     : error_set(err, DEFERRED_ECONFIG, "shard",
					 "its database has no number yet\nrun: deferred migrate --shard %s",
					 shard->name);
	pg_close(one.pg);
	return rc;
}

static void print_one_json(const struct config_shard *shard, const struct shard_look_row *found,
			   const struct deferred_error *err, bool first)
{
	struct params_text t = { 0 };
	struct deferred_error ignored = { 0 };
	char *clean = table_clean(err->message, 0, TABLE_ONE_LINE), *text;

	params_open(&t, NULL, '{');
	params_string(&t, "name", shard->name);
	params_number(&t, "number", shard->number);
	params_flag(&t, "accepting", shard->accepting);
	if (err->code) {
		params_string(&t, "error", clean);
	} else {
		params_number(&t, "ready", (double)found->ready);
		params_number(&t, "workers", (double)found->workers);
	}
	params_close(&t, '}');
	params_take(&t, &text, &ignored);
	printf("%s%s", first ? "[" : ",\n ", text ? text : "null");
	free(text);
	free(clean);
}

static int shard_ls(struct cli *cli, int argc, char **argv)
{
	static const char *const headers[] = { "SHARD", ">NUMBER", "ACCEPTS", ">READY", ">WORKERS", "ERROR" };
	const struct config_shard *shards;
	int exit_code = EX_OK, rc;
	struct table t;
	size_t len;

	if (!cli_no_words(cli, argc, argv, &rc))
		return rc;
	if ((rc = cli_config(cli)) != 0)
		return rc;
	shards = config_shards(cli->config, &len);
	if (!cli->json)
		table_begin(&t, headers, 6);
	for (size_t i = 0; i < len; i++) {
		struct deferred_error err = { 0 };
		struct shard_look_row found = { 0 };

		if (shard_look(cli, &shards[i], &found, &err) < 0)
			exit_code = EX_UNAVAILABLE;
		if (cli->json) {
			print_one_json(&shards[i], &found, &err, i == 0);
			continue;
		}
		table_cell(&t, "%s", shards[i].name);
		table_cell(&t, "%d", shards[i].number);
		table_cell(&t, "%s", shards[i].accepting ? "yes" : "no");
		if (err.code) {
			table_cell(&t, "%s", "");
			table_cell(&t, "%s", "");
		} else {
			table_cell(&t, "%" PRId64 "%s", found.ready, found.ready == CLI_SHARD_READY_MAX ? "+" : "");
			table_cell(&t, "%" PRId64, found.workers);
		}
		table_cell(&t, "%s", err.message);
	}
	if (!cli->json)
		table_end(&t);
	else
		puts(len ? "]" : "[]");
	return exit_code;
}

/* ---- for ---------------------------------------------------------------------------------------- */

static int for_route(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	char name[64];
	int rc;

	if (!cli_no_options(cli, argc, argv, &rc))
		return rc;
	if (!cli_arguments(cli, argc, argv, "ROUTE"))
		return EX_USAGE;
	if (cli->config_path && setenv("DEFERRED_CONFIG", cli->config_path, 1) < 0)
		return EX_OSERR;
	if (deferred_shard_for(argv[optind], name, sizeof(name), &err) < 0)
		return cli_fail(cli, &err);
	printf(cli->json ? "\"%s\"\n" : "%s\n", name);
	return EX_OK;
}

static int cmd_shard_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = { { "ls", shard_ls }, { "for", for_route }, { 0 } };

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_shard = {
	"shard",      "ls\nfor ROUTE", "list several databases and find the one of a route", cmd_shard_run, NULL,
	"ls and for", SHARDS_NONE,
};
