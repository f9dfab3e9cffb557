/* SPDX-License-Identifier: MIT */
#include "store/schedule.h"

#include "store/admin.h"

#include <string.h>

/* Send a statement; the arguments are cleared, *res is NULL on failure. */
static int exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct pg_result **res,
		struct deferred_error *err)
{
	int rc = pg_exec(pg, stmt, args, PG_TEXT, res, err);

	pg_args_clear(args);
	return rc;
}

int store_schedule_set(struct pg *pg, const char *name, const char *rule, const char *fn, const char *params,
		       const char *opts, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_text(&args, rule);
	pg_arg_text(&args, fn);
	pg_arg_json(&args, params, strlen(params));
	pg_arg_json(&args, opts, strlen(opts));
	return exec(pg, &sql_schedule_set, &args, res, err);
}

int store_schedule_ls(struct pg *pg, const char *name, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	return exec(pg, &sql_schedule_ls, &args, res, err);
}

int store_schedule_trouble(struct pg *pg, const char *queue, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	return exec(pg, &sql_schedule_trouble, &args, res, err);
}

int store_schedule_ticks(struct pg *pg, const char *name, int most, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_int4(&args, most);
	return exec(pg, &sql_schedule_ticks, &args, res, err);
}

int store_schedule_next(struct pg *pg, const char *what, int ticks, const char *timezone, struct pg_result **res,
			struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, what);
	pg_arg_int4(&args, ticks);
	pg_arg_text(&args, timezone);
	return exec(pg, &sql_schedule_next, &args, res, err);
}

int store_crontab(struct pg *pg, const char *rule, struct crontab_when *when, struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, rule);
	rc = exec(pg, &sql_crontab, &args, &res, err);
	if (rc == 0)
		*when = (struct crontab_when){ pg_int(res, 0, 0), pg_int(res, 0, 1), pg_int(res, 0, 2),
					       pg_int(res, 0, 3), pg_int(res, 0, 4), pg_bool(res, 0, 5) };
	pg_result_free(res);
	return rc;
}

int store_schedule_backfill(struct pg *pg, const char *name, const char *from, const char *to, bool dry, int64_t *ticks,
			    struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_text(&args, from);
	pg_arg_text(&args, to);
	pg_arg_text(&args, dry ? "true" : "false");
	rc = exec(pg, &sql_schedule_backfill, &args, &res, err);
	if (rc == 0)
		*ticks = pg_int(res, 0, 0);
	pg_result_free(res);
	return rc;
}

int store_schedule_do(struct pg *pg, enum store_schedule_what what, const char *name, struct pg_result **res,
		      struct deferred_error *err)
{
	static const struct sql_statement *const statements[] = {
		[STORE_SCHEDULE_PAUSE] = &sql_schedule_pause,
		[STORE_SCHEDULE_RESUME] = &sql_schedule_resume,
		[STORE_SCHEDULE_RUN] = &sql_schedule_run,
		[STORE_SCHEDULE_REMOVE] = &sql_schedule_remove,
	};
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_text(&args, store_admin_user());
	return exec(pg, statements[what], &args, res, err);
}

int store_schedule_sync(struct pg *pg, const char *source, const char *schedules, bool prune, bool dry,
			struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;
	int rc = pg_command(pg, "begin; " PG_OWN_PATH, err);

	*res = NULL;
	if (rc < 0)
		return rc;
	pg_args_init(&args);
	pg_arg_text(&args, source);
	pg_arg_json(&args, schedules, strlen(schedules));
	pg_arg_text(&args, prune ? "true" : "false");
	rc = exec(pg, &sql_schedule_sync, &args, res, err);
	if (rc < 0 || dry)
		pg_command(pg, "rollback", NULL);
	else
		rc = pg_command(pg, "commit", err);
	return rc;
}
