/* SPDX-License-Identifier: MIT */
#include "store/client.h"

#include "store/columns.h"
#include "base/text/utf8.h"
#include "port/params.h"
#include "rows/claim.h"
#include "rows/job.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_QUEUE "default"

static const struct deferred_opts no_opts;

static const struct deferred_opts *opts_of(const struct deferred_call_spec *call)
{
	return call->opts ? call->opts : &no_opts;
}

static const char *params_of(const struct deferred_call_spec *call)
{
	return call->params ? call->params : "{}";
}

static const char *queue_of(const struct deferred_call_spec *call)
{
	return opts_of(call)->queue ? opts_of(call)->queue : DEFAULT_QUEUE;
}

/* Only a job with a key can meet another one. */
static const char *on_duplicate_of(const struct deferred_opts *o)
{
	if (!o->key)
		return NULL;
	switch (o->on_duplicate) {
	case DEFERRED_DUPLICATE_ERROR:
		return "error";
	case DEFERRED_DUPLICATE_REPLACE:
		return "replace";
	default:
		return NULL;
	}
}

static void arg_int4_or_null(struct pg_args *args, int32_t v)
{
	if (v)
		pg_arg_int4(args, v);
	else
		pg_arg_null(args);
}

static void arg_int8_or_null(struct pg_args *args, int64_t v)
{
	if (v)
		pg_arg_int8(args, v);
	else
		pg_arg_null(args);
}

static bool has_tags(const struct deferred_opts *o)
{
	return o->tags && o->tags[0];
}

/* on_duplicate says nothing where there is no key. */
static bool is_simple(const struct deferred_opts *o)
{
	return !o->label && !o->priority && !o->delay_ms && !o->run_at && !o->expires_ms && !o->expires_at && !o->key &&
	       !o->max_attempts && !o->timeout_ms && !o->backoff_floor_ms && !o->backoff_ceiling_ms &&
	       !(o->backoff_exponent > 0) && !o->concurrency_key && !o->concurrency && !has_tags(o) && !o->after_len &&
	       !o->traceparent && !o->flow;
}

/* The tags as a JSON array, which arrays of jobs can hold, though no two of them are of one length. *json is given;
 * NULL: none. */
static int tags_json(const struct deferred_opts *o, char **json, struct deferred_error *err)
{
	struct params_text t = { 0 };

	*json = NULL;
	if (!has_tags(o))
		return 0;
	params_open(&t, NULL, '[');
	for (size_t i = 0; o->tags[i]; i++)
		params_string(&t, NULL, o->tags[i]);
	params_close(&t, ']');
	return params_take(&t, json, err);
}

bool store_waits(const struct deferred_call_spec *call)
{
	return opts_of(call)->after_len > 0;
}

int64_t store_flow_of(const struct deferred_call_spec *call)
{
	return opts_of(call)->flow;
}

/* The jobs it waits for as option "after" of deferred.defer() has them. *json is given; NULL: none. */
static int after_json(const struct deferred_opts *o, char **json, struct deferred_error *err)
{
	static const char *const conditions[] = { "ok", "failed", "ended" };
	struct params_text t = { 0 };
	char number[24];

	*json = NULL;
	if (o->after_len == 0)
		return 0;
	params_open(&t, NULL, '[');
	for (size_t i = 0; i < o->after_len; i++) {
		snprintf(number, sizeof(number), "%" PRId64, o->after[i].job);
		params_open(&t, NULL, '{');
		params_string(&t, "job", number);
		params_string(&t, "on", conditions[o->after[i].on]);
		if (o->after[i].as)
			params_string(&t, "as", o->after[i].as);
		params_close(&t, '}');
	}
	params_close(&t, ']');
	return params_take(&t, json, err);
}

