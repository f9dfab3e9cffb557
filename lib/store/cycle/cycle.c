/* SPDX-License-Identifier: MIT */
#include "cycle_add.h"

#include "base/clock.h"
#include "rows/claim.h"
#include "rows/worker.h"

#include <stdlib.h>
#include <string.h>

void store_cycle_begin(struct store_cycle *cycle, struct pg *pg)
{
	memset(cycle, 0, sizeof(*cycle));
	cycle->pg = pg;
	cycle->claimed_tail = &cycle->claimed;
	cycle->limited_tail = &cycle->limited;
}

int store_cycle_send(struct store_cycle *cycle, struct deferred_error *err)
{
	cycle->sent_ns = clock_ns(); /* before the server can have begun: the lease counts from here */
	cycle->recorded_ok = !cycle->writes;
	return pg_pipeline_send(cycle->pg, err);
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

static void on_cycle(void *data, int tag, const struct pg_result *res)
{
	struct store_cycle *cycle = data;

	if (tag == PG_COMMITTED || tag == PG_FAILED)
		take_end(cycle, tag == PG_COMMITTED);
	take_ids(cycle, tag, res);
	if (tag == TAG_RENEW)
		cycle_take_leases(cycle, res);
	if (tag == TAG_OUTCOMES)
		store_take_outcomes(cycle->outcomes, cycle->outcomes_len, res);
	if (tag == TAG_PARENTS)
		cycle_take_parents(cycle, res);
	if (tag == TAG_STEPS)
		cycle_take_steps(cycle, res);
	store_take_track(&cycle->track, tag, res);
	if (tag == TAG_CLAIM)
		cycle_take_claimed_jobs(cycle, res);
	if (tag == TAG_CLAIM_LIMITED)
		cycle_take_limited_jobs(cycle, res);
	if (tag == TAG_LOST && !store_take_losses(&cycle->losses, res))
		cycle->out_of_memory = true;
	else if (pg_rows(res) == 1)
		cycle_take_worker(cycle, tag, res);
}

/* The server reports only those successes that it refused. */
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
	for (size_t i = 0; i < cycle->parents_len; i++) {
		free(cycle->parents[i].text);
		free(cycle->parents[i].steps);
	}
	free(cycle->parents);
	for (size_t i = 0; i < cycle->steps_len; i++)
		free(cycle->steps[i].why);
	free(cycle->steps);
	free(cycle->open.id);
	free(cycle->losses.row);
	memset(cycle, 0, sizeof(*cycle));
}
