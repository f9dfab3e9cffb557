/* SPDX-License-Identifier: MIT */
#include "store/enqueue/enqueue.h"

#include "port/params.h"
#include "rows/job.h"
#include "store/columns.h"
#include "store/enqueue/job_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct deferred_opts *store_opts_of(const struct deferred_call_spec *call)
{
	static const struct deferred_opts none;

	return call->opts ? call->opts : &none;
}

static void add_int4_or_null(struct pg_args *args, int32_t v)
{
	if (v)
		pg_arg_int4(args, v);
	else
		pg_arg_null(args);
}

static void add_int8_or_null(struct pg_args *args, int64_t v, int64_t none)
{
	if (v != none)
		pg_arg_int8(args, v);
	else
		pg_arg_null(args);
}

static void add_float8_or_null(struct pg_args *args, double v)
{
	if (v > 0)
		pg_arg_float8(args, v);
	else
		pg_arg_null(args);
}

static bool is_simple(const struct deferred_opts *o)
{
	for (const struct job_option *k = job_options; k->name; k++)
		if (job_option_is_given(k, o))
			return false;
	return true;
}

static bool has_tags(const struct deferred_opts *o)
{
	return o->tags && o->tags[0];
}

/* The tags as a JSON array. Arrays of jobs can hold such texts of any length. *json: to be freed; NULL: none. */
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

bool store_is_alone(const struct deferred_call_spec *call)
{
	for (const struct job_option *k = job_options; k->name && call->opts; k++)
		if (k->alone && job_option_is_given(k, call->opts))
			return true;
	return false;
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

/* json: for the tags, or the jobs it waits for; to be freed after the statement was sent. */
static int arg_option(struct pg_args *args, const struct job_option *k, const struct deferred_opts *o, char **json,
		      struct deferred_error *err)
{
	int rc;

	switch (k->kind) {
	case JOB_OPTION_TEXT:
	case JOB_OPTION_TIME:
	case JOB_OPTION_DUPLICATE:
		pg_arg_text(args, job_option_text(k, o));
		return 0;
	case JOB_OPTION_NUMBER:
		add_int4_or_null(args, (int32_t)job_option_number(k, o));
		return 0;
	case JOB_OPTION_FACTOR:
		add_float8_or_null(args, job_option_factor(k, o));
		return 0;
	case JOB_OPTION_TAGS:
	case JOB_OPTION_AFTER:
		rc = k->kind == JOB_OPTION_TAGS ? tags_json(o, json, err) : after_json(o, json, err);
		pg_arg_json(args, *json, *json ? strlen(*json) : 0);
		return rc;
	case JOB_OPTION_KEY_UNTIL:
		add_int8_or_null(args, job_option_number(k, o), -1);
		return 0;
	default:
		add_int8_or_null(args, job_option_number(k, o), 0);
		return 0;
	}
}

int store_enqueue(struct pg *pg, const struct deferred_call_spec *call, int64_t *id, struct deferred_error *err)
{
	const struct deferred_opts *o = store_opts_of(call);
	const char *params = store_params_of(call);
	bool simple = is_simple(o);
	struct pg_result *res = NULL;
	struct pg_args args;
	char *tags = NULL, *after = NULL;
	int rc = 0;

	pg_args_init(&args);
	pg_arg_text(&args, call->fn);
	pg_arg_json(&args, params, strlen(params));
	pg_arg_text(&args, o->queue);
	for (const struct job_option *k = job_options; k->name && !simple && rc == 0; k++)
		rc = arg_option(&args, k, o, k->kind == JOB_OPTION_TAGS ? &tags : &after, err);
	if (rc == 0)
		rc = pg_exec(pg, simple ? &sql_job_enqueue_simple : &sql_job_enqueue, &args, PG_BINARY, &res, err);
	if (rc == 0 && id)
		*id = job_enqueue_row(res, 0).id;
	pg_result_free(res);
	pg_args_clear(&args);
	free(tags);
	free(after);
	return rc;
}

static void arg_column(struct pg_args *args, struct columns *c, const struct job_option *k,
		       const struct deferred_call_spec *calls, char **tags)
{
	switch (k->kind) {
	case JOB_OPTION_TEXT:
	case JOB_OPTION_TIME:
	case JOB_OPTION_DUPLICATE:
		COLUMN_TEXT_OR_NULL(args, c, job_option_text(k, store_opts_of(&calls[i])), strlen(c->text[i]));
		break;
	case JOB_OPTION_NUMBER:
		COLUMN_INT4_OR_NULL(args, c, (int32_t)job_option_number(k, store_opts_of(&calls[i])), 0);
		break;
	case JOB_OPTION_SPAN:
	case JOB_OPTION_FROM_NOW:
		COLUMN_INT8_OR_NULL(args, c, job_option_number(k, store_opts_of(&calls[i])), 0);
		break;
	case JOB_OPTION_FACTOR:
		COLUMN_FLOAT8_OR_NULL(args, c, job_option_factor(k, store_opts_of(&calls[i])), 0);
		break;
	case JOB_OPTION_TAGS:
		pg_arg_json_array(args, (const char *const *)tags, NULL, c->n);
		break;
	case JOB_OPTION_AFTER:
		break;
	case JOB_OPTION_FLOW:
		add_int8_or_null(args, store_flow_of(calls), 0);
		break;
	case JOB_OPTION_KEY_UNTIL:
		COLUMN_INT8_OR_NULL(args, c, job_option_number(k, store_opts_of(&calls[i])), -1);
		break;
	}
}

static void arg_columns(struct pg_args *args, struct columns *c, const struct deferred_call_spec *calls, char **tags)
{
	COLUMN_TEXT(args, c, calls[i].fn);
	COLUMN_JSON(args, c, store_params_of(&calls[i]));
	COLUMN_TEXT_OR_NULL(args, c, store_opts_of(&calls[i])->queue, strlen(c->text[i]));
	for (const struct job_option *k = job_options; k->name; k++)
		if (!k->alone)
			arg_column(args, c, k, calls, tags);
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
		if (!has_tags(store_opts_of(&calls[i])))
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
	arg_columns(&args, &c, calls, tags);
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
