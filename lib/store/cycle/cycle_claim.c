/* SPDX-License-Identifier: MIT */
#include "cycle_add.h"

#include "base/clock.h"
#include "base/random.h"
#include "rows/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PG_EPOCH_US 946684800000000 /* 2000-01-01 in microseconds since 1970 */

static void add_known_functions(struct pg_args *args, const struct store_claim *claim)
{
	if (claim->known)
		pg_arg_text_array(args, claim->known, NULL, claim->known_len);
	else
		pg_arg_null(args);
}

/* Where a claim goes on, or where a new round begins. The cycle keeps it, in case the claim does not get further. */
static void add_round(struct pg_args *args, char *to, const char *round, bool new_round)
{
	snprintf(to, ROUND_MAX, "%s", round ? round : "");
	if (new_round)
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
	add_known_functions(&args, claim);
	pg_arg_int8(&args, claim->seed);
	pg_arg_int4(&args, claim->limited > 0 ? claim->bytes / 2 : claim->bytes);
	pg_arg_text_array(&args, (const char *const *)claim->lanes->queue, NULL, claim->lanes->n);
	pg_arg_int4_array(&args, claim->lanes->priority, NULL, claim->lanes->n);
	pg_arg_int4(&args, claim->look);
	pg_arg_int4(&args, claim->alone);
	add_round(&args, cycle->lanes_round, claim->lanes_round, claim->new_lanes_round);
	rc = pg_pipeline_add(cycle->pg, &sql_job_claim, &args, TAG_CLAIM, err);
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
	add_known_functions(&args, claim);
	pg_arg_int8(&args, claim->seed);
	pg_arg_int4(&args, claim->n > 0 ? claim->bytes / 2 : claim->bytes);
	pg_arg_int4(&args, claim->alone);
	add_round(&args, cycle->round, claim->round, claim->new_round);
	pg_arg_int4(&args, claim->run);
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

struct ordered {
	struct job *job;
	uint64_t random;
};

static int compare_order(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;

	if (x->job->alone != y->job->alone)
		return x->job->alone ? -1 : 1;
	if (x->job->priority != y->job->priority)
		return x->job->priority > y->job->priority ? -1 : 1;
	return (x->random > y->random) - (x->random < y->random);
}

/* Jobs come as they lie on the pages. They start by priority, and at random within one; but those first that must begin
 * at once. */
static void order_claimed_jobs(struct store_cycle *cycle)
{
	struct ordered *ordered = malloc((cycle->claimed_len + 1) * sizeof(*ordered));
	size_t n = 0;

	if (!ordered) {
		cycle->out_of_memory = true;
		return;
	}
	for (struct job *job = cycle->claimed; job; job = job->next)
		ordered[n++] = (struct ordered){ job, random_mix((uint64_t)cycle->seed ^ (uint64_t)job->id) };
	qsort(ordered, n, sizeof(*ordered), compare_order);
	cycle->claimed_tail = &cycle->claimed;
	for (size_t i = 0; i < n; i++) {
		*cycle->claimed_tail = ordered[i].job;
		cycle->claimed_tail = &ordered[i].job->next;
	}
	*cycle->claimed_tail = NULL;
	free(ordered);
}

/* Values that many jobs of a claim share. A row has them if they differ from those of the row before. queue lies in the
 * result. */
struct common {
	const char *queue;
	int64_t receipt, lease_ms, claimed_at;
	int priority;
};

static void update_common(struct common *common, const struct job_claim_row *r)
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

	update_common(common, r);
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

void cycle_take_limited_jobs(struct store_cycle *cycle, const struct pg_result *res)
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
		snprintf(cycle->round, sizeof(cycle->round), "%s", limited.round ? limited.round : "");
		cycle->more |= strchr(cycle->round, '/') != NULL;
		if (!r.has_id || !(job = job_of(cycle, &common, &r)))
			continue;
		job->limited = true;
		job->key = limited.key;
		cycle->limited_keyed |= limited.key > 0;
		if (limited.has_start_ms)
			job->start_by_ns = cycle->sent_ns + (uint64_t)limited.start_ms * NS_PER_MS;
		*cycle->limited_tail = job;
		cycle->limited_tail = &job->next;
		cycle->limited_len++;
	}
}

/* The last row of a claim: what was found besides jobs. */
static void take_found(struct store_cycle *cycle, const struct job_claim_row *r)
{
	cycle->busy = r->busy && cycle->claimed_len == 0;
	cycle->cut = r->cut;
	cycle->look_us = r->look_us;
	cycle->limits = r->limits;
	cycle->waiting = r->waiting;
	if (cycle->looks && !r->more)
		snprintf(cycle->lanes_round, ROUND_MAX, "%s", r->round ? r->round : "");
	cycle->more |= r->more || r->round;
}

void cycle_take_claimed_jobs(struct store_cycle *cycle, const struct pg_result *res)
{
	struct common common = { "", 0, 0, 0, 0 };

	for (size_t i = 0; i < pg_rows(res); i++) {
		struct job_claim_row r = job_claim_row(res, i);
		struct job *job;

		if (!r.has_id)
			take_found(cycle, &r);
		if (!r.has_id || !(job = job_of(cycle, &common, &r)))
			continue;
		lanes_add(&cycle->lanes, job->queue, job->priority);
		*cycle->claimed_tail = job;
		cycle->claimed_tail = &job->next;
		cycle->claimed_len++;
		cycle->claimed_alone += job->alone;
	}
	order_claimed_jobs(cycle);
}
