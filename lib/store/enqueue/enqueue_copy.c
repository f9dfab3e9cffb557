/* SPDX-License-Identifier: MIT */
#include "store/enqueue/enqueue.h"

#include "rows/job.h"
#include "store/enqueue/job_options.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_QUEUE "default"
#define PARAMS_LIGHT_BYTES 1024 /* sql/functions/job/__params_bytes.sql */

static const char copy_hot[] = "copy deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, "
			       "max_attempts, params_bytes) "
			       "from stdin (format binary)";
static const char copy_jobs[] =
	"copy deferred.__deferred (id, queue, fn, params, label, priority, run_at, expires_at, max_attempts, "
	"timeout_ms, "
	"backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by) from stdin (format binary)";

static const char *queue_name_of(const struct deferred_call_spec *call)
{
	return store_opts_of(call)->queue ? store_opts_of(call)->queue : DEFAULT_QUEUE;
}

int store_enqueue_may_copy(struct pg *pg, bool *may, struct deferred_error *err)
{
	struct job_enqueue_may_copy_row r;
	int rc = job_enqueue_may_copy_one(pg, &r, err);

	if (rc == 0)
		*may = r.may_copy;
	return rc;
}

bool store_copy_takes(const struct deferred_call_spec *call)
{
	for (const struct job_option *k = job_options; k->name && call->opts; k++)
		if (!k->copied && job_option_is_given(k, call->opts))
			return false;
	return call->fn;
}

/* The queues of a COPY, sorted by name. */
struct queue {
	const char *name;
	int64_t params_max_bytes;
};

static int compare_queues(const void *a, const void *b)
{
	return strcmp(((const struct queue *)a)->name, ((const struct queue *)b)->name);
}

/* List the queues the calls name, each once. Most calls in a row name the same one. */
static int copy_list_queues(const struct deferred_call_spec *calls, size_t n, struct queue **queues, size_t *len,
			    struct deferred_error *err)
{
	struct queue *q = calloc(n, sizeof(*q));
	size_t k = 0, unique = 0;

	if (!q)
		return error_set(err, DEFERRED_ENOMEM, "job_enqueue_queues", "out of memory for %zu calls", n);
	for (size_t i = 0; i < n; i++)
		if (k == 0 || strcmp(q[k - 1].name, queue_name_of(&calls[i])) != 0)
			q[k++].name = queue_name_of(&calls[i]);
	qsort(q, k, sizeof(*q), compare_queues);
	for (size_t i = 0; i < k; i++)
		if (unique == 0 || strcmp(q[unique - 1].name, q[i].name) != 0)
			q[unique++] = q[i];
	*queues = q;
	*len = unique;
	return 0;
}

/* After the rows are stored: see sql/functions/worker/__waits.sql. */
static int wake_queues(struct pg *pg, const struct queue *queues, size_t len, struct deferred_error *err)
{
	const char **names = malloc((len + 1) * sizeof(*names));
	int rc;

	if (!names)
		return error_set(err, DEFERRED_ENOMEM, "job_enqueue_wake", "out of memory for %zu queues", len);
	for (size_t i = 0; i < len; i++)
		names[i] = queues[i].name;
	rc = job_enqueue_wake_exec(pg, names, len, err);
	free(names);
	return rc;
}

/* Add the queues to the database, and learn their limits. *special: one of them has settings COPY does not know of. */
static int add_queues(struct pg *pg, struct queue *queues, size_t len, bool *special, struct deferred_error *err)
{
	const char **names = malloc(len * sizeof(*names));
	struct pg_result *res = NULL;
	int rc;

	if (!names)
		return error_set(err, DEFERRED_ENOMEM, "job_enqueue_queues", "out of memory for %zu queues", len);
	for (size_t i = 0; i < len; i++)
		names[i] = queues[i].name;
	rc = job_enqueue_queues_exec(pg, names, len, &res, err);
	for (size_t i = 0; rc == 0 && i < len && i < pg_rows(res); i++) {
		queues[i].params_max_bytes = job_enqueue_queues_row(res, i).params_max_bytes;
		*special |= job_enqueue_queues_row(res, i).special;
	}
	pg_result_free(res);
	free(names);
	return rc;
}

