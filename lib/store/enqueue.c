/* SPDX-License-Identifier: MIT */
#include "store/enqueue.h"

#include "port/params.h"
#include "rows/job.h"
#include "store/columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct deferred_opts *store_opts_of(const struct deferred_call_spec *call)
{
	static const struct deferred_opts none;

	return call->opts ? call->opts : &none;
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
	case DEFERRED_DUPLICATE_UPDATE:
		return "update";
	default:
		return NULL;
	}
}

/* As the statements take it: -1 stands for NULL here, and 0 for the start. */
static int64_t key_until_of(const struct deferred_opts *o)
{
	int64_t ms = o->more ? o->more->key_until_ms : 0;

	return ms == DEFERRED_KEY_UNTIL_START ? 0 : ms ? ms : -1;
}

static void add_int4_or_null(struct pg_args *args, int32_t v)
{
	if (v)
		pg_arg_int4(args, v);
	else
		pg_arg_null(args);
}

static void add_int8_or_null(struct pg_args *args, int64_t v)
{
	if (v)
		pg_arg_int8(args, v);
	else
		pg_arg_null(args);
}

/* on_duplicate says nothing where there is no key. */
static bool is_simple(const struct deferred_opts *o)
{
	return !o->label && !o->priority && !o->delay_ms && !o->run_at && !o->expires_ms && !o->expires_at && !o->key &&
	       !o->max_attempts && !o->timeout_ms && !o->backoff_floor_ms && !o->backoff_ceiling_ms &&
	       !(o->backoff_exponent > 0) && !o->concurrency_key && !o->concurrency && !store_has_tags(o) &&
	       !o->after_len && !o->traceparent && !o->flow;
}

/* The tags as a JSON array. Arrays of jobs can hold such texts of any length. *json: to be freed; NULL: none. */
static int tags_json(const struct deferred_opts *o, char **json, struct deferred_error *err)
{
	struct params_text t = { 0 };

	*json = NULL;
	if (!store_has_tags(o))
		return 0;
	params_open(&t, NULL, '[');
	for (size_t i = 0; o->tags[i]; i++)
		params_string(&t, NULL, o->tags[i]);
	params_close(&t, ']');
	return params_take(&t, json, err);
}

bool store_waits(const struct deferred_call_spec *call)
{
	return store_opts_of(call)->after_len > 0;
}

int64_t store_flow_of(const struct deferred_call_spec *call)
{
	return store_opts_of(call)->flow;
}

static void event_json(struct params_text *t, const char *event)
{
	if (*event == '{') {
		params_json(t, NULL, event);
		return;
	}
	params_open(t, NULL, '{');
	params_string(t, "event", event);
	params_close(t, '}');
}

/* The jobs and events it waits for, as deferred.__enqueue() takes them. *json: to be freed; NULL: none. */
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
		if (o->after[i].job == DEFERRED_AFTER_EVENT) {
			event_json(&t, o->after[i].as);
			continue;
		}
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

static void add_options(struct pg_args *args, const struct deferred_opts *o, const char *tags, const char *after)
{
	pg_arg_text(args, o->label);
	add_int4_or_null(args, o->priority);
	add_int8_or_null(args, o->delay_ms);
	pg_arg_text(args, o->run_at);
	add_int8_or_null(args, o->expires_ms);
	pg_arg_text(args, o->expires_at);
	pg_arg_text(args, o->key);
	pg_arg_text(args, on_duplicate_of(o));
	add_int4_or_null(args, o->max_attempts);
	add_int8_or_null(args, o->timeout_ms);
	add_int8_or_null(args, o->backoff_floor_ms);
	add_int8_or_null(args, o->backoff_ceiling_ms);
	if (o->backoff_exponent > 0)
		pg_arg_float8(args, o->backoff_exponent);
	else
		pg_arg_null(args);
	pg_arg_text(args, o->concurrency_key);
	add_int4_or_null(args, o->concurrency);
	pg_arg_json(args, tags, tags ? strlen(tags) : 0);
	pg_arg_text(args, o->traceparent);
	pg_arg_json(args, after, after ? strlen(after) : 0);
	add_int8_or_null(args, o->flow);
	if (key_until_of(o) >= 0)
		pg_arg_int8(args, key_until_of(o));
	else
		pg_arg_null(args);
}

int store_enqueue(struct pg *pg, const struct deferred_call_spec *call, int64_t *id, struct deferred_error *err)
{
	const struct deferred_opts *o = store_opts_of(call);
	const char *params = store_params_of(call);
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
		add_options(&args, o, tags, after);
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
#define OPT(name) store_opts_of(&calls[i])->name

static void add_columns(struct pg_args *args, struct columns *c, const struct deferred_call_spec *calls, char **tags)
{
	COLUMN_TEXT(args, c, calls[i].fn);
	COLUMN_JSON(args, c, store_params_of(&calls[i]));
	COLUMN_TEXT_OR_NULL(args, c, OPT(queue), strlen(c->text[i]));
	COLUMN_TEXT_OR_NULL(args, c, OPT(label), strlen(c->text[i]));
	COLUMN_INT4_OR_NULL(args, c, OPT(priority), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(delay_ms), 0);
	COLUMN_TEXT_OR_NULL(args, c, OPT(run_at), strlen(c->text[i]));
	COLUMN_INT8_OR_NULL(args, c, OPT(expires_ms), 0);
	COLUMN_TEXT_OR_NULL(args, c, OPT(expires_at), strlen(c->text[i]));
	COLUMN_TEXT_OR_NULL(args, c, OPT(key), strlen(c->text[i]));
	COLUMN_TEXT_OR_NULL(args, c, on_duplicate_of(store_opts_of(&calls[i])), strlen(c->text[i]));
	COLUMN_INT4_OR_NULL(args, c, OPT(max_attempts), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(timeout_ms), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(backoff_floor_ms), 0);
	COLUMN_INT8_OR_NULL(args, c, OPT(backoff_ceiling_ms), 0);
	COLUMN_FLOAT8_OR_NULL(args, c, OPT(backoff_exponent) > 0 ? OPT(backoff_exponent) : 0, 0);
	COLUMN_TEXT_OR_NULL(args, c, OPT(concurrency_key), strlen(c->text[i]));
	COLUMN_INT4_OR_NULL(args, c, OPT(concurrency), 0);
	pg_arg_json_array(args, (const char *const *)tags, NULL, c->n);
	COLUMN_TEXT_OR_NULL(args, c, OPT(traceparent), strlen(c->text[i]));
	add_int8_or_null(args, store_flow_of(calls));
	COLUMN_INT8_OR_NULL(args, c, key_until_of(store_opts_of(&calls[i])), -1);
}

static void free_tags(char **tags, size_t n)
{
	for (size_t i = 0; tags && i < n; i++)
		free(tags[i]);
	free(tags);
}

/* Those of each call; *tags is NULL where none has any. */
static int all_tags_json(const struct deferred_call_spec *calls, size_t n, char ***tags, struct deferred_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		if (!store_has_tags(store_opts_of(&calls[i])))
			continue;
		if (!*tags && !(*tags = calloc(n, sizeof(**tags))))
			return error_set(err, DEFERRED_ENOMEM, "job_enqueue_many", "out of memory for %zu calls", n);
		rc = tags_json(store_opts_of(&calls[i]), &(*tags)[i], err);
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
		rc = all_tags_json(calls, n, &tags, err);
	if (rc < 0)
		goto out;
	add_columns(&args, &c, calls, tags);
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
	free_tags(tags, n);
	return rc;
}
