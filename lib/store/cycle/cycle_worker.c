/* SPDX-License-Identifier: MIT */
#include "cycle_add.h"

#include "rows/claim.h"
#include "rows/history.h"
#include "rows/worker.h"

#include <stdio.h>

#define PROMOTE_MAX 1000

int store_cycle_arm(struct store_cycle *cycle, const struct store_scope *scope, struct deferred_error *err)
{
	int rc = store_cycle_disarm(cycle, scope, err);
	struct pg_args args;

	pg_args_init(&args);
	store_arg_queues(&args, scope);
	if (rc == 0)
		rc = cycle_add(cycle, &sql_worker_arm, &args, TAG_ARM, err);
	pg_args_clear(&args);
	if (rc == 0)
		rc = store_cycle_open(cycle, err);
	cycle->arms = true;
	return rc;
}

int store_cycle_disarm(struct store_cycle *cycle, const struct store_scope *scope, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	if (scope->watch)
		pg_arg_int4(&args, scope->watch);
	else
		pg_arg_null(&args);
	rc = cycle_add(cycle, &sql_worker_disarm, &args, TAG_WATCH, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_open(struct store_cycle *cycle, struct deferred_error *err)
{
	cycle->opens = true;
	return cycle_add_simple(cycle, &sql_worker_open, TAG_OPEN, err);
}

int store_cycle_peek(struct store_cycle *cycle, const struct store_scope *scope, int64_t from_us,
		     struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->peeks = true;
	pg_args_init(&args);
	store_arg_probe(&args, scope, from_us);
	rc = cycle_add(cycle, &sql_run_probe, &args, TAG_PEEK, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_promote(struct store_cycle *cycle, int64_t from_us, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->promotes = true;
	pg_args_init(&args);
	pg_arg_int4(&args, PROMOTE_MAX);
	pg_arg_timestamptz(&args, from_us);
	rc = cycle_add(cycle, &sql_job_promote, &args, TAG_PROMOTE, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_track(struct store_cycle *cycle, const struct store_track *track, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->tracks = true;
	store_arg_track(&args, track);
	rc = cycle_add(cycle, &sql_track_move, &args, TAG_TRACK, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_next_due(struct store_cycle *cycle, int64_t worker, int64_t from_us, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_timestamptz(&args, from_us);
	pg_arg_int8(&args, worker);
	rc = cycle_add(cycle, &sql_job_next_due, &args, TAG_NEXT_DUE, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_keep(struct store_cycle *cycle, const struct store_scope *scope, int64_t worker, int64_t from_us,
		     struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, worker);
	store_arg_queues(&args, scope);
	rc = cycle_add(cycle, &sql_worker_keep, &args, TAG_KEEP, err);
	pg_args_clear(&args);
	if (rc == 0)
		rc = store_cycle_next_due(cycle, worker, from_us, err);
	if (rc == 0)
		rc = cycle_add_simple(cycle, &sql_maintain_partitions, TAG_IGNORE, err);
	return rc == 0 ? cycle_add_simple(cycle, &sql_fold_kept, TAG_FOLD, err) : rc;
}

int store_cycle_patience(struct store_cycle *cycle, int64_t ms, struct deferred_error *err)
{
	struct pg_args args;
	char text[32];
	int rc;

	snprintf(text, sizeof(text), "%lld", (long long)ms);
	pg_args_init(&args);
	pg_arg_text(&args, text);
	rc = cycle_add(cycle, &sql_job_patience, &args, TAG_IGNORE, err);
	pg_args_clear(&args);
	return rc;
}

static struct store_due due_of(struct job_next_due_row r)
{
	return (struct store_due){ .known = true,
				   .next_ms = r.wait_ms,
				   .first_us = r.has_due_at ? r.due_at : INT64_MAX,
				   .now_us = r.now,
				   .took_us = r.took_us,
				   .tick_ms = r.has_tick_ms ? r.tick_ms : -1,
				   .lease_ms = r.lease_ms };
}

void cycle_take_worker(struct store_cycle *cycle, int tag, const struct pg_result *res)
{
	if (tag == TAG_PROMOTE)
		cycle->promoted = job_promote_row(res, 0).promoted;
	if (tag == TAG_NEXT_DUE)
		cycle->due = due_of(job_next_due_row(res, 0));
	if (tag == TAG_ARM) {
		cycle->armed = worker_arm_row(res, 0).armed;
		cycle->rank = worker_arm_row(res, 0).rank;
	}
	if (tag == TAG_PEEK)
		cycle->work = run_probe_row(res, 0).work;
	if (tag == TAG_WATCH)
		cycle->unwatched |= !worker_disarm_row(res, 0).taken;
	if (tag == TAG_KEEP)
		cycle->kept = (struct store_kept){ .registered = worker_keep_row(res, 0).registered,
						   .schema_version = worker_keep_row(res, 0).version,
						   .schema_oldest = worker_keep_row(res, 0).oldest };
	if (tag == TAG_FOLD)
		cycle->kept.fold_more = fold_kept_row(res, 0).more;
}
