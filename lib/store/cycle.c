/* SPDX-License-Identifier: MIT */
#include "store/cycle.h"

#include "base/clock.h"
#include "base/random.h"
#include "rows/claim.h"
#include "rows/history.h"
#include "rows/worker.h"
#include "store/args.h"
#include "store/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "cycle"
#define PROMOTE_MAX 1000
#define LEASES_MAX 16               /* a statement that records meets each of its jobs with each of its leases */
#define PG_EPOCH_US 946684800000000 /* 2000-01-01 in microseconds since 1970 */

/* ---- what is sent ----------------------------------------------------------------------------- */

/* A statement of the first transaction, which is whole when the claim begins. */
static int add(struct store_cycle *cycle, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
	       struct deferred_error *err)
{
	int rc;

	if (cycle->claims || cycle->claims_limited)
		return error_set(err, DEFERRED_EINVAL, WHERE, "%s comes before a claim\nreport this as a defect",
				 stmt->name);
	rc = cycle->writes ? 0 : store_add_setup(cycle->pg, err);
	cycle->writes = true;
	return rc == 0 ? pg_pipeline_add(cycle->pg, stmt, args, tag, err) : rc;
}

/* A statement for n rows: its arguments are columns, added between the two calls. */
static int rows_begin(struct pg_args *args, struct columns *c, size_t n, struct deferred_error *err)
{
	pg_args_init(args);
	return columns_init(c, n, WHERE, err);
}

static int rows_add(struct store_cycle *cycle, const struct sql_statement *stmt, struct pg_args *args,
		    struct columns *c, enum store_tag tag, int rc, struct deferred_error *err)
{
	if (rc == 0)
		rc = add(cycle, stmt, args, tag, err);
	pg_args_clear(args);
	columns_clear(c);
	return rc;
}

static int64_t age_us(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? (int64_t)((now_ns - then_ns) / 1000) : 0;
}

/* From ready to started. */
static int64_t attempt_wait_us(const struct attempt *a)
{
	return a->job->wait_us + age_us(a->started_ns, a->job->claimed_ns);
}

void store_cycle_begin(struct store_cycle *cycle, struct pg *pg)
{
	memset(cycle, 0, sizeof(*cycle));
	cycle->pg = pg;
	cycle->claimed_tail = &cycle->claimed;
	cycle->limited_tail = &cycle->limited;
}