/* The same refusal as that of deferred.__enqueue(). */
static int check_queues(const struct queue *queues, size_t len, const struct deferred_call_spec *calls, size_t n,
			size_t first, struct deferred_error *err)
{
	const struct queue *q = NULL;

	for (size_t i = 0; i < n; i++) {
		struct queue wanted = { .name = queue_name_of(&calls[i]) };
		size_t bytes = strlen(store_params_of(&calls[i]));

		if (!q || strcmp(q->name, wanted.name) != 0)
			q = bsearch(&wanted, queues, len, sizeof(*queues), compare_queues);
		if (!q || (int64_t)bytes <= q->params_max_bytes)
			continue;
		error_set(err, DEFERRED_EDB, "job_enqueue_queues",
			  "call %zu: params of function '%s' have %zu bytes, but queue '%s' allows %lld", first + i,
			  calls[i].fn, bytes, q->name, (long long)q->params_max_bytes);
		if (err)
			snprintf(err->sqlstate, sizeof(err->sqlstate), "54000");
		error_hint(err,
			   "store the data elsewhere and pass a reference, or raise params_max_bytes of the queue");
		return DEFERRED_EDB;
	}
	return 0;
}

/* Shared by all jobs of one COPY. */
struct copy_source {
	const char *ids; /* 8 bytes each, in network order */
	const char *actor;
	int64_t now_us; /* since 2000 */
};

/* Binary COPY data on its way to the server. The first failure sticks. */
struct copy_buf {
	struct pg *pg;
	struct deferred_error *err;
	int rc;
	size_t len;
	char data[65536];
};

static void flush_copy(struct copy_buf *b)
{
	if (b->rc == 0 && b->len > 0)
		b->rc = pg_copy_data(b->pg, b->data, b->len, b->err);
	b->len = 0;
}

