/* SPDX-License-Identifier: MIT */
/* One job: cancel it, change it, wait for its end. From its own function: finish it or extend its lease. */
#include "api/context.h"

#include "base/job.h"
#include "base/text/utf8.h"
#include "port/params.h"
#include "store/one_job.h"

#include <string.h>
#include <time.h>

#define LEASE_MAX_MS (INT64_C(7) * 86400 * 1000)

/* deferred_wait() asks at intervals that double from one to the other. */
#define WAIT_FLOOR_MS 5
#define WAIT_CEILING_MS 500

#define ASK_MS 1000 /* time for the answer if the caller does not want to wait */

static int cancel_one(struct pg *pg, void *arg, struct deferred_error *err)
{
	return store_cancel(pg, *(const int64_t *)arg, err);
}

int deferred_cancel(struct deferred *d, int64_t id, struct deferred_error *err)
{
	error_clear(err);
	return d ? context_run(d, cancel_one, &id, err) : context_missing("cancel", err);
}

/* ---- changing it ------------------------------------------------------------------------------ */

struct change {
	int64_t id;
	const char *changes;
};

static int check_change(const struct change *change, struct deferred_error *err)
{
	int rc = change->changes ? params_check(change->changes, strlen(change->changes), err)
				 : error_set(err, DEFERRED_EINVAL, "update",
					     "the changes are missing\nfor example {\"priority\": 5}");

	if (rc < 0)
		error_prefix(err, "changes of job %lld", (long long)change->id);
	return rc;
}

static int change_one(struct pg *pg, void *arg, struct deferred_error *err)
{
	const struct change *change = arg;

	return store_update(pg, change->id, change->changes, err);
}

int deferred_update(struct deferred *d, int64_t id, const char *changes, struct deferred_error *err)
{
	struct change change = { id, changes };
	int rc;

	error_clear(err);
	if (!d)
		return context_missing("update", err);
	rc = check_change(&change, err);
	return rc < 0 ? rc : context_store(d, change_one, &change, err);
}

int deferred_update_conn(struct pg_conn *conn, int64_t id, const char *changes, struct deferred_error *err)
{
	struct change change = { id, changes };
	int rc;

	error_clear(err);
	rc = check_change(&change, err);
	return rc < 0 ? rc : context_borrow(conn, change_one, &change, err);
}

/* ---- from its own function -------------------------------------------------------------------- */

struct own_job {
	int64_t id, receipt;
	const char *result;
	int64_t lease_ms;
};

static int check_own_job(const struct own_job *own, const char *where, struct deferred_error *err)
{
	if (own->id > 0 && own->receipt != 0)
		return 0;
	error_set(err, DEFERRED_EINVAL, where, "job %lld with receipt %lld is not running", (long long)own->id,
		  (long long)own->receipt);
	error_hint(err, "pass id and receipt of the call; both are 0 under 'deferred run'");
	return DEFERRED_EINVAL;
}

static int finish_own_job(struct pg *pg, void *arg, struct deferred_error *err)
{
	const struct own_job *own = arg;

	return store_finish_self(pg, own->id, own->receipt, own->result, err);
}

int deferred_finish_conn(struct pg_conn *conn, int64_t id, int64_t receipt, const char *result,
			 struct deferred_error *err)
{
	struct own_job own = { .id = id, .receipt = receipt, .result = result };
	int rc;

	error_clear(err);
	rc = check_own_job(&own, "finish", err);
	if (rc == 0 && result && strlen(result) > JOB_TEXT_MAX)
		rc = error_set(err, DEFERRED_EINVAL, "finish",
			       "job %lld: the result has %zu bytes, more than %d\nstore the data elsewhere",
			       (long long)id, strlen(result), JOB_TEXT_MAX);
	if (rc == 0 && result && utf8_prefix(result, strlen(result)) != strlen(result))
		rc = error_set(err, DEFERRED_EINVAL, "finish",
			       "job %lld: the result is not valid UTF-8\nconvert the text to UTF-8", (long long)id);
	return rc < 0 ? rc : context_borrow(conn, finish_own_job, &own, err);
}

static int extend_own_job(struct pg *pg, void *arg, struct deferred_error *err)
{
	const struct own_job *own = arg;

	return store_extend(pg, own->id, own->receipt, own->lease_ms, err);
}

