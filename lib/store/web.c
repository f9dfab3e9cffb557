/* SPDX-License-Identifier: MIT */
#include "store/web.h"

#include "base/clock.h"
#include "rows/queue.h"
#include "rows/web.h"

#include <stdio.h>
#include <string.h>

#define MARK_STEP 1000

/* Send a statement; the arguments are cleared, *res is NULL on failure. */
static int exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct pg_result **res,
		struct deferred_error *err)
{
	int rc = pg_exec(pg, stmt, args, PG_TEXT, res, err);

	pg_args_clear(args);
	return rc;
}

int store_web_begin(struct pg *pg, const char *role, bool read_only, struct deferred_error *err)
{
	int rc = pg_begin(pg, read_only ? "set transaction read only" : "", err);

	return rc < 0 ? rc : web_session_exec(pg, role ? role : "", STORE_WEB_MS, err);
}

int store_web_end(struct pg *pg, bool commit, struct deferred_error *err)
{
	return pg_command(pg, commit ? "commit" : "rollback", err);
}

int store_web_me(struct pg *pg, struct store_web_me *me, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = web_me_exec(pg, &res, err);

	if (rc == 0) {
		struct web_me_row r = web_me_row(res, 0);

		snprintf(me->role, sizeof(me->role), "%s", r.role);
		me->viewer = r.viewer;
		me->reader = r.reader;
		me->operator= r.operator;
	}
	pg_result_free(res);
	return rc;
}

int store_web_indexed(struct pg *pg, bool tags, struct deferred_error *err)
{
	return pg_command(pg,
			  tags ? "set local enable_bitmapscan = on; set local plan_cache_mode = force_custom_plan"
			       : "set local enable_seqscan = off; set local plan_cache_mode = force_custom_plan",
			  err);
}

int store_web_jobs(struct pg *pg, const struct store_admin_filter *filter, const struct store_web_search *search,
		   struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;
	/* Which of what may be asked for is asked for decides how it is found. */
	int rc = pg_command(pg, "set local plan_cache_mode = force_custom_plan", err);

	if (rc < 0)
		return rc;
	pg_args_init(&args);
	pg_arg_text(&args, filter->queue);
	pg_arg_text(&args, filter->fn);
	pg_arg_text(&args, filter->state);
	pg_arg_int4(&args, filter->limit);
	pg_arg_id(&args, filter->after);
	pg_arg_text(&args, filter->label);
	pg_arg_text(&args, filter->key);
	pg_arg_text(&args, filter->rule);
	pg_arg_text(&args, filter->by);
	pg_arg_text(&args, filter->since);
	pg_arg_text(&args, filter->until);
	pg_arg_int4(&args, search->error ? STORE_WEB_LOOK_SAID : STORE_WEB_LOOK);
	pg_arg_text(&args, search->part ? "true" : "false");
	pg_arg_text(&args, search->outcome);
	pg_arg_text_array(&args, filter->tags_len > 0 ? filter->tags : NULL, NULL, filter->tags_len);
	if (search->error) {
		pg_arg_text(&args, search->error);
		pg_arg_text(&args, search->error_part ? "true" : "false");
		pg_arg_text_array(&args, search->hidden, NULL, search->hidden_len);
		return exec(pg, &sql_web_jobs_error, &args, res, err);
	}
	if (search->path_len == 0) {
		pg_arg_text(&args, filter->label_index && !search->part ? filter->label : NULL);
		return exec(pg, &sql_web_jobs, &args, res, err);
	}
	pg_arg_text_array(&args, search->path, NULL, search->path_len);
	pg_arg_text(&args, search->value);
	pg_arg_text_array(&args, search->hidden, NULL, search->hidden_len);
	pg_arg_text(&args, filter->label_index && !search->part ? filter->label : NULL);
	pg_arg_text(&args, search->value_index ? search->value : NULL);
	return exec(pg, &sql_web_jobs_params, &args, res, err);
}

int store_web_mark(struct pg *pg, int limit_ms, struct deferred_error *err)
{
	uint64_t end = clock_ns() + (uint64_t)limit_ms * NS_PER_MS;
	int64_t id = 1;
	int rc = 0;

	while (rc == 0 && id > 0 && clock_ns() < end) {
		struct admin_queue_mark_row r;

		rc = admin_queue_mark_one(pg, id, MARK_STEP, &r, err);
		id = r.next_id;
	}
	return rc;
}