static void put_bytes(struct copy_buf *b, const void *data, size_t len)
{
	if (len > sizeof(b->data) - b->len)
		flush_copy(b);
	if (len > sizeof(b->data)) {
		if (b->rc == 0)
			b->rc = pg_copy_data(b->pg, data, len, b->err);
		return;
	}
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void put_int2(struct copy_buf *b, int16_t v)
{
	uint16_t be = htobe16((uint16_t)v);

	put_bytes(b, &be, sizeof(be));
}

static void put_int4(struct copy_buf *b, int32_t v)
{
	uint32_t be = htobe32((uint32_t)v);

	put_bytes(b, &be, sizeof(be));
}

static void put_int8(struct copy_buf *b, int64_t v)
{
	uint64_t be = htobe64((uint64_t)v);

	put_bytes(b, &be, sizeof(be));
}

static void field_null(struct copy_buf *b)
{
	put_int4(b, -1);
}

static void field_text(struct copy_buf *b, const char *s)
{
	size_t len;

	if (!s) {
		field_null(b);
		return;
	}
	len = strlen(s);
	put_int4(b, (int32_t)len);
	put_bytes(b, s, len);
}

static void field_int2(struct copy_buf *b, int16_t v)
{
	put_int4(b, 2);
	put_int2(b, v);
}

static void field_int4_or_null(struct copy_buf *b, int32_t v)
{
	if (!v) {
		field_null(b);
		return;
	}
	put_int4(b, 4);
	put_int4(b, v);
}

static void field_int8(struct copy_buf *b, int64_t v)
{
	put_int4(b, 8);
	put_int8(b, v);
}

static void field_int8_or_null(struct copy_buf *b, int64_t v)
{
	if (v)
		field_int8(b, v);
	else
		field_null(b);
}

static void field_float8_or_null(struct copy_buf *b, double v)
{
	int64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	if (v > 0)
		field_int8(b, bits);
	else
		field_null(b);
}

/* Moments are int8 microseconds since 2000; a span of 0 means none. */
static void field_moment(struct copy_buf *b, int64_t now_us, int64_t span_ms)
{
	if (span_ms)
		field_int8(b, now_us + span_ms * 1000);
	else
		field_null(b);
}

static void field_id(struct copy_buf *b, const struct copy_source *s, size_t i)
{
	put_int4(b, 8);
	put_bytes(b, s->ids + 8 * i, 8);
}

static void put_hot(struct copy_buf *b, const struct copy_source *s, const struct deferred_call_spec *call, size_t i)
{
	const struct deferred_opts *o = store_opts_of(call);
	size_t params_len = strlen(store_params_of(call));

	put_int2(b, 9);
	field_id(b, s, i);
	field_text(b, queue_name_of(call));
	field_text(b, call->fn);
	field_int2(b, (int16_t)o->priority);
	field_moment(b, s->now_us, o->delay_ms);
	field_int8(b, s->now_us + o->delay_ms * 1000);
	field_moment(b, s->now_us, o->expires_ms);
	field_int4_or_null(b, o->max_attempts);
	field_int4_or_null(b, params_len > PARAMS_LIGHT_BYTES ? (int32_t)params_len : 0);
}

static void put_job(struct copy_buf *b, const struct copy_source *s, const struct deferred_call_spec *call, size_t i)
{
	const struct deferred_opts *o = store_opts_of(call);

	put_int2(b, 15);
	field_id(b, s, i);
	field_text(b, queue_name_of(call));
	field_text(b, call->fn);
	field_text(b, store_params_of(call));
	field_text(b, o->label);
	field_int2(b, (int16_t)o->priority);
	field_moment(b, s->now_us, o->delay_ms);
	field_moment(b, s->now_us, o->expires_ms);
	field_int4_or_null(b, o->max_attempts);
	field_int8_or_null(b, o->timeout_ms);
	field_int8_or_null(b, o->backoff_floor_ms);
	field_int8_or_null(b, o->backoff_ceiling_ms);
	field_float8_or_null(b, o->backoff_exponent);
	field_int8(b, s->now_us);
	field_text(b, s->actor);
}

typedef void put_row_fn(struct copy_buf *b, const struct copy_source *s, const struct deferred_call_spec *call,
			size_t i);

/* One COPY command: a row for each call. */
static int copy_rows(struct copy_buf *b, const char *sql, put_row_fn *put_row, const struct copy_source *s,
		     const struct deferred_call_spec *calls, size_t n)
{
	b->len = 0;
	b->rc = pg_copy_begin(b->pg, sql, b->err);
	if (b->rc < 0)
		return b->rc;
	for (size_t i = 0; i < n && b->rc == 0; i++)
		put_row(b, s, &calls[i], i);
	flush_copy(b);
	if (b->rc < 0) {
		pg_copy_end(b->pg, "the client gave up", NULL);
		return b->rc;
	}
	return pg_copy_end(b->pg, NULL, b->err);
}

int store_enqueue_copy(struct pg *pg, const struct deferred_call_spec *calls, size_t n, size_t first, int64_t *ids,
		       bool *limited, struct deferred_error *err)
{
	struct copy_buf *b = malloc(sizeof(*b));
	struct pg_result *res = NULL;
	struct queue *queues = NULL;
	struct job_enqueue_reserve_row r;
	struct copy_source s;
	size_t len = 0;
	int rc;

	if (!b) {
		rc = error_set(err, DEFERRED_ENOMEM, "job_enqueue_copy", "out of memory for %zu calls", n);
		goto out;
	}
	*b = (struct copy_buf){ .pg = pg, .err = err };

	rc = job_enqueue_reserve_exec(pg, (int32_t)n, &res, err);
	if (rc < 0)
		goto out;
	r = job_enqueue_reserve_row(res, 0);
	s.ids = r.ids;
	s.now_us = r.now_us;
	s.actor = r.actor;
	*limited = r.limited;
	if (*limited)
		goto out;
	if (r.ids_len != 8 * n) {
		rc = error_set(err, DEFERRED_EDB, "job_enqueue_reserve",
			       "%zu ids came back for %zu calls\nrun: deferred migrate", r.ids_len / 8, n);
		goto out;
	}

	rc = copy_list_queues(calls, n, &queues, &len, err);
	if (rc == 0)
		rc = add_queues(pg, queues, len, limited, err);
	if (rc < 0 || *limited)
		goto out;
	rc = check_queues(queues, len, calls, n, first, err);
	if (rc == 0)
		rc = copy_rows(b, copy_hot, put_hot, &s, calls, n);
	if (rc == 0)
		rc = copy_rows(b, copy_jobs, put_job, &s, calls, n);
	if (rc == 0)
		rc = wake_queues(pg, queues, len, err);
	for (size_t i = 0; rc == 0 && ids && i < n; i++) {
		uint64_t be;

		memcpy(&be, s.ids + 8 * i, sizeof(be));
		ids[i] = (int64_t)be64toh(be);
	}
out:
	pg_result_free(res);
	free(queues);
	free(b);
	return rc;
}
