/* SPDX-License-Identifier: MIT */
#include "cycle_add.h"

#include "base/clock.h"
#include "rows/claim.h"

#include <stdlib.h>
#include <string.h>

#define LEASES_MAX 16 /* a statement that records compares each of its jobs with each of its leases */

/* From ready to started. */
static int64_t attempt_wait_us(const struct attempt *a)
{
	return a->job->wait_us + cycle_age_us(a->started_ns, a->job->claimed_ns);
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
		rc = cycle_add(cycle, &sql_job_follow, &args, TAG_IGNORE, err);
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
	int rc = cycle_rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, a[i]->job->id);
	COLUMN_INT8(&args, &c, a[i]->job->receipt);
	COLUMN_INTERVAL(&args, &c, cycle_age_us(now, a[i]->started_ns));
	COLUMN_INTERVAL(&args, &c, cycle_age_us(now, a[i]->finished_ns));
	COLUMN_INT8(&args, &c, cycle_age_us(now, a[i]->started_ns) - cycle_age_us(now, a[i]->finished_ns));
	COLUMN_INT8(&args, &c, attempt_wait_us(a[i]));
	COLUMN_INT8(&args, &c, a[i]->user_us);
	COLUMN_INT8(&args, &c, a[i]->sys_us);
	COLUMN_INT8(&args, &c, a[i]->max_rss_kb);
	pg_arg_text(&args, a[0]->plugin);
	pg_arg_int8_array(&args, receipts->id, NULL, receipts->len);
	COLUMN_TID(&args, &c, a[i]->job->tid);
	for (size_t i = 0; i < n; i++)
		cycle->out_of_memory |= !store_ids_add(&cycle->plain, a[i]->job->id);
	return cycle_rows_add(cycle, &sql_job_done, &args, &c, TAG_REFUSED, rc, err);
}

static int record_any(struct store_cycle *cycle, struct attempt *const *a, size_t n, bool final,
		      const struct store_ids *receipts, struct deferred_error *err)
{
	uint64_t now = clock_ns();
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, a[i]->job->id);
	COLUMN_INT8(&args, &c, a[i]->job->receipt);
	COLUMN_TEXT_OR_NULL(&args, &c, job_outcome_text(a[i]->outcome), strlen(c.text[i]));
	COLUMN_TEXT_OR_NULL(&args, &c, a[i]->error, a[i]->error_len);
	COLUMN_INT4_OR_NULL(&args, &c, a[i]->exit_code, -1);
	COLUMN_INT4_OR_NULL(&args, &c, a[i]->signal, 0);
	COLUMN_INT8(&args, &c, cycle_age_us(now, a[i]->started_ns));
	COLUMN_INT8(&args, &c, cycle_age_us(now, a[i]->finished_ns));
	COLUMN_TEXT_OR_NULL(&args, &c, a[i]->plugin, strlen(c.text[i]));
	COLUMN_INT8(&args, &c, attempt_wait_us(a[i]));
	COLUMN_INT8(&args, &c, a[i]->user_us);
	COLUMN_INT8(&args, &c, a[i]->sys_us);
	COLUMN_INT8(&args, &c, a[i]->max_rss_kb);
	COLUMN_TEXT_OR_NULL(&args, &c, a[i]->result, a[i]->result_len);
	if (!final) {
		COLUMN_INT8(&args, &c, a[i]->delay_ms);
		COLUMN_INT4(&args, &c, (a[i]->counts ? 0 : 1) | (a[i]->suspect ? 2 : 0));
	}
	pg_arg_int8_array(&args, receipts->id, NULL, receipts->len);
	return cycle_rows_add(cycle, final ? &sql_job_finish : &sql_job_retry, &args, &c, TAG_RECORD, rc, err);
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
		rc = cycle_add(cycle, &sql_job_recorded, &args, TAG_OUTCOMES, err);
	pg_args_clear(&args);
	return rc;
}

int store_cycle_progress(struct store_cycle *cycle, const struct job_progress *p, size_t n, struct deferred_error *err)
{
	uint64_t now = clock_ns();
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, p[i].job->id);
	COLUMN_INT8(&args, &c, p[i].job->receipt);
	COLUMN_INT8(&args, &c, p[i].done);
	COLUMN_INT8(&args, &c, p[i].total);
	COLUMN_TEXT(&args, &c, p[i].text);
	COLUMN_INT8(&args, &c, cycle_age_us(now, p[i].reported_ns));
	return cycle_rows_add(cycle, &sql_job_progress, &args, &c, TAG_IGNORE, rc, err);
}

int store_cycle_progress_end(struct store_cycle *cycle, struct attempt *const *a, size_t n, struct deferred_error *err)
{
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, a[i]->job->id);
	COLUMN_INT4(&args, &c, a[i]->job->attempt);
	return cycle_rows_add(cycle, &sql_job_progress_end, &args, &c, TAG_IGNORE, rc, err);
}

int store_cycle_parents(struct store_cycle *cycle, struct job *const *jobs, size_t n, struct deferred_error *err)
{
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, jobs[i]->id);
	return cycle_rows_add(cycle, &sql_job_parents, &args, &c, TAG_PARENTS, rc, err);
}

void cycle_take_parents(struct store_cycle *cycle, const struct pg_result *res)
{
	cycle->parents = calloc(pg_rows(res) + 1, sizeof(*cycle->parents));
	for (size_t i = 0; cycle->parents && i < pg_rows(res); i++) {
		struct store_parents *p = &cycle->parents[cycle->parents_len++];
		struct job_parents_row r = job_parents_row(res, i);

		p->text = strdup(r.parents ? r.parents : "");
		p->steps = strdup(r.steps ? r.steps : "");
		cycle->out_of_memory |= !p->text || !p->steps;
	}
	cycle->out_of_memory |= !cycle->parents;
}

int store_cycle_steps(struct store_cycle *cycle, struct job_step *const *s, size_t n, struct deferred_error *err)
{
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, s[i]->job->id);
	COLUMN_INT8(&args, &c, s[i]->job->receipt);
	COLUMN_TEXT(&args, &c, s[i]->name);
	COLUMN_TEXT(&args, &c, s[i]->value);
	COLUMN_INT4(&args, &c, s[i]->resets);
	return cycle_rows_add(cycle, &sql_job_step, &args, &c, TAG_STEPS, rc, err);
}

void cycle_take_steps(struct store_cycle *cycle, const struct pg_result *res)
{
	cycle->steps = calloc(pg_rows(res) + 1, sizeof(*cycle->steps));
	for (size_t i = 0; cycle->steps && i < pg_rows(res); i++) {
		struct store_step *s = &cycle->steps[cycle->steps_len++];
		struct job_step_row r = job_step_row(res, i);

		s->id = r.id;
		s->outcome = r.outcome[0];
		s->why = strdup(r.why ? r.why : "");
		cycle->out_of_memory |= !s->why;
	}
	cycle->out_of_memory |= !cycle->steps;
}

int store_cycle_steps_end(struct store_cycle *cycle, struct attempt *const *a, size_t n, struct deferred_error *err)
{
	struct pg_args args;
	struct columns c;
	int rc = cycle_rows_begin(&args, &c, n, err);

	COLUMN_INT8(&args, &c, a[i]->job->id);
	COLUMN_INT8(&args, &c, a[i]->job->receipt);
	return cycle_rows_add(cycle, &sql_job_steps_end, &args, &c, TAG_IGNORE, rc, err);
}