static void args_of_options(struct pg_args *args, const struct deferred_opts *o, const char *tags, const char *after)
{
	pg_arg_text(args, o->label);
	arg_int4_or_null(args, o->priority);
	arg_int8_or_null(args, o->delay_ms);
	pg_arg_text(args, o->run_at);
	arg_int8_or_null(args, o->expires_ms);
	pg_arg_text(args, o->expires_at);
	pg_arg_text(args, o->key);
	pg_arg_text(args, on_duplicate_of(o));
	arg_int4_or_null(args, o->max_attempts);
	arg_int8_or_null(args, o->timeout_ms);
	arg_int8_or_null(args, o->backoff_floor_ms);
	arg_int8_or_null(args, o->backoff_ceiling_ms);
	if (o->backoff_exponent > 0)
		pg_arg_float8(args, o->backoff_exponent);
	else
		pg_arg_null(args);
	pg_arg_text(args, o->concurrency_key);
	arg_int4_or_null(args, o->concurrency);
	pg_arg_json(args, tags, tags ? strlen(tags) : 0);
	pg_arg_text(args, o->traceparent);
	pg_arg_json(args, after, after ? strlen(after) : 0);
	arg_int8_or_null(args, o->flow);
}

int store_enqueue(struct pg *pg, const struct deferred_call_spec *call, int64_t *id, struct deferred_error *err)
{
	const struct deferred_opts *o = opts_of(call);
	const char *params = params_of(call);
	bool simple = is_simple(o);
	struct pg_result *res = NULL;
	struct pg_args args;
	char *tags = NULL, *after = NULL;
	int rc = tags_json(o, &tags, err);

	pg_args_init(&args);
	if (rc == 0)
		rc = after_json(o, &after, err);
	if (rc < 0)
		goto out;
	pg_arg_text(&args, call->fn);
	pg_arg_json(&args, params, strlen(params));
	pg_arg_text(&args, o->queue);
	if (!simple)
		args_of_options(&args, o, tags, after);
	rc = pg_exec(pg, simple ? &sql_job_enqueue_simple : &sql_job_enqueue, &args, PG_BINARY, &res, err);
	if (rc == 0 && id)
		*id = job_enqueue_row(res, 0).id;
out:
	pg_result_free(res);
	pg_args_clear(&args);
	free(tags);
	free(after);
	return rc;
}

/* The option of call i. */
#define OPT(name) opts_of(&calls[i])->name

static void args_many(struct pg_args *args, struct columns *c, const struct deferred_call_spec *calls, char **tags)
{
	COLUMN_TEXT(args, c, calls[i].fn);
	COLUMN_JSON(args, c, params_of(&calls[i]));
	COLUMN_TEXT_OR_NULL(args, c, OPT(queue), strlen(c->text[i]));
	COLUMN_TEXT_OR_NULL(args, c, OPT(label), strlen(c->text[i]));
	COLUMN_INT4_OR_NULL(args, c, OPT(priority), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(delay_ms), 0);
	COLUMN_TEXT_OR_NULL(args, c, OPT(run_at), strlen(c->text[i]));
	COLUMN_INT8_OR_NULL(args, c, OPT(expires_ms), 0);
	COLUMN_TEXT_OR_NULL(args, c, OPT(expires_at), strlen(c->text[i]));
	COLUMN_TEXT_OR_NULL(args, c, OPT(key), strlen(c->text[i]));
	COLUMN_TEXT_OR_NULL(args, c, on_duplicate_of(opts_of(&calls[i])), strlen(c->text[i]));
	COLUMN_INT4_OR_NULL(args, c, OPT(max_attempts), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(timeout_ms), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(backoff_floor_ms), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(backoff_ceiling_ms), 0);
	COLUMN_FLOAT8_OR_NULL(args, c, OPT(backoff_exponent) > 0 ? OPT(backoff_exponent) : 0, 0);
	COLUMN_TEXT_OR_NULL(args, c, OPT(concurrency_key), strlen(c->text[i]));
	COLUMN_INT4_OR_NULL(args, c, OPT(concurrency), 0);
	pg_arg_json_array(args, (const char *const *)tags, NULL, c->n);
	COLUMN_TEXT_OR_NULL(args, c, OPT(traceparent), strlen(c->text[i]));
	arg_int8_or_null(args, store_flow_of(calls));
}

