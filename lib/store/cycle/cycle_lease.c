/* SPDX-License-Identifier: MIT */
#include "cycle_add.h"

#include "rows/claim.h"

#include <stdlib.h>
#include <string.h>

/* The receipts of jobs, each once, and how long a lease of each lasts. */
struct receipts {
	int64_t *receipt, *lease_ms;
	size_t n;
};

static int compare_receipts(const void *x, const void *y)
{
	const struct job *a = *(struct job *const *)x, *b = *(struct job *const *)y;

	return (a->receipt > b->receipt) - (a->receipt < b->receipt);
}

static int receipts_of(struct receipts *r, struct job *const *jobs, size_t n, struct deferred_error *err)
{
	struct job **sorted = malloc((n + 1) * sizeof(*sorted));

	*r = (struct receipts){ malloc((n + 1) * sizeof(int64_t)), malloc((n + 1) * sizeof(int64_t)), 0 };
	if (!sorted || !r->receipt || !r->lease_ms) {
		free(sorted);
		return error_set(err, DEFERRED_ENOMEM, CYCLE_WHERE, "out of memory");
	}
	memcpy(sorted, jobs, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_receipts);
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && sorted[i]->receipt == sorted[i - 1]->receipt)
			continue;
		r->receipt[r->n] = sorted[i]->receipt;
		r->lease_ms[r->n++] = sorted[i]->lease_ms;
	}
	free(sorted);
	return 0;
}

static void receipts_clear(struct receipts *r)
{
	free(r->receipt);
	free(r->lease_ms);
}

int store_cycle_release(struct store_cycle *cycle, struct job *const *jobs, size_t n, struct deferred_error *err)
{
	struct receipts r;
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	if (rc == 0)
		rc = receipts_of(&r, jobs, n, err);
	else
		return rc;
	COLUMN_INT8(&args, &c, jobs[i]->id);
	COLUMN_INT8(&args, &c, jobs[i]->receipt);
	pg_arg_int8_array(&args, r.receipt, NULL, r.n);
	COLUMN_INT4(&args, &c, jobs[i]->set_aside ? 1 : 0);
	receipts_clear(&r);
	return cycle_rows_add(cycle, &sql_job_release, &args, &c, TAG_RELEASE, rc, err);
}

static int compare_leases(const void *a, const void *b)
{
	const struct store_lease *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->receipt > y->receipt) - (x->receipt < y->receipt);
}

const struct store_lease *store_cycle_lease(const struct store_cycle *cycle, const struct job *job)
{
	struct store_lease gone = { .id = job->id, .receipt = job->receipt }, lease = { .receipt = job->receipt };
	const struct store_lease *found = NULL;

	if (cycle->leases_len > 0)
		found = bsearch(&gone, cycle->leases, cycle->leases_len, sizeof(gone), compare_leases);
	if (!found && cycle->leases_len > 0)
		found = bsearch(&lease, cycle->leases, cycle->leases_len, sizeof(lease), compare_leases);
	return found;
}

/* Where the log does not have a claim that has ended, it was given back, or its rows were purged. */
static enum job_gone gone_by(const char *outcome)
{
	int known = job_outcome_of(outcome);

	return known == JOB_OK ? JOB_GONE_FINISHED : known == JOB_CANCELLED ? JOB_GONE_CANCELLED : JOB_GONE_TAKEN;
}

void cycle_take_leases(struct store_cycle *cycle, const struct pg_result *res)
{
	cycle->leases = malloc((pg_rows(res) + 1) * sizeof(*cycle->leases));
	if (!cycle->leases) {
		cycle->out_of_memory = true;
		return;
	}
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct job_renew_row r = job_renew_row(res, i);

		cycle->leases[cycle->leases_len++] = (struct store_lease){
			.id = r.id,
			.receipt = r.receipt,
			.left_ms = r.left_ms,
			.gone = r.has_id ? gone_by(r.outcome) : JOB_HELD,
		};
	}
	qsort(cycle->leases, cycle->leases_len, sizeof(*cycle->leases), compare_leases);
}

int store_cycle_renew(struct store_cycle *cycle, struct job *const *jobs, size_t n, struct deferred_error *err)
{
	struct receipts r;
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	if (rc == 0)
		rc = receipts_of(&r, jobs, n, err);
	else
		return rc;
	COLUMN_INT8(&args, &c, jobs[i]->id);
	COLUMN_INT8(&args, &c, jobs[i]->receipt);
	pg_arg_int8_array(&args, r.receipt, NULL, r.n);
	pg_arg_int8_array(&args, r.lease_ms, NULL, r.n);
	receipts_clear(&r);
	return cycle_rows_add(cycle, &sql_job_renew, &args, &c, TAG_RENEW, rc, err);
}

int store_cycle_close(struct store_cycle *cycle, const int64_t *receipts, size_t n, struct deferred_error *err)
{
	return cycle_add_ids(cycle, &sql_job_close, receipts, n, err);
}

int store_cycle_lost(struct store_cycle *cycle, int32_t max_attempts, int64_t within_ms, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, max_attempts);
	pg_arg_int8(&args, within_ms);
	rc = cycle_add(cycle, &sql_job_lost, &args, TAG_LOST, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_wake(struct store_cycle *cycle, const int64_t *ids, size_t n, struct deferred_error *err)
{
	return cycle_add_ids(cycle, &sql_job_wake, ids, n, err);
}
