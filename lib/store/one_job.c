/* SPDX-License-Identifier: MIT */
#include "store/one_job.h"

#include "base/text/utf8.h"
#include "rows/claim.h"
#include "rows/job.h"

#include <string.h>

int store_cancel(struct pg *pg, int64_t id, struct deferred_error *err)
{
	struct job_cancel_row r;
	int rc = job_cancel_one(pg, id, &r, err);

	if (rc == 0 && !r.cancelled)
		rc = error_set(err, DEFERRED_ENOTFOUND, "job_cancel",
			       "job %lld cannot be cancelled: this role has no unfinished job of this id\n"
			       "look at it with deferred show ID",
			       (long long)id);
	return rc;
}

int store_update(struct pg *pg, int64_t id, const char *changes, struct deferred_error *err)
{
	struct job_update_row r;
	int rc = job_update_one(pg, id, changes, &r, err);

	return rc == 0 && !r.changed ? error_not_there(err, "job", id) : rc;
}

/* Functions of the schema raise 55000 if the receipt is not valid. */
static int map_stale_receipt(int rc, struct deferred_error *own, struct deferred_error *err)
{
	if (rc == DEFERRED_EDB && strcmp(own->sqlstate, "55000") == 0)
		rc = own->code = DEFERRED_ESTALE;
	if (rc < 0 && err && !err->code)
		*err = *own;
	return rc;
}

int store_finish_self(struct pg *pg, int64_t id, int64_t receipt, const char *result, struct deferred_error *err)
{
	struct deferred_error own = { 0 };

	return map_stale_receipt(job_finish_self_exec(pg, id, receipt, result, &own), &own, err);
}

int store_extend(struct pg *pg, int64_t id, int64_t receipt, int64_t lease_ms, struct deferred_error *err)
{
	struct deferred_error own = { 0 };
	struct job_extend_row ignored;

	return map_stale_receipt(job_extend_one(pg, id, receipt, lease_ms, &ignored, &own), &own, err);
}

/* Copy text, cut so that no character is torn apart. */
static void copy_text(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);

	if (len >= size)
		len = utf8_prefix(from, size - 1);
	memcpy(to, from, len);
	to[len] = '\0';
}

static int read_error_text(struct pg *pg, int64_t id, struct deferred_outcome *outcome, struct deferred_error *err)
{
	struct pg_result *res;
	int rc = job_error_exec(pg, id, &res, err);

	if (rc == 0 && pg_rows(res) > 0)
		copy_text(outcome->error, sizeof(outcome->error), job_error_row(res, 0).error);
	pg_result_free(res);
	return rc;
}

static bool is_hot(const char *state)
{
	return strcmp(state, "delayed") == 0 || strcmp(state, "ready") == 0 || strcmp(state, "claimed") == 0;
}

int store_outcome(struct pg *pg, int64_t id, bool *ended, struct deferred_outcome *outcome, struct deferred_error *err)
{
	struct job_outcome_row r = { 0 };
	struct pg_result *res;
	int rc = job_outcome_exec(pg, id, &res, err);

	if (rc == 0 && pg_rows(res) == 0)
		rc = error_not_there(err, "job", id);
	if (rc == 0) {
		r = job_outcome_row(res, 0);
		*ended = !is_hot(r.state);
	}
	if (rc == 0 && *ended) {
		memset(outcome, 0, sizeof(*outcome));
		copy_text(outcome->state, sizeof(outcome->state), r.state);
		copy_text(outcome->outcome, sizeof(outcome->outcome), r.last_outcome);
		outcome->attempt = r.attempt;
	}
	pg_result_free(res);
	return rc == 0 && *ended && r.may_read ? read_error_text(pg, id, outcome, err) : rc;
}

int store_result(struct pg *pg, int64_t id, bool *ended, char *result, size_t size, struct deferred_error *err)
{
	struct job_result_row r = { 0 };
	struct pg_result *res;
	int rc = job_result_exec(pg, id, &res, err);

	if (rc == 0) {
		r = job_result_row(res, 0);
		if (!r.state)
			rc = error_not_there(err, "job", id);
	}
	*ended = rc == 0 && r.ended;
	if (*ended)
		copy_text(result, size, r.result ? r.result : "");
	pg_result_free(res);
	return rc;
}