static void tags_free(char **tags, size_t n)
{
	for (size_t i = 0; tags && i < n; i++)
		free(tags[i]);
	free(tags);
}

/* Those of each call; *tags is NULL where none has any. */
static int tags_of(const struct deferred_call_spec *calls, size_t n, char ***tags, struct deferred_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		if (!has_tags(opts_of(&calls[i])))
			continue;
		if (!*tags && !(*tags = calloc(n, sizeof(**tags))))
			return error_set(err, DEFERRED_ENOMEM, "job_enqueue_many", "out of memory for %zu calls", n);
		rc = tags_json(opts_of(&calls[i]), &(*tags)[i], err);
	}
	return rc;
}

int store_enqueue_many(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
		       struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct columns c;
	struct pg_args args;
	char **tags = NULL;
	int rc;

	pg_args_init(&args);
	rc = columns_init(&c, n, "job_enqueue_many", err);
	if (rc == 0)
		rc = tags_of(calls, n, &tags, err);
	if (rc < 0)
		goto out;
	args_many(&args, &c, calls, tags);
	rc = pg_exec(pg, &sql_job_enqueue_many, &args, PG_BINARY, &res, err);
	if (rc < 0)
		goto out;
	if (pg_rows(res) != n) {
		rc = error_set(err, DEFERRED_EDB, "job_enqueue_many",
			       "%zu ids came back for %zu calls\nrun: deferred migrate", pg_rows(res), n);
		goto out;
	}
	for (size_t i = 0; ids && i < n; i++)
		ids[i] = job_enqueue_row(res, i).id;
out:
	pg_result_free(res);
	pg_args_clear(&args);
	columns_clear(&c);
	tags_free(tags, n);
	return rc;
}

/* ---- COPY ------------------------------------------------------------------------------------- */

#define PARAMS_LIGHT_BYTES 1024 /* sql/functions/job/__params_bytes.sql */

static const char copy_hot[] = "copy deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, "
			       "max_attempts, params_bytes) "
			       "from stdin (format binary)";
static const char copy_jobs[] =
	"copy deferred.__deferred (id, queue, fn, params, label, priority, run_at, expires_at, max_attempts, "
	"timeout_ms, "
	"backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by) from stdin (format binary)";

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
	const struct deferred_opts *o = opts_of(call);

	return call->fn && !o->key && !o->concurrency_key && !o->run_at && !o->expires_at && !has_tags(o) &&
	       !o->after_len && !o->traceparent && !o->flow;
}

/* The queues of a COPY, sorted by name. */
struct queue {
	const char *name;
	int64_t params_max_bytes;
};

static int queue_compare(const void *a, const void *b)
{
	return strcmp(((const struct queue *)a)->name, ((const struct queue *)b)->name);
}

/* List the queues the calls name, each once. Most calls in a row name the same one. */
static int queues_of(const struct deferred_call_spec *calls, size_t n, struct queue **queues, size_t *len,
		     struct deferred_error *err)
{
	struct queue *q = calloc(n, sizeof(*q));
	size_t k = 0, unique = 0;

	if (!q)
		return error_set(err, DEFERRED_ENOMEM, "job_enqueue_queues", "out of memory for %zu calls", n);
	for (size_t i = 0; i < n; i++)
		if (k == 0 || strcmp(q[k - 1].name, queue_of(&calls[i])) != 0)
			q[k++].name = queue_of(&calls[i]);
	qsort(q, k, sizeof(*q), queue_compare);
	for (size_t i = 0; i < k; i++)
		if (unique == 0 || strcmp(q[unique - 1].name, q[i].name) != 0)
			q[unique++] = q[i];
	*queues = q;
	*len = unique;
	return 0;
}