int deferred_extend_conn(struct pg_conn *conn, int64_t id, int64_t receipt, int64_t lease_ms,
			 struct deferred_error *err)
{
	struct own_job own = { .id = id, .receipt = receipt, .lease_ms = lease_ms };
	int rc;

	error_clear(err);
	rc = check_own_job(&own, "extend", err);
	if (rc == 0 && (lease_ms < 1 || lease_ms > LEASE_MAX_MS))
		rc = error_set(err, DEFERRED_EINVAL, "extend",
			       "job %lld: lease of %lld ms is out of range\nuse 1 to 604800000 (7 days)", (long long)id,
			       (long long)lease_ms);
	return rc < 0 ? rc : context_borrow(conn, extend_own_job, &own, err);
}

/* ---- waiting for its end ---------------------------------------------------------------------- */

struct waiting {
	const struct deferred *d;
	int64_t id;
	int64_t left_ms; /* until the caller does not wait any more */
	bool ended;
	struct deferred_outcome outcome;
};

static int ask_outcome(struct pg *pg, void *arg, struct deferred_error *err)
{
	struct waiting *w = arg;
	int rc;

	if (w->d->answer_ms == 0 || w->left_ms < w->d->answer_ms)
		pg_set_limits(pg,
			      w->left_ms > CONTEXT_LIMIT_MAX_MS ? w->d->answer_ms
			      : w->left_ms < ASK_MS             ? ASK_MS
								: (int)w->left_ms,
			      w->d->lock_ms);
	rc = store_outcome(pg, w->id, &w->ended, &w->outcome, err);
	context_explain_denied(pg, "deferred_viewer", err);
	pg_set_limits(pg, w->d->answer_ms, w->d->lock_ms);
	return rc;
}

static int64_t monotonic_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void wait_sleep_ms(int64_t ms)
{
	struct timespec pause = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

int deferred_wait(struct deferred *d, int64_t id, int64_t timeout_ms, struct deferred_outcome *outcome,
		  struct deferred_error *err)
{
	int64_t start = monotonic_ms(), interval = WAIT_FLOOR_MS;
	struct waiting w = { .d = d, .id = id };
	int rc;

	error_clear(err);
	if (!d)
		return context_missing("wait", err);
	for (;;) {
		w.left_ms = timeout_ms < 0 ? INT64_MAX : timeout_ms - (monotonic_ms() - start);
		rc = context_run(d, ask_outcome, &w, err);
		if (rc == DEFERRED_ELOST) { /* a question may be asked twice */
			error_clear(err);
			rc = context_run(d, ask_outcome, &w, err);
		}
		if (rc < 0)
			return rc;
		if (w.ended) {
			if (outcome)
				*outcome = w.outcome;
			return 0;
		}
		if (w.left_ms <= 0)
			return error_set(err, DEFERRED_ETIMEOUT, "wait",
					 "job %lld has not ended after %lld ms\nwait longer; deferred why ID says why "
					 "a job waits",
					 (long long)id, (long long)timeout_ms);
		wait_sleep_ms(interval < w.left_ms ? interval : w.left_ms);
		interval = interval * 2 < WAIT_CEILING_MS ? interval * 2 : WAIT_CEILING_MS;
	}
}

struct result_asked {
	int64_t id;
	char *text;
	size_t size;
	bool ended;
};

static int ask_result(struct pg *pg, void *arg, struct deferred_error *err)
{
	struct result_asked *asked = arg;

	return store_result(pg, asked->id, &asked->ended, asked->text, asked->size, err);
}

int deferred_result(struct deferred *d, int64_t id, char *result, size_t size, struct deferred_error *err)
{
	struct result_asked asked = { .id = id, .text = result, .size = size };
	int rc;

	error_clear(err);
	if (!d)
		return context_missing("result", err);
	if (!result || size == 0)
		return error_set(err, DEFERRED_EINVAL, "result",
				 "no buffer was given for the result of job %lld\npass a buffer of at least 1 byte",
				 (long long)id);
	rc = context_run(d, ask_result, &asked, err);
	if (rc == 0 && !asked.ended)
		rc = error_set(err, DEFERRED_ETIMEOUT, "result",
			       "job %lld has not ended\nwait for its end with deferred_wait()", (long long)id);
	return rc;
}
