/* SPDX-License-Identifier: MIT */
/*
 * Retention: whole partitions are dropped, the rest is deleted in short transactions, so that workers are never
 * kept waiting. Attempts go before their jobs: a job is purged only when nothing of it is left in the log.
 * Dead jobs are work that was not done. They stay unless --dead-older-than says how long.
 * With --archive whole partitions go, each after a command has read it, and rows alone do not. Dead jobs go too.
 */
#include "archive.h"
#include "cmd.h"

#include "store/admin.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attempts that fit into a page, about; what --batch counts is rows. */
#define ROWS_A_PAGE 50

struct purge {
	struct cli *cli;
	const char *command;              /* of --archive; NULL: none */
	int64_t older_ms, dead_ms, batch; /* dead_ms: of dead jobs; below 0: they stay */
	int64_t partitions, attempts, jobs, workers;
	char *in_use; /* partitions that go as a whole the next time: "{name,name}" */
};

static void purge_tell(struct purge *p, const char *partition, int64_t rows)
{
	if (p->cli->json)
		printf("%s\"%s\"", p->partitions ? ", " : "", partition);
	else if (p->command)
		printf("archived %s, %" PRId64 " row%s\n", partition, rows, plural(rows));
	else
		printf("dropped %s\n", partition);
	fflush(stdout);
	p->partitions++;
}

static int purge_leave(struct purge *p, const char *partition, struct deferred_error *err)
{
	char *list;

	if (asprintf(&list, "%.*s%s%s}", (int)strlen(p->in_use) - 1, p->in_use, p->in_use[1] == '}' ? "" : ",",
		     partition) < 0)
		return error_set(err, DEFERRED_ENOMEM, "purge", "out of memory");
	free(p->in_use);
	p->in_use = list;
	if (!p->cli->json)
		printf("left %s for the next time: it is in use\n", partition);
	return 0;
}

/* NULL: dead jobs stay. */
static const int64_t *dead_ms(const struct purge *p)
{
	return p->dead_ms < 0 ? NULL : &p->dead_ms;
}

static int drop_partitions(struct purge *p, struct deferred_error *err)
{
	struct admin_purge_partition_row r;
	struct pg_result *res;
	bool more = true;
	int rc = 0;

	while (rc == 0 && more) {
		rc = admin_purge_partition_exec(p->cli->pg, p->older_ms, dead_ms(p), p->in_use, &res, err);
		if (rc < 0)
			return rc;
		r = admin_purge_partition_row(res, 0);
		more = r.name != NULL;
		if (more && r.dropped)
			purge_tell(p, r.name, 0);
		else if (more)
			rc = purge_leave(p, r.name, err);
		pg_result_free(res);
	}
	return rc;
}

static int archive_partitions(struct purge *p, struct deferred_error *err)
{
	struct pg_result *res;
	bool more = true;
	int rc = 0;

	while (rc == 0 && more) {
		char name[ARCHIVE_NAME_MAX];
		const char *aside;
		int64_t rows = 0;

		rc = admin_purge_aside_exec(p->cli->pg, p->older_ms, &res, err);
		if (rc < 0)
			return rc;
		aside = admin_purge_aside_row(res, 0).name;
		more = aside != NULL;
		if (more && (rc = archive_table(p->cli->pg, aside, p->command, name, &rows, err)) == 0)
			purge_tell(p, name, rows);
		else if (more)
			error_hint(err, "deferred.%s stays until a purge with --archive has archived it", aside);
		pg_result_free(res);
	}
	return rc;
}

static int delete_attempts(struct purge *p, struct deferred_error *err)
{
	int32_t pages = (int32_t)(p->batch / ROWS_A_PAGE) + 1;
	struct pg_result *parts;
	int rc = admin_purge_parts_exec(p->cli->pg, p->older_ms, p->in_use, &parts, err);

	for (size_t i = 0; rc == 0 && i < pg_rows(parts); i++) {
		struct admin_purge_parts_row r = admin_purge_parts_row(parts, i);

		for (int64_t page = 0; rc == 0 && page < r.pages; page += pages) {
			struct admin_purge_log_row log;

			rc = admin_purge_log_one(p->cli->pg, r.partition, p->older_ms, page, pages, dead_ms(p), &log,
						 err);
			p->attempts += log.deleted;
		}
	}
	pg_result_free(parts);
	return rc;
}

