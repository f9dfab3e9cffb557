/* SPDX-License-Identifier: MIT */
#include "store/json_api.h"

#include "rows/api.h"
#include "store/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "api"

void json_api_answer_clear(struct json_api_answer *answer)
{
	free(answer->body);
	*answer = (struct json_api_answer){ 0 };
}

static int fill_answer(struct json_api_answer *a, int64_t status, const char *body, const char *location, bool replayed,
		       int64_t retry_after, const char *who, struct deferred_error *err)
{
	json_api_answer_clear(a);
	a->status = (int)status;
	a->replayed = replayed;
	a->retry_after = retry_after;
	snprintf(a->location, sizeof(a->location), "%s", location ? location : "");
	snprintf(a->who, sizeof(a->who), "%s", who ? who : "");
	a->body = strdup(body ? body : "");
	return a->body ? 0 : error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
}

int store_json_api_call(struct pg *pg, const struct json_api_request *q, struct json_api_answer *answer,
			struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = api_call_exec(pg, q->token, q->op, q->arg, q->names, q->params, q->values, q->params, q->body, q->key,
			       q->look, &res, err);

	if (rc == 0 && pg_rows(res) == 1) {
		struct api_call_row r = api_call_row(res, 0);

		rc = fill_answer(answer, r.status, r.answer, r.location, r.replayed, r.retry_after, r.who, err);
		answer->wait_ms = r.wait_ms;
		answer->waits_for = r.waits_for;
	}
	pg_result_free(res);
	return rc;
}

int store_json_api_defer(struct pg *pg, struct json_api_defer *items, size_t n, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct columns c;
	struct pg_args args;
	int rc = columns_init(&c, n, WHERE, err);

	if (rc < 0)
		return rc;
	pg_args_init(&args);
	COLUMN_TEXT(&args, &c, items[i].request->token);
	COLUMN_TEXT(&args, &c, items[i].request->body);
	COLUMN_TEXT(&args, &c, items[i].request->key);
	columns_clear(&c);
	rc = pg_exec(pg, &sql_api_defer, &args, PG_TEXT, &res, err);
	pg_args_clear(&args);
	for (size_t row = 0; rc == 0 && row < pg_rows(res); row++) {
		struct api_defer_row r = api_defer_row(res, row);

		if (r.item >= 1 && (size_t)r.item <= n)
			rc = fill_answer(items[r.item - 1].answer, r.status, r.answer, r.location, r.replayed,
					 r.retry_after, r.who, err);
	}
	pg_result_free(res);
	return rc;
}
