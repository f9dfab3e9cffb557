/* SPDX-License-Identifier: MIT */
#include "store/rule.h"

#include "rows/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An error in the rule's own query is no fault of our schema. */
static void blame_query(const char *name, struct deferred_error *err)
{
	bool syntax;

	if (!err || strncmp(err->sqlstate, "42", 2) != 0 || strcmp(err->sqlstate, "42501") == 0)
		return;
	syntax = strcmp(err->sqlstate, "42601") == 0;
	error_explain_as(err, "rule '%.100s': the query is not valid", name);
	error_hint(err, syntax ? "write one SELECT; each row becomes a job" : "correct the query, or the search_path");
	err->code = DEFERRED_EINVAL;
}

/*
 * This ends a transaction in which an owner's code ran, and resets the session. All of it is one message, so that a
 * pooler cannot give the session to another client in between. No name in it depends on search_path.
 */
#define CLEAN \
	"; reset all; deallocate all; close all; unlisten *; discard temp; select pg_catalog.pg_advisory_unlock_all()"

static int commit(struct pg *pg, struct deferred_error *err)
{
	pg_unpin(pg);
	return pg_command(pg, "commit" CLEAN, err);
}

/* An earlier error is the one that is reported. */
static int rollback(struct pg *pg, int rc, struct deferred_error *err)
{
	struct deferred_error why = { 0 };

	pg_unpin(pg);
	if (pg_broken(pg) || pg_command(pg, "rollback" CLEAN, &why) == 0 || rc < 0)
		return rc;
	if (err)
		*err = why;
	return why.code;
}

static int take(struct pg *pg, const char *name, bool alone, struct deferred_error *err)
{
	return rule_take_exec(pg, name, alone ? "true" : "false", err);
}

static int look(struct pg *pg, const char *name, int sample, struct pg_result **res, struct deferred_error *err)
{
	int rc = rule_look_exec(pg, name, sample, res, err);

	if (rc < 0)
		blame_query(name, err);
	return rc;
}

static int insert(struct pg *pg, const struct store_rule *rule, struct deferred_error *err)
{
	struct rule_add_row ignored;

	return rule_add_one(pg, rule->name, rule->query, rule->fn, rule->params, rule->key_column, rule->queue,
			    rule->priority, rule->opts, rule->statement_timeout_ms, &ignored, err);
}

int store_rule_add(struct pg *pg, const struct store_rule *rule, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = pg_begin(pg, "reset search_path", err); /* the rule keeps it */

	if (rc == 0)
		rc = insert(pg, rule, err);
	/* The effects of the look are undone before the commit. */
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

int store_rule_test(struct pg *pg, const char *name, int sample, struct pg_result **res, struct deferred_error *err)
{
	int rc = pg_begin(pg, "", err);

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
		run->estimate = rule_look_row(res, 0).estimate;
	pg_result_free(res);
	return rc;
}

static int queue_rows(struct pg *pg, const char *name, struct store_rule_run *run, struct deferred_error *err)
{
	struct ticking ticking = { .run = run };
	struct rule_run_row r;
	int rc = rule_open_exec(pg, name, err);

	if (rc < 0)
		return rc;
	pg_on_notice(pg, on_notice, &ticking);
	rc = rule_run_exec(pg, name, run->estimate, run->on_progress ? "true" : "false",
			   run->flow > 0 ? &run->flow : NULL, &run->examples, err);
	pg_on_notice(pg, NULL, NULL);
	if (rc < 0) {
		blame_query(name, err);
		return rc;
	}
	r = rule_run_row(run->examples, 0);
	run->queued = r.queued;
	run->skipped = r.skipped;
	run->failed = r.failed;
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

	rule_failed_exec(pg, name, why->message, &ignored);
}

int store_rule_run(struct pg *pg, const char *name, struct store_rule_run *run, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc = estimate(pg, name, run, &why);

	run->examples = NULL;
	if (rc == 0)
		rc = rule_room_one(pg, run->estimate, &(struct rule_room_row){ 0 }, &why);
	if (rc == 0)
		rc = pg_begin(pg, "", &why);
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