static int add_ids(struct store_cycle *cycle, const struct sql_statement *stmt, const int64_t *ids, size_t n,
		   struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8_array(&args, ids, NULL, n);
	rc = add(cycle, stmt, &args, TAG_IGNORE, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_follow(struct store_cycle *cycle, const struct attempt *attempt, struct deferred_error *err)
{
	int rc = 0;

	for (const struct runner_call *call = attempt->follow; call && rc == 0; call = call->next) {
		struct pg_args args;

		pg_args_init(&args);
		pg_arg_int8(&args, attempt->job->id);
		pg_arg_int8(&args, attempt->job->receipt);
		pg_arg_text(&args, call->fn);
		pg_arg_json(&args, call->params, strlen(call->params));
		pg_arg_json(&args, call->opts, call->opts ? strlen(call->opts) : 0);
		rc = add(cycle, &sql_job_follow, &args, TAG_IGNORE, err);
		pg_args_clear(&args);
	}
	return rc;
}

/* Attempts that ended well without a text, all of one plugin, take a shorter way. */
static bool is_plain(const struct attempt *a, const char *plugin)
{
	return a->outcome == JOB_OK && !a->error && !a->result && a->exit_code == -1 && a->signal == 0 && a->plugin &&
	       plugin && (a->plugin == plugin || strcmp(a->plugin, plugin) == 0);
}

static int record_plain(struct store_cycle *cycle, struct attempt *const *a, size_t n, const struct store_ids *receipts,
			struct deferred_error *err)
{
	uint64_t now = clock_ns();
	struct pg_args args;
	struct columns c;
	int rc = rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, a[i]->job->id);
	COLUMN_INT8(&args, &c, a[i]->job->receipt);
	COLUMN_INTERVAL(&args, &c, age_us(now, a[i]->started_ns));
	COLUMN_INTERVAL(&args, &c, age_us(now, a[i]->finished_ns));
	COLUMN_INT8(&args, &c, age_us(now, a[i]->started_ns) - age_us(now, a[i]->finished_ns));
	COLUMN_INT8(&args, &c, attempt_wait_us(a[i]));
	COLUMN_INT8(&args, &c, a[i]->user_us);
	COLUMN_INT8(&args, &c, a[i]->sys_us);
	COLUMN_INT8(&args, &c, a[i]->max_rss_kb);
	pg_arg_text(&args, a[0]->plugin);
	pg_arg_int8_array(&args, receipts->id, NULL, receipts->len);
	COLUMN_TID(&args, &c, a[i]->job->tid);
	for (size_t i = 0; i < n; i++)
		cycle->out_of_memory |= !store_ids_add(&cycle->plain, a[i]->job->id);
	return rows_add(cycle, &sql_job_done, &args, &c, TAG_REFUSED, rc, err);
}

static int record_any(struct store_cycle *cycle, struct attempt *const *a, size_t n, bool final,
		      const struct store_ids *receipts, struct deferred_error *err)
{
	uint64_t now = clock_ns();
	struct pg_args args;
	struct columns c;
	int rc = rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, a[i]->job->id);
	COLUMN_INT8(&args, &c, a[i]->job->receipt);
	COLUMN_TEXT_OR_NULL(&args, &c, job_outcome_text(a[i]->outcome), strlen(c.text[i]));
	COLUMN_TEXT_OR_NULL(&args, &c, a[i]->error, a[i]->error_len);
	COLUMN_INT4_OR_NULL(&args, &c, a[i]->exit_code, -1);
	COLUMN_INT4_OR_NULL(&args, &c, a[i]->signal, 0);
	COLUMN_INT8(&args, &c, age_us(now, a[i]->started_ns));
	COLUMN_INT8(&args, &c, age_us(now, a[i]->finished_ns));
	COLUMN_TEXT_OR_NULL(&args, &c, a[i]->plugin, strlen(c.text[i]));
	COLUMN_INT8(&args, &c, attempt_wait_us(a[i]));
	COLUMN_INT8(&args, &c, a[i]->user_us);
	COLUMN_INT8(&args, &c, a[i]->sys_us);
	COLUMN_INT8(&args, &c, a[i]->max_rss_kb);
	COLUMN_TEXT_OR_NULL(&args, &c, a[i]->result, a[i]->result_len);
	if (!final) {
		COLUMN_INT8(&args, &c, a[i]->delay_ms);
		COLUMN_INT4(&args, &c, a[i]->counts ? 0 : 1);
	}
	pg_arg_int8_array(&args, receipts->id, NULL, receipts->len);
	return rows_add(cycle, final ? &sql_job_finish : &sql_job_retry, &args, &c, TAG_RECORD, rc, err);
}

/* By lease, and there in the order of the indexes they are looked up in and added to. */
static int compare_attempts(const void *x, const void *y)
{
	const struct job *a = (*(struct attempt *const *)x)->job, *b = (*(struct attempt *const *)y)->job;

	if (a->receipt != b->receipt)
		return a->receipt < b->receipt ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

/* Attempts of a few leases. */
static int record_some(struct store_cycle *cycle, struct attempt **a, size_t n, bool final,
		       const struct store_ids *receipts, struct deferred_error *err)
{
	const char *plugin = a[0]->plugin;
	size_t plain = 0;
	int rc = 0;

	for (size_t i = 0; final && i < n; i++)
		if (is_plain(a[i], plugin)) {
			struct attempt *swap = a[plain];

			a[plain++] = a[i];
			a[i] = swap;
		}
	if (plain > 0)
		rc = record_plain(cycle, a, plain, receipts, err);
	if (rc == 0 && n > plain)
		rc = record_any(cycle, a + plain, n - plain, final, receipts, err);
	return rc;
}

int store_cycle_record(struct store_cycle *cycle, struct attempt **a, size_t n, bool final, struct deferred_error *err)
{
	int64_t receipt[LEASES_MAX];
	struct store_ids receipts = { .id = receipt };
	size_t from = 0;
	int rc = 0;

	qsort(a, n, sizeof(struct attempt *), compare_attempts);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		bool more = i + 1 < n;

		if (i == from || a[i]->job->receipt != a[i - 1]->job->receipt)
			receipt[receipts.len++] = a[i]->job->receipt;
		if (more && (receipts.len < LEASES_MAX || a[i + 1]->job->receipt == a[i]->job->receipt))
			continue;
		rc = record_some(cycle, a + from, i + 1 - from, final, &receipts, err);
		from = i + 1;
		receipts.len = 0;
	}
	return rc;
}

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
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
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
	int rc = rows_begin(&args, &c, n, err);

	if (rc == 0)
		rc = receipts_of(&r, jobs, n, err);
	else
		return rc;
	COLUMN_INT8(&args, &c, jobs[i]->id);
	COLUMN_INT8(&args, &c, jobs[i]->receipt);
	pg_arg_int8_array(&args, r.receipt, NULL, r.n);
	COLUMN_INT4(&args, &c, jobs[i]->apart ? 1 : 0);
	receipts_clear(&r);
	return rows_add(cycle, &sql_job_release, &args, &c, TAG_RELEASE, rc, err);
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

