/* SPDX-License-Identifier: MIT */
/* spool: calls that this host keeps while the server cannot be reached. */
#include "cmd.h"

#include "store/spool/spool_drain.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>

/* Entries that an added job waits for. */
#define SPOOL_ADD_MAX 1000

/* Returns NULL after a report. */
static const char *spool_path(struct cli *cli, int *rc)
{
	const char *path;

	*rc = cli_config(cli);
	if (*rc != 0)
		return NULL;
	path = config_text(cli->config, "spool");
	if (path && *path)
		return path;
	cli_say("set spool in the config file, or DEFERRED_SPOOL", "setting 'spool' is empty: calls are not kept");
	*rc = EX_CONFIG;
	return NULL;
}

/* ---- drain -------------------------------------------------------------------------------------- */

static void say_refused(const struct spool_drained *done, const char *path)
{
	if (done->refused > 0)
		cli_say("read *.reason there; deferred spool retry moves entries back",
			"spool '%s': refused, and moved to the folder refused: %zu", path, done->refused);
}

static void say_left(const struct spool_drained *done, const char *path)
{
	if (done->kept > 0)
		cli_say("correct the cause, then run: deferred spool drain", "spool '%s': not stored yet: %zu: %s",
			path, done->kept, done->why);
	if (done->elsewhere > 0)
		cli_say("use that connection, or: deferred spool drain --elsewhere",
			"spool '%s': for another database or role: %zu: %s", path, done->elsewhere, done->where);
	if (done->strange > 0)
		cli_say("remove them", "spool '%s': not regular files, but named as entries: %zu", path, done->strange);
}

static int spool_word_drain(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "elsewhere", NULL, "also entries for another database or role", 'e' },
		{ 0 },
	};
	struct deferred_error err = { 0 };
	struct spool_drained done;
	bool elsewhere = false;
	const char *path;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD)
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		elsewhere = true;
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	path = spool_path(cli, &rc);
	if (path)
		rc = cli_choose_shard(cli);
	if (rc != 0)
		return rc;
	rc = spool_drain(path, cli_conninfo(cli), 0, elsewhere, &done, &err);
	printf(cli->json ? "{\"stored\": %zu, \"refused\": %zu, \"kept\": %zu, \"elsewhere\": %zu}\n" : "stored %zu\n",
	       done.stored, done.refused, done.kept, done.elsewhere);
	say_refused(&done, path);
	say_left(&done, path);
	if (rc < 0)
		return cli_fail(cli, &err);
	return done.refused + done.kept + done.elsewhere + done.strange > 0 ? CLI_NOT_DONE : EX_OK;
}

void cli_spool_drain(struct cli *cli)
{
	struct deferred_error err = { 0 };
	struct spool_drained done;
	const char *path;

	if (cli_config(cli) != 0 || !(path = config_text(cli->config, "spool")) || !*path)
		return;
	if (spool_drain(path, cli_conninfo(cli), SPOOL_ADD_MAX, false, &done, &err) < 0)
		cli_say(err.hint, "%s", err.message);
	say_refused(&done, path);
}

/* ---- ls, retry ---------------------------------------------------------------------------------- */

static void print_figures(const struct spool_figures *f, bool json)
{
	char age[TABLE_AGE_SIZE];

	if (json)
		printf("{\"entries\": %zu, \"own\": %zu, \"oldest_s\": %" PRId64 ", \"refused\": %zu}", f->entries,
		       f->own, f->oldest_s, f->refused);
	else
		printf("spool: %zu, the oldest for %s, %zu of this user; refused: %zu\n", f->entries,
		       table_age(age, f->oldest_s), f->own, f->refused);
}

void cli_spool_status(struct cli *cli)
{
	const char *path = config_text(cli->config, "spool");
	struct deferred_error err = { 0 };
	struct spool_figures f = { 0 };

	if (!path || !*path)
		return;
	if (spool_look(path, &f, &err) < 0)
		cli_say(err.hint, "%s", err.message);
	else if (cli->json)
		printf(",\n \"spool\": ");
	if (err.code == 0)
		print_figures(&f, cli->json);
}

static int spool_word_ls(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	struct spool_figures f;
	const char *path;
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc) || !(path = spool_path(cli, &rc)))
		return rc;
	if (spool_look(path, &f, &err) < 0)
		return cli_fail(cli, &err);
	print_figures(&f, cli->json);
	if (cli->json)
		putchar('\n');
	return EX_OK;
}

static int spool_word_retry(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	struct spool_list l = { 0 };
	struct spool s;
	const char *path;
	size_t i = 0;
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc) || !(path = spool_path(cli, &rc)))
		return rc;
	rc = spool_open(&s, path, &err);
	if (rc == 0)
		rc = spool_list(&s, true, &l, &err);
	while (rc == 0 && i < l.n && (rc = spool_retry(&s, l.ids[i], &err)) == 0)
		i++;
	printf(cli->json ? "{\"retried\": %zu}\n" : "moved back %zu\n", i);
	spool_list_free(&l);
	spool_close(&s);
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

static int cmd_spool_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "ls", spool_word_ls }, { "drain", spool_word_drain }, { "retry", spool_word_retry }, { 0 }
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_spool = {
	"spool",
	"ls\ndrain [--elsewhere]\nretry",
	"store calls kept while the server was away",
	cmd_spool_run,
	"deferred_producer",
	"ls, drain and retry",
	SHARDS_ON_REQUEST,
};