/* After the rows are stored: see sql/functions/worker/__waits.sql. */
static int queues_wake(struct pg *pg, const struct queue *queues, size_t len, struct deferred_error *err)
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
static int queues_add(struct pg *pg, struct queue *queues, size_t len, bool *special, struct deferred_error *err)
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
static int queues_check(const struct queue *queues, size_t len, const struct deferred_call_spec *calls, size_t n,
			size_t first, struct deferred_error *err)
{
	const struct queue *q = NULL;

	for (size_t i = 0; i < n; i++) {
		struct queue wanted = { .name = queue_of(&calls[i]) };
		size_t bytes = strlen(params_of(&calls[i]));

		if (!q || strcmp(q->name, wanted.name) != 0)
			q = bsearch(&wanted, queues, len, sizeof(*queues), queue_compare);
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

/* What all the jobs of one COPY share. */
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

static void copy_flush(struct copy_buf *b)
{
	if (b->rc == 0 && b->len > 0)
		b->rc = pg_copy_data(b->pg, b->data, b->len, b->err);
	b->len = 0;
}

static void put(struct copy_buf *b, const void *data, size_t len)
{
	if (len > sizeof(b->data) - b->len)
		copy_flush(b);
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

	put(b, &be, sizeof(be));
}

static void put_int4(struct copy_buf *b, int32_t v)
{
	uint32_t be = htobe32((uint32_t)v);

	put(b, &be, sizeof(be));
}

static void put_int8(struct copy_buf *b, int64_t v)
{
	uint64_t be = htobe64((uint64_t)v);

	put(b, &be, sizeof(be));
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
	put(b, s, len);
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
	put(b, s->ids + 8 * i, 8);
}

static void put_hot(struct copy_buf *b, const struct copy_source *s, const struct deferred_call_spec *call, size_t i)
{
	const struct deferred_opts *o = opts_of(call);
	size_t params_len = strlen(params_of(call));

	put_int2(b, 9);
	field_id(b, s, i);
	field_text(b, queue_of(call));
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
	const struct deferred_opts *o = opts_of(call);

	put_int2(b, 15);
	field_id(b, s, i);
	field_text(b, queue_of(call));
	field_text(b, call->fn);
	field_text(b, params_of(call));
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
	copy_flush(b);
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

	rc = queues_of(calls, n, &queues, &len, err);
	if (rc == 0)
		rc = queues_add(pg, queues, len, limited, err);
	if (rc < 0 || *limited)
		goto out;
	rc = queues_check(queues, len, calls, n, first, err);
	if (rc == 0)
		rc = copy_rows(b, copy_hot, put_hot, &s, calls, n);
	if (rc == 0)
		rc = copy_rows(b, copy_jobs, put_job, &s, calls, n);
	if (rc == 0)
		rc = queues_wake(pg, queues, len, err);
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

/* ---- one job ---------------------------------------------------------------------------------- */

int store_cancel(struct pg *pg, int64_t id, struct deferred_error *err)
{
	struct job_cancel_row r;
	int rc = job_cancel_one(pg, id, &r, err);

	if (rc == 0 && !r.cancelled)
		rc = error_set(err, DEFERRED_ENOTFOUND, "job_cancel",
			       "job %lld cannot be cancelled: it has ended, does not exist, or belongs to another role"
			       "\nlook at it with deferred show ID",
			       (long long)id);
	return rc;
}

/* What these functions of the schema raise where the receipt is not valid. */
static int own_job(int rc, struct deferred_error *own, struct deferred_error *err)
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

	return own_job(job_finish_self_exec(pg, id, receipt, result, &own), &own, err);
}

int store_extend(struct pg *pg, int64_t id, int64_t receipt, int64_t lease_ms, struct deferred_error *err)
{
	struct deferred_error own = { 0 };
	struct job_extend_row ignored;

	return own_job(job_extend_one(pg, id, receipt, lease_ms, &ignored, &own), &own, err);
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

static int error_text(struct pg *pg, int64_t id, struct deferred_outcome *outcome, struct deferred_error *err)
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
	return rc == 0 && *ended && r.may_read ? error_text(pg, id, outcome, err) : rc;
}