static void take_leases(struct store_cycle *cycle, const struct pg_result *res)
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
	int rc = rows_begin(&args, &c, n, err);

	if (rc == 0)
		rc = receipts_of(&r, jobs, n, err);
	else
		return rc;
	COLUMN_INT8(&args, &c, jobs[i]->id);
	COLUMN_INT8(&args, &c, jobs[i]->receipt);
	pg_arg_int8_array(&args, r.receipt, NULL, r.n);
	pg_arg_int8_array(&args, r.lease_ms, NULL, r.n);
	receipts_clear(&r);
	return rows_add(cycle, &sql_job_renew, &args, &c, TAG_RENEW, rc, err);
}

int store_cycle_close(struct store_cycle *cycle, const int64_t *receipts, size_t n, struct deferred_error *err)
{
	return add_ids(cycle, &sql_job_close, receipts, n, err);
}

int store_cycle_outcomes(struct store_cycle *cycle, struct attempt *const *attempts, size_t n,
			 struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->outcomes = malloc((n + 1) * sizeof(*cycle->outcomes));
	if (!cycle->outcomes)
		return error_set(err, DEFERRED_ENOMEM, "recorded", "out of memory");
	cycle->outcomes_len = n;
	for (size_t i = 0; i < n; i++)
		cycle->outcomes[i] = JOB_UNRECORDED;
	pg_args_init(&args);
	rc = store_arg_claims(&args, attempts, n, err);
	if (rc == 0)
		rc = add(cycle, &sql_job_recorded, &args, TAG_OUTCOMES, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_parents(struct store_cycle *cycle, struct job *const *jobs, size_t n, struct deferred_error *err)
{
	struct pg_args args;
	struct columns c;
	int rc = rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, jobs[i]->id);
	return rows_add(cycle, &sql_job_parents, &args, &c, TAG_PARENTS, rc, err);
}

static void take_parents(struct store_cycle *cycle, const struct pg_result *res)
{
	cycle->parents = calloc(pg_rows(res) + 1, sizeof(*cycle->parents));
	for (size_t i = 0; cycle->parents && i < pg_rows(res); i++) {
		struct store_parents *p = &cycle->parents[cycle->parents_len++];
		struct job_parents_row r = job_parents_row(res, i);

		if (!r.parents)
			continue;
		p->len = strlen(r.parents);
		p->text = strdup(r.parents);
		cycle->out_of_memory |= !p->text;
	}
	cycle->out_of_memory |= !cycle->parents;
}

int store_cycle_progress(struct store_cycle *cycle, const struct job_progress *p, size_t n, struct deferred_error *err)
{
	uint64_t now = clock_ns();
	struct pg_args args;
	struct columns c;
	int rc = rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, p[i].job->id);
	COLUMN_INT8(&args, &c, p[i].job->receipt);
	COLUMN_INT8(&args, &c, p[i].done);
	COLUMN_INT8(&args, &c, p[i].total);
	COLUMN_TEXT(&args, &c, p[i].text);
	COLUMN_INT8(&args, &c, age_us(now, p[i].reported_ns));
	return rows_add(cycle, &sql_job_progress, &args, &c, TAG_IGNORE, rc, err);
}