static int delete_jobs(struct purge *p, struct deferred_error *err)
{
	struct admin_purge_jobs_row r = { .next_id = 1 };
	int rc;

	do {
		rc = admin_purge_jobs_one(p->cli->pg, p->older_ms, r.next_id, (int32_t)p->batch, p->in_use, &r, err);
		p->jobs += r.purged;
	} while (rc == 0 && r.next_id > 0);
	return rc;
}

static int delete_orphans(struct purge *p, struct deferred_error *err)
{
	struct admin_purge_orphans_row r = { .next_id = 1 };
	int rc;

	do
		rc = admin_purge_orphans_one(p->cli->pg, p->older_ms, r.next_id, (int32_t)p->batch, &r, err);
	while (rc == 0 && (r.next_id > 0 || r.purged > 0));
	return rc;
}

static int delete_rows(struct purge *p, struct deferred_error *err)
{
	int rc = delete_attempts(p, err);

	if (rc == 0 && p->attempts > 0)
		rc = drop_partitions(p, err); /* of jobs that have no attempt left */
	return rc == 0 ? delete_jobs(p, err) : rc;
}

static int purge(struct purge *p, struct deferred_error *err)
{
	struct admin_purge_workers_row workers = { 0 };
	int rc = maintain_partitions_one(p->cli->pg, &(struct maintain_partitions_row){ 0 }, err);

	if (rc == 0)
		rc = p->command ? archive_partitions(p, err) : drop_partitions(p, err);
	if (rc == 0 && !p->command)
		rc = delete_rows(p, err);
	if (rc == 0)
		rc = delete_orphans(p, err);
	if (rc == 0)
		rc = admin_purge_workers_one(p->cli->pg, p->older_ms, &workers, err);
	p->workers = workers.purged;
	return rc;
}

static int cmd_purge_run(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "older-than", "SPAN", "delete the history of jobs that ended longer ago", 'o' },
		{ "dead-older-than", "SPAN", "delete dead jobs this old too", 'd', "never" },
		{ "batch", "N", "rows per transaction", 'b', "5000" },
		{ "archive", "COMMAND", "give old partitions to this command first", 'a' },
		{ 0 },
	};
	struct purge p = { .cli = cli, .older_ms = -1, .dead_ms = -1, .batch = 5000 };
	struct deferred_error err = { 0 };
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		switch (c) {
		case 'o':
			if (!cli_ms(cli, "--older-than", optarg, &p.older_ms))
				return EX_USAGE;
			break;
		case 'd':
			if (!cli_ms(cli, "--dead-older-than", optarg, &p.dead_ms))
				return EX_USAGE;
			break;
		case 'b':
			if (!cli_int(cli, "--batch", optarg, 1, 1000000, &p.batch))
				return EX_USAGE;
			break;
		case 'a':
			p.command = optarg;
			break;
		default:
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		}
	}
	if (!cli_arguments(cli, argc, argv, ""))
		return EX_USAGE;
	if (p.older_ms < 0)
		return cli_misuse(cli, "for example --older-than 30d", "option '--older-than' is missing");
	if (p.command && p.dead_ms >= 0)
		return cli_misuse(cli, "leave one of the two out: --archive takes dead jobs too",
				  "option '--dead-older-than' contradicts option '--archive'");
	if (p.dead_ms >= 0 && p.dead_ms < p.older_ms)
		return cli_misuse(cli, "give a longer span, or leave --dead-older-than out",
				  "option '--dead-older-than' is shorter than option '--older-than'");
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	cli_set_limits(cli, true);
	if (cli->json)
		printf("{\"partitions\": [");
	p.in_use = strdup("{}");
	rc = p.in_use ? purge(&p, &err) : error_set(&err, DEFERRED_ENOMEM, "purge", "out of memory");
	free(p.in_use);
	if (cli->json)
		printf("], \"attempts\": %" PRId64 ", \"jobs\": %" PRId64 ", \"runs\": %" PRId64 "}\n", p.attempts,
		       p.jobs, p.workers);
	else if (rc == 0 || p.attempts || p.jobs)
		printf("deleted %" PRId64 " attempt%s, %" PRId64 " job%s, %" PRId64 " run%s\n", p.attempts,
		       plural(p.attempts), p.jobs, plural(p.jobs), p.workers, plural(p.workers));
	return rc < 0 ? cli_fail(cli, &err) : EX_OK;
}

const struct cmd cmd_purge = {
	"purge", "--older-than SPAN [OPTION...]", "delete or archive old history", cmd_purge_run, "deferred_purger",
};
