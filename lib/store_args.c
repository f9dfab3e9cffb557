/* SPDX-License-Identifier: MIT */
#include "store_args.h"

#include "columns.h"

#define STATEMENT_TIMEOUT "30s"

int store_add_setup(struct pg *pg, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	if (pg_is_own(pg))
		return 0;
	pg_args_init(&args);
	pg_arg_text(&args, STATEMENT_TIMEOUT);
	rc = pg_pipeline_add(pg, &sql_session_setup, &args, TAG_SETUP, err);
	pg_args_clear(&args);
	return rc;
}

void store_arg_queues(struct pg_args *args, const struct store_scope *scope)
{
	pg_arg_text_array(args, scope->queues, NULL, scope->queues_len);
}

void store_arg_track(struct pg_args *args, const struct store_track *track)
{
	pg_args_init(args);
	pg_arg_int8(args, track->worker);
	pg_arg_text(args, track->group);
	pg_arg_int4(args, (int32_t)track->range);
	pg_arg_int8(args, track->live ? track->lease_ms : 0);
	pg_arg_int8(args, track->round);
	pg_arg_int4(args, (int32_t)track->made);
}

void store_take_track(struct store_track *track, int tag, const struct pg_result *res)
{
	if (tag != TAG_TRACK || pg_rows(res) != 1)
		return;
	track->live = pg_bool(res, 0, 0);
	track->round = pg_int(res, 0, 1);
	track->steps = pg_int(res, 0, 2);
	track->made = pg_int(res, 0, 3);
}

int store_arg_claims(struct pg_args *args, struct attempt *const *a, size_t n, struct deferred_error *err)
{
	struct columns c;
	int rc = columns_init(&c, n, "recorded", err);

	if (rc == 0) {
		COLUMN_INT8(args, &c, a[i]->job->id);
		COLUMN_INT8(args, &c, a[i]->job->receipt);
	}
	columns_clear(&c);
	return rc;
}

void store_take_outcomes(int *outcomes, size_t n, const struct pg_result *res)
{
	for (size_t i = 0; i < pg_rows(res); i++) {
		int64_t at = pg_int(res, i, 0);

		if (at >= 1 && (uint64_t)at <= n)
			outcomes[at - 1] = job_outcome_of(pg_text(res, i, 1, NULL));
	}
}
