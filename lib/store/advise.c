/* SPDX-License-Identifier: MIT */
#include "store/advise.h"

#include "base/clock.h"
#include "rows/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "advise"
#define MINUTE INT64_C(60000000)
#define HOUR (60 * MINUTE)
#define NARROWER 4

/* A sequential scan would begin at the oldest page of the week. */
static int begin(struct pg *pg, int statement_ms, struct deferred_error *err)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "set transaction read only; set local statement_timeout = %d; set local lock_timeout = 100; set local "
		 "enable_seqscan = off",
		 statement_ms);
	return pg_begin(pg, sql, err);
}

static int read_some(struct pg *pg, const char *queue, int64_t from_us, int64_t to_us, int64_t rows, int statement_ms,
		     struct pg_result **res, struct deferred_error *err)
{
	int rc = begin(pg, statement_ms, err);

	*res = NULL;
	if (rc < 0)
		return rc;
	rc = advise_attempts_exec(pg, from_us, to_us, queue, rows, res, err);
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}

static int no_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
}

/* Number of the queue; < 0: an error. */
static int queue_number(struct store_past *past, const char *name, int last, struct deferred_error *err)
{
	if (last < past->queues && strcmp(past->queue[last], name) == 0)
		return last;
	for (int i = 0; i < past->queues; i++)
		if (strcmp(past->queue[i], name) == 0)
			return i;
	if (past->queues == STORE_ADVISE_QUEUES)
		return error_set(err, DEFERRED_EINVAL, WHERE,
				 "the log has attempts of more than %d queues\nname one with --queue",
				 STORE_ADVISE_QUEUES);
	past->queue[past->queues] = strdup(name);
	if (!past->queue[past->queues])
		return no_memory(err);
	return past->queues++;
}

static int64_t scaled(struct store_advise_scale *scales, size_t n, const char *fn, int64_t run_us)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(scales[i].fn, fn) == 0) {
			scales[i].attempts++;
			return (int64_t)((double)run_us * scales[i].factor);
		}
	return run_us;
}

/* Jobs that were ready before the wanted time are in the log before it. An attempt that ended in that time but began
 * after it is forged. It would never end in the replay. */
static int take(struct store_past *past, const struct pg_result *res, int64_t from_us,
		struct store_advise_scale *scales, size_t scales_len, struct deferred_error *err)
{
	struct advice_history *h = &past->history;
	size_t n = pg_rows(res);
	struct forecast_job *jobs = realloc(h->jobs, (h->len + n + 1) * sizeof(*jobs));
	int group = 0;

	if (!jobs)
		return no_memory(err);
	h->jobs = jobs;
	for (size_t i = 0; i < n; i++) {
		struct advise_attempts_row r = advise_attempts_row(res, i);
		int64_t ready_us = r.started_at - r.wait_us, run_us;

		if (!r.queue) {
			past->read += r.wait_us;
			continue;
		}
		if (r.cut_off) {
			past->cut++;
			continue;
		}
		run_us = scaled(scales, scales_len, r.fn, r.run_us);
		if (r.started_at < 0 || r.started_at > past->to_us || ready_us < 0 || ready_us < from_us ||
		    run_us > FORECAST_MAX_US)
			continue;
		group = queue_number(past, r.queue, group, err);
		if (group < 0)
			return group;
		past->first += r.attempt == 1;
		jobs[h->len++] = (struct forecast_job){
			.ready_us = ready_us, .run_us = run_us, .wait_us = r.wait_us, .group = group
		};
	}
	return 0;
}

static int64_t looked_at(const struct pg_result *res)
{
	for (size_t i = 0; i < pg_rows(res); i++)
		if (!advise_attempts_row(res, i).queue)
			return advise_attempts_row(res, i).wait_us;
	return 0;
}

/* Backwards, each piece twice as long as the last one; one that does not fit is left, for a shorter one. */
static int read_back(struct pg *pg, const char *queue, int64_t from_us, const struct store_advise_bounds *bounds,
		     struct store_advise_scale *scales, size_t scales_len, struct store_past *past,
		     struct deferred_error *err)
{
	uint64_t end_ns = bounds->all_ms > 0 ? clock_ns() + (uint64_t)bounds->all_ms * NS_PER_MS : UINT64_MAX;
	int64_t length = HOUR;
	int rc = 0;

	while (rc == 0 && past->from_us > from_us && length >= MINUTE / 10) {
		int64_t left = bounds->rows - past->read,
			begin_us = past->from_us - length > from_us ? past->from_us - length : from_us;
		struct pg_result *res;

		if (clock_ns() >= end_ns) {
			past->full = true;
			break;
		}
		rc = read_some(pg, queue, begin_us, past->from_us, left + 1, bounds->statement_ms, &res, err);
		if (rc == 0 && looked_at(res) > left) {
			past->full = true;
			length /= NARROWER;
		} else if (rc == 0) {
			rc = take(past, res, from_us, scales, scales_len, err);
			past->from_us = begin_us;
			length *= past->full ? 1 : 2;
		}
		pg_result_free(res);
	}
	return rc;
}

static int by_ready(const void *a, const void *b)
{
	const struct forecast_job *x = a, *y = b;

	return (x->ready_us > y->ready_us) - (x->ready_us < y->ready_us);
}

/* Times are counted from the full hour before the first job on, as ticks of a crontab come. */
static void settle(struct store_past *past)
{
	struct advice_history *h = &past->history;
	size_t before = 0;
	double sum = 0;

	qsort(h->jobs, h->len, sizeof(*h->jobs), by_ready);
	while (before < h->len && h->jobs[before].ready_us < past->from_us)
		before++;
	h->len -= before;
	if (h->len == 0)
		return;
	memmove(h->jobs, h->jobs + before, h->len * sizeof(*h->jobs));
	past->from_us = h->jobs[0].ready_us;
	h->begin_us = past->from_us / HOUR * HOUR;
	for (size_t i = 0; i < h->len; i++) {
		h->jobs[i].ready_us -= h->begin_us;
		sum += (double)h->jobs[i].run_us;
	}
	past->run_us = (int64_t)(sum / (double)h->len);
}

int store_advise_past(struct pg *pg, const char *queue, int64_t from_us, int64_t to_us,
		      const struct store_advise_bounds *bounds, struct store_advise_scale *scales, size_t scales_len,
		      struct store_past *past, struct deferred_error *err)
{
	int rc;

	past->history = (struct advice_history){ 0 };
	past->from_us = past->to_us = to_us;
	past->read = past->first = past->cut = past->run_us = 0;
	past->full = false;
	rc = read_back(pg, queue, from_us > 0 ? from_us : 0, bounds, scales, scales_len, past, err);
	if (rc == 0 && past->history.jobs)
		settle(past);
	return rc;
}

void store_past_clear(struct store_past *past)
{
	for (int i = 0; i < past->queues; i++)
		free(past->queue[i]);
	free(past->history.jobs);
	memset(past, 0, sizeof(*past));
}
