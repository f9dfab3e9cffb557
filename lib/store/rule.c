/* SPDX-License-Identifier: MIT */
#include "store/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Send a statement; the arguments are cleared, *res is NULL on failure. */
static int exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct pg_result **res,
		struct deferred_error *err)
{
	int rc = pg_exec(pg, stmt, args, PG_TEXT, res, err);

	pg_args_clear(args);
	return rc;
}

/* The same where the answer does not matter. */
static int exec_only(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct deferred_error *err)
{
	struct pg_result *res;
	int rc = exec(pg, stmt, args, &res, err);

	pg_result_free(res);
	return rc;
}

/* What is wrong with the rule's own query is no fault of our schema. */
static void blame_query(const char *name, struct deferred_error *err)
{
	if (!err || strncmp(err->sqlstate, "42", 2) != 0 || strcmp(err->sqlstate, "42501") == 0)
		return;
	error_explain_as(err, "rule '%.100s': the query is not valid", name);
	error_hint(err, "write one SELECT; each row becomes a job");
	err->code = DEFERRED_EINVAL;
}

/*
 * The end of a transaction in which an owner's code has run, and of what it may have done to the session: all in one
 * message, so that a pooler does not give the session to another client in between. Nothing in it is looked up in a
 * search_path.
 */
#define CLEAN \
	"; reset all; deallocate all; close all; unlisten *; discard temp; select pg_catalog.pg_advisory_unlock_all()"

static int commit(struct pg *pg, struct deferred_error *err)
{
	return pg_command(pg, "commit" CLEAN, err);
}

/* What is wrong before stays what is reported. */
static int rollback(struct pg *pg, int rc, struct deferred_error *err)
{
	struct deferred_error why = { 0 };

	if (pg_broken(pg) || pg_command(pg, "rollback" CLEAN, &why) == 0 || rc < 0)
		return rc;
	if (err)
		*err = why;
	return why.code;
}

static int take(struct pg *pg, const char *name, bool alone, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_text(&args, alone ? "true" : "false");
	return exec_only(pg, &sql_rule_take, &args, err);
}

static int look(struct pg *pg, const char *name, int sample, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_int4(&args, sample);
	rc = exec(pg, &sql_rule_look, &args, res, err);
	if (rc < 0)
		blame_query(name, err);
	return rc;
}

static int insert(struct pg *pg, const struct store_rule *rule, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, rule->name);
	pg_arg_text(&args, rule->query);
	pg_arg_text(&args, rule->fn);
	pg_arg_json(&args, rule->params, strlen(rule->params));
	pg_arg_text(&args, rule->key_column);
	pg_arg_text(&args, rule->queue);
	pg_arg_int4(&args, rule->priority);
	pg_arg_json(&args, rule->opts, strlen(rule->opts));
	pg_arg_int8(&args, rule->statement_timeout_ms);
	return exec_only(pg, &sql_rule_add, &args, err);
}

int store_rule_add(struct pg *pg, const struct store_rule *rule, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = pg_command(pg, "begin", err);

	if (rc == 0)
		rc = insert(pg, rule, err);
	/* What looking at it did is undone before the commit. */
	if (rc == 0)
		rc = pg_command(pg, "savepoint looked", err);
	if (rc == 0)
		rc = take(pg, rule->name, false, err);
	if (rc == 0)
		rc = look(pg, rule->name, 0, &res, err);
	if (rc == 0)
		rc = pg_command(pg, "rollback to savepoint looked", err);
	if (rc == 0)
		rc = commit(pg, err);
	pg_result_free(res);
	return rc < 0 ? rollback(pg, rc, err) : 0;
}

int store_rule_remove(struct pg *pg, const char *name, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	return exec_only(pg, &sql_rule_remove, &args, err);
}

int store_rule_ls(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return pg_exec(pg, &sql_rule_ls, NULL, PG_TEXT, res, err);
}

int store_rule_test(struct pg *pg, const char *name, int sample, struct pg_result **res, struct deferred_error *err)
{
	int rc = pg_command(pg, "begin", err);

	*res = NULL;
	if (rc == 0)
		rc = take(pg, name, false, err);
	if (rc == 0)
		rc = look(pg, name, sample, res, err);
	return rollback(pg, rc, err);
}

/* ---- a run ------------------------------------------------------------------------------------ */

struct ticking {
	struct store_rule_run *run;
	double queued, stored;
};

static void on_notice(void *data, const char *sqlstate, const char *message)
{
	struct ticking *t = data;
	double n;

	if (strcmp(sqlstate, "DR001") != 0 || !t->run->on_progress)
		return;
	/* The query itself may send such notices, with any number. */
	if (sscanf(message, "queued %lf", &n) == 1 && n >= 0 && n < 1e15)
		t->queued = n;
	else if (sscanf(message, "stored %lf", &n) == 1 && n >= 0 && n < 1e15)
		t->stored = n;
	t->run->on_progress(t->run->data, t->queued, t->stored, t->run->estimate);
}

static int estimate(struct pg *pg, const char *name, struct store_rule_run *run, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_rule_test(pg, name, 0, &res, err);

	if (rc == 0)
		run->estimate = pg_float(res, 0, 0);
	pg_result_free(res);
	return rc;
}

static int room(struct pg *pg, double jobs, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_float8(&args, jobs);
	return exec_only(pg, &sql_rule_room, &args, err);
}

static int queue_rows(struct pg *pg, const char *name, struct store_rule_run *run, struct deferred_error *err)
{
	struct ticking ticking = { .run = run };
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	rc = exec_only(pg, &sql_rule_open, &args, err);
	if (rc < 0)
		return rc;
	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_float8(&args, run->estimate);
	pg_arg_text(&args, run->on_progress ? "true" : "false");
	pg_arg_id(&args, run->flow);
	pg_on_notice(pg, on_notice, &ticking);
	rc = exec(pg, &sql_rule_run, &args, &run->examples, err);
	pg_on_notice(pg, NULL, NULL);
	if (rc < 0) {
		blame_query(name, err);
		return rc;
	}
	run->queued = pg_int(run->examples, 0, 0);
	run->skipped = pg_int(run->examples, 0, 1);
	run->failed = pg_int(run->examples, 0, 2);
	return 0;
}

static bool worth_noting(const struct deferred_error *why)
{
	return strcmp(why->sqlstate, "P0002") != 0 && strcmp(why->sqlstate, "42501") != 0 &&
	       strcmp(why->sqlstate, "55006") != 0;
}

static void note_failure(struct pg *pg, const char *name, const struct deferred_error *why)
{
	struct deferred_error ignored = { 0 };
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_text(&args, why->message);
	exec_only(pg, &sql_rule_failed, &args, &ignored);
}

int store_rule_run(struct pg *pg, const char *name, struct store_rule_run *run, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc = estimate(pg, name, run, &why);

	run->examples = NULL;
	if (rc == 0)
		rc = room(pg, run->estimate, &why);
	if (rc == 0)
		rc = pg_command(pg, "begin", &why);
	if (rc == 0)
		rc = take(pg, name, true, &why);
	if (rc == 0)
		rc = queue_rows(pg, name, run, &why);
	if (rc == 0)
		rc = commit(pg, &why);
	if (rc < 0) {
		rollback(pg, rc, &why);
		pg_result_free(run->examples);
		run->examples = NULL;
		if (!pg_broken(pg) && worth_noting(&why))
			note_failure(pg, name, &why);
		if (err)
			*err = why;
	}
	return rc;
}