int store_cycle_progress_end(struct store_cycle *cycle, struct attempt *const *a, size_t n, struct deferred_error *err)
{
	struct pg_args args;
	struct columns c;
	int rc = rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, a[i]->job->id);
	COLUMN_INT4(&args, &c, a[i]->job->attempt);
	return rows_add(cycle, &sql_job_progress_end, &args, &c, TAG_IGNORE, rc, err);
}

int store_cycle_wake(struct store_cycle *cycle, const int64_t *ids, size_t n, struct deferred_error *err)
{
	return add_ids(cycle, &sql_job_wake, ids, n, err);
}

static int add_simple(struct store_cycle *cycle, const struct sql_statement *stmt, enum store_tag tag,
		      struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	rc = add(cycle, stmt, &args, tag, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_arm(struct store_cycle *cycle, const struct store_scope *scope, struct deferred_error *err)
{
	int rc = store_cycle_disarm(cycle, scope, err);
	struct pg_args args;

	pg_args_init(&args);
	store_arg_queues(&args, scope);
	if (rc == 0)
		rc = add(cycle, &sql_worker_arm, &args, TAG_ARM, err);
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
	rc = add(cycle, &sql_worker_disarm, &args, TAG_WATCH, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_open(struct store_cycle *cycle, struct deferred_error *err)
{
	cycle->opens = true;
	return add_simple(cycle, &sql_worker_open, TAG_OPEN, err);
}

int store_cycle_peek(struct store_cycle *cycle, const struct store_scope *scope, int64_t from_us,
		     struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->peeks = true;
	pg_args_init(&args);
	store_arg_probe(&args, scope, from_us);
	rc = add(cycle, &sql_run_probe, &args, TAG_PEEK, err);
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
	rc = add(cycle, &sql_job_promote, &args, TAG_PROMOTE, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_lost(struct store_cycle *cycle, int32_t max_attempts, int64_t within_ms, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, max_attempts);
	pg_arg_int8(&args, within_ms);
	rc = add(cycle, &sql_job_lost, &args, TAG_LOST, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_track(struct store_cycle *cycle, const struct store_track *track, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->tracks = true;
	store_arg_track(&args, track);
	rc = add(cycle, &sql_track_move, &args, TAG_TRACK, err);
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
	rc = add(cycle, &sql_job_next_due, &args, TAG_NEXT_DUE, err);
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
	rc = add(cycle, &sql_worker_keep, &args, TAG_KEEP, err);
	pg_args_clear(&args);
	if (rc == 0)
		rc = store_cycle_next_due(cycle, worker, from_us, err);
	if (rc == 0)
		rc = add_simple(cycle, &sql_maintain, TAG_IGNORE, err);
	return rc == 0 ? add_simple(cycle, &sql_fold_kept, TAG_FOLD, err) : rc;
}

int store_cycle_patience(struct store_cycle *cycle, int64_t ms, struct deferred_error *err)
{
	struct pg_args args;
	char text[32];
	int rc;

	snprintf(text, sizeof(text), "%lld", (long long)ms);
	pg_args_init(&args);
	pg_arg_text(&args, text);
	rc = add(cycle, &sql_job_patience, &args, TAG_IGNORE, err);
	pg_args_clear(&args);
	return rc;
}

/* ---- claiming --------------------------------------------------------------------------------- */

static void arg_known(struct pg_args *args, const struct store_claim *claim)
{
	if (claim->known)
		pg_arg_text_array(args, claim->known, NULL, claim->known_len);
	else
		pg_arg_null(args);
}

/* Where a claim goes on, or where a new round begins. The cycle keeps it, in case the claim does not get further. */
static void round_arg(struct pg_args *args, char *to, const char *round, bool anew)
{
	snprintf(to, ROUND_MAX, "%s", round ? round : "");
	if (anew)
		to[strcspn(to, "/")] = '\0';
	if (to[0])
		pg_arg_text(args, to);
	else
		pg_arg_null(args);
}

static int claim_unlimited(struct store_cycle *cycle, const struct store_scope *scope, const struct store_claim *claim,
			   struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->claims = true;
	cycle->looks = claim->look;
	cycle->seed = claim->seed;
	pg_args_init(&args);
	store_arg_queues(&args, scope);
	pg_arg_int4(&args, claim->n);
	pg_arg_int4(&args, claim->window);
	pg_arg_int8(&args, claim->worker);
	pg_arg_int8(&args, claim->lease_ms);
	pg_arg_int4(&args, scope->max_attempts);
	arg_known(&args, claim);
	pg_arg_int8(&args, claim->seed);
	pg_arg_int4(&args, claim->limited > 0 ? claim->bytes / 2 : claim->bytes);
	pg_arg_text_array(&args, (const char *const *)claim->lanes->queue, NULL, claim->lanes->n);
	pg_arg_int4_array(&args, claim->lanes->priority, NULL, claim->lanes->n);
	pg_arg_int4(&args, claim->look);
	pg_arg_int4(&args, claim->alone);
	round_arg(&args, cycle->lanes_round, claim->lanes_round, claim->lanes_anew);
	rc = pg_pipeline_add(cycle->pg, &sql_job_claim, &args, TAG_CLAIM, err);
	pg_args_clear(&args);
	if (rc < 0)
		return rc;
	store_arg_queues(&args, scope);
	rc = pg_pipeline_add(cycle->pg, &sql_job_claimed, &args, TAG_CLAIMED, err);
	pg_args_clear(&args);
	return rc;
}

static int claim_limited(struct store_cycle *cycle, const struct store_scope *scope, const struct store_claim *claim,
			 struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	cycle->claims_limited = true;
	pg_args_init(&args);
	store_arg_queues(&args, scope);
	pg_arg_int4(&args, claim->limited);
	pg_arg_int4(&args, claim->rated);
	pg_arg_int8(&args, claim->worker);
	pg_arg_int8(&args, claim->lease_ms);
	pg_arg_int4(&args, scope->max_attempts);
	arg_known(&args, claim);
	pg_arg_int8(&args, claim->seed);
	pg_arg_int4(&args, claim->n > 0 ? claim->bytes / 2 : claim->bytes);
	pg_arg_int4(&args, claim->alone);
	round_arg(&args, cycle->round, claim->round, claim->anew);
	rc = pg_pipeline_add(cycle->pg, &sql_job_claim_limited, &args, TAG_CLAIM_LIMITED, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_claim(struct store_cycle *cycle, const struct store_scope *scope, const struct store_claim *claim,
		      struct deferred_error *err)
{
	int rc = cycle->writes ? pg_pipeline_commit(cycle->pg, err) : 0;

	if (rc == 0)
		rc = store_add_setup(cycle->pg, err);
	if (rc == 0 && claim->n > 0)
		rc = claim_unlimited(cycle, scope, claim, err);
	if (rc == 0 && claim->limited > 0)
		rc = claim_limited(cycle, scope, claim, err); /* last: the locks it takes are held until the end */
	return rc;
}

int store_cycle_send(struct store_cycle *cycle, struct deferred_error *err)
{
	cycle->sent_ns = clock_ns(); /* before the server can have begun: the lease counts from here */
	cycle->recorded_ok = !cycle->writes;
	return pg_pipeline_send(cycle->pg, err);
}

struct place {
	struct job *job;
	uint64_t random;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->job->alone != y->job->alone)
		return x->job->alone ? -1 : 1;
	if (x->job->priority != y->job->priority)
		return x->job->priority > y->job->priority ? -1 : 1;
	return (x->random > y->random) - (x->random < y->random);
}

/* Jobs come as they lie on the pages. They start by priority, and at random within one; but those first that must begin
 * at once. */
static void put_in_order(struct store_cycle *cycle)
{
	struct place *places = malloc((cycle->claimed_len + 1) * sizeof(*places));
	size_t n = 0;

	if (!places) {
		cycle->out_of_memory = true;
		return;
	}
	for (struct job *job = cycle->claimed; job; job = job->next)
		places[n++] = (struct place){ job, random_mix((uint64_t)cycle->seed ^ (uint64_t)job->id) };
	qsort(places, n, sizeof(*places), compare_places);
	cycle->claimed_tail = &cycle->claimed;
	for (size_t i = 0; i < n; i++) {
		*cycle->claimed_tail = places[i].job;
		cycle->claimed_tail = &places[i].job->next;
	}
	*cycle->claimed_tail = NULL;
	free(places);
}

/* What many jobs of a claim have in common: a row says it where it differs from the row before. The queue lies in the
 * result. */
struct common {
	const char *queue;
	int64_t receipt, lease_ms, claimed_at;
	int priority;
};

static void take_common(struct common *common, const struct job_claim_row *r)
{
	if (r->has_receipt)
		common->receipt = r->receipt;
	if (!r->queue)
		return;
	common->queue = r->queue;
	common->priority = r->priority;
	common->lease_ms = r->lease_ms;
	common->claimed_at = r->claimed_at;
}

/* Some other hand may have stored a trace context that is not valid: the job has none then. */
static struct job *job_of(struct store_cycle *cycle, struct common *common, const struct job_claim_row *r)
{
	struct job *job;

	take_common(common, r);
	job = job_new(common->queue, r->fn, r->label, r->params, r->params_len);
	if (!job) {
		cycle->out_of_memory = true; /* the lease of that job runs out, and somebody takes it */
		return NULL;
	}
	job->id = r->id;
	job->receipt = common->receipt;
	job->tid = r->tid;
	job->attempt = r->attempt;
	job->attempt_base = r->attempt_base;
	job->max_attempts = r->max_attempts;
	job->timeout_ms = r->timeout_ms;
	job->backoff_floor_ms = r->backoff_floor_ms;
	job->backoff_ceiling_ms = r->backoff_ceiling_ms;
	job->backoff_exponent = r->backoff_exponent;
	job->created_at_us = r->created_at + PG_EPOCH_US;
	job->ready_at_us = r->ready_since + PG_EPOCH_US;
	job->tick_us = r->has_tick ? r->tick + PG_EPOCH_US : 0;
	job->previous_tick_us = r->has_previous_tick ? r->previous_tick + PG_EPOCH_US : 0;
	job->wait_us = common->claimed_at > r->ready_since ? common->claimed_at - r->ready_since : 0;
	job->claimed_ns = job->lease_ns = cycle->sent_ns;
	job->priority = common->priority;
	job->lease_ms = job->granted_ms = common->lease_ms;
	job->alone = r->alone;
	job->asks = r->parents;
	if (traceparent_valid(r->traceparent))
		memcpy(job->traceparent, r->traceparent, sizeof(job->traceparent));
	return job;
}

static void take_limited(struct store_cycle *cycle, const struct pg_result *res)
{
	struct common common = { "", 0, 0, 0, 0 };

	if (pg_rows(res) == 0)
		cycle->round[strcspn(cycle->round, "/")] = '\0'; /* the round has ended */
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct job_claim_limited_row limited = job_claim_limited_row(res, i);
		struct job_claim_row r = job_claim_row(res, i);
		struct job *job;

		cycle->limited_seen = limited.seen;
		cycle->limited_wait_ms = limited.wait_ms;
		cycle->limited_us = limited.look_us;
		snprintf(cycle->round, sizeof(cycle->round), "%s", limited.round);
		cycle->more |= strchr(cycle->round, '/') != NULL;
		if (r.id == 0 || !(job = job_of(cycle, &common, &r)))
			continue;
		job->limited = true;
		if (limited.has_start_ms)
			job->start_by_ns = cycle->sent_ns + (uint64_t)limited.start_ms * NS_PER_MS;
		*cycle->limited_tail = job;
		cycle->limited_tail = &job->next;
		cycle->limited_len++;
	}
}

static void take_unlimited(struct store_cycle *cycle, const struct pg_result *res)
{
	struct common common = { "", 0, 0, 0, 0 };

	for (size_t i = 0; i < pg_rows(res); i++) {
		struct job_claim_row r = job_claim_row(res, i);
		struct job *job = job_of(cycle, &common, &r);

		cycle->cut |= r.cut;
		if (!job)
			continue;
		lanes_add(&cycle->lanes, job->queue, job->priority);
		*cycle->claimed_tail = job;
		cycle->claimed_tail = &job->next;
		cycle->claimed_len++;
		cycle->claimed_alone += job->alone;
	}
	put_in_order(cycle);
}

static void take_claimed(struct store_cycle *cycle, struct job_claimed_row r)
{
	cycle->busy = r.busy && cycle->claimed_len == 0;
	cycle->look_us = r.look_us;
	cycle->limits = r.limits;
	cycle->waiting = r.waiting;
	if (cycle->looks && !(r.more && !r.round))
		snprintf(cycle->lanes_round, ROUND_MAX, "%s", r.round ? r.round : "");
	cycle->more |= r.more || r.round;
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

static void take_ids(struct store_cycle *cycle, int tag, const struct pg_result *res)
{
	for (size_t i = 0; tag == TAG_RECORD && i < pg_rows(res); i++)
		cycle->out_of_memory |= !store_ids_add(&cycle->recorded, job_finish_row(res, i).job_id);
	for (size_t i = 0; tag == TAG_REFUSED && i < pg_rows(res); i++)
		cycle->out_of_memory |= !store_ids_add(&cycle->refused, job_done_row(res, i).id);
	for (size_t i = 0; tag == TAG_RELEASE && i < pg_rows(res); i++)
		if (!job_release_row(res, i).released)
			cycle->out_of_memory |= !store_ids_add(&cycle->locked, job_release_row(res, i).id);
	for (size_t i = 0; tag == TAG_OPEN && i < pg_rows(res); i++)
		cycle->out_of_memory |= !store_ids_add(&cycle->open, worker_open_row(res, i).xid);
}

/* The second transaction has ended, or the only one. */
static void take_end(struct store_cycle *cycle, bool committed)
{
	if (cycle->writes && !cycle->first_ended) {
		cycle->first_ended = true;
		cycle->recorded_ok = committed;
	} else {
		cycle->claimed_ok = committed;
	}
}

/* Answers of one row. */
static void take_one(struct store_cycle *cycle, int tag, const struct pg_result *res)
{
	if (tag == TAG_PROMOTE)
		cycle->promoted = job_promote_row(res, 0).promoted;
	if (tag == TAG_CLAIMED)
		take_claimed(cycle, job_claimed_row(res, 0));
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
						   .schema_version = worker_keep_row(res, 0).version };
	if (tag == TAG_FOLD)
		cycle->kept.fold_more = fold_kept_row(res, 0).more;
}

static void on_cycle(void *data, int tag, const struct pg_result *res)
{
	struct store_cycle *cycle = data;

	if (tag == PG_COMMITTED || tag == PG_FAILED)
		take_end(cycle, tag == PG_COMMITTED);
	take_ids(cycle, tag, res);
	if (tag == TAG_RENEW)
		take_leases(cycle, res);
	if (tag == TAG_OUTCOMES)
		store_take_outcomes(cycle->outcomes, cycle->outcomes_len, res);
	if (tag == TAG_PARENTS)
		take_parents(cycle, res);
	store_take_track(&cycle->track, tag, res);
	if (tag == TAG_CLAIM)
		take_unlimited(cycle, res);
	if (tag == TAG_CLAIM_LIMITED)
		take_limited(cycle, res);
	if (tag == TAG_LOST && !store_take_losses(&cycle->losses, res))
		cycle->out_of_memory = true;
	if (pg_rows(res) == 1)
		take_one(cycle, tag, res);
}

/* Of successes only those are told that were refused. */
static void take_plain(struct store_cycle *cycle)
{
	store_ids_sort(&cycle->refused);
	for (size_t i = 0; i < cycle->plain.len; i++)
		if (!store_ids_have(&cycle->refused, cycle->plain.id[i]))
			cycle->out_of_memory |= !store_ids_add(&cycle->recorded, cycle->plain.id[i]);
}

int store_cycle_poll(struct store_cycle *cycle, bool *done, struct deferred_error *err)
{
	int rc = pg_pipeline_poll(cycle->pg, on_cycle, cycle, done, err);

	if (*done)
		take_plain(cycle);
	if (rc == 0 && *done && cycle->out_of_memory)
		return error_set(err, DEFERRED_ENOMEM, "cycle", "out of memory");
	if (*done) {
		store_ids_sort(&cycle->recorded);
		store_ids_sort(&cycle->locked);
		store_ids_sort(&cycle->open);
	}
	return rc;
}

void store_cycle_clear(struct store_cycle *cycle)
{
	job_list_free(cycle->claimed);
	job_list_free(cycle->limited);
	lanes_clear(&cycle->lanes);
	free(cycle->recorded.id);
	free(cycle->plain.id);
	free(cycle->refused.id);
	free(cycle->locked.id);
	free(cycle->leases);
	free(cycle->outcomes);
	for (size_t i = 0; i < cycle->parents_len; i++)
		free(cycle->parents[i].text);
	free(cycle->parents);
	free(cycle->open.id);
	free(cycle->losses.row);
	memset(cycle, 0, sizeof(*cycle));
}
