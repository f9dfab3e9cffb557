/* SPDX-License-Identifier: MIT */
#include "api/spool_call.h"

#include "port/params.h"
#include "port/pg.h"
#include "store/enqueue/enqueue.h"
#include "store/enqueue/job_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void spool_text(struct params_text *t, const char *key, const char *value)
{
	if (value)
		params_string(t, key, value);
}

static void spool_ms(struct params_text *t, const char *key, int64_t ms)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64 "ms", ms);
	params_string(t, key, text);
}

/* A time that is written wins over one that is counted from now. */
static void spool_time(struct params_text *t, const char *key, const char *written, int64_t after_ms)
{
	char text[64], date[40];
	struct timespec now;
	struct tm tm;
	time_t s;

	if (written || !after_ms) {
		spool_text(t, key, written);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	after_ms += now.tv_nsec / 1000000;
	s = now.tv_sec + after_ms / 1000;
	if (!gmtime_r(&s, &tm))
		return;
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03dZ", date, (int)(after_ms % 1000));
	params_string(t, key, text);
}

static void spool_tags(struct params_text *t, const char *key, const char *const *tags)
{
	params_open(t, key, '[');
	for (size_t i = 0; tags[i]; i++)
		params_string(t, NULL, tags[i]);
	params_close(t, ']');
}

static void spool_option(struct params_text *t, const struct job_option *k, const struct deferred_opts *o)
{
	switch (k->kind) {
	case JOB_OPTION_TEXT:
	case JOB_OPTION_DUPLICATE:
		params_string(t, k->name, job_option_text(k, o));
		break;
	case JOB_OPTION_NUMBER:
		params_number(t, k->name, (double)job_option_number(k, o));
		break;
	case JOB_OPTION_FACTOR:
		params_number(t, k->name, job_option_factor(k, o));
		break;
	case JOB_OPTION_SPAN:
		spool_ms(t, k->name, job_option_number(k, o));
		break;
	case JOB_OPTION_KEY_UNTIL:
		if (job_option_number(k, o) == 0)
			params_string(t, k->name, "start");
		else
			spool_ms(t, k->name, job_option_number(k, o));
		break;
	case JOB_OPTION_TAGS:
		spool_tags(t, k->name, o->tags);
		break;
	case JOB_OPTION_TIME:
	case JOB_OPTION_FROM_NOW:
	case JOB_OPTION_AFTER: /* see needs_database() */
	case JOB_OPTION_FLOW:
		break;
	}
}

static void spool_options(struct params_text *t, const struct deferred_opts *o)
{
	spool_text(t, "queue", o->queue);
	for (const struct job_option *k = job_options; k->name; k++)
		if (k->kind == JOB_OPTION_TIME)
			spool_time(t, k->name, job_option_text(k, o), job_option_from_now(k, o));
		else if (job_option_is_given(k, o))
			spool_option(t, k, o);
}

static int call_json(const struct deferred_call_spec *call, char **json, struct deferred_error *err)
{
	struct params_text t = { 0 };

	params_open(&t, NULL, '{');
	spool_text(&t, "fn", call->fn);
	params_json(&t, "params", store_params_of(call));
	spool_options(&t, store_opts_of(call));
	params_close(&t, '}');
	return params_take(&t, json, err);
}

/* "tomorrow" would be another day when the entry is stored. */
static bool is_date(const char *text)
{
	return !text || (strspn(text, "0123456789") == 4 && text[4] == '-' && strspn(text + 5, "0123456789") == 2 &&
			 text[7] == '-');
}

/* NULL: it can be kept. */
static const char *needs_database(const struct deferred_opts *o)
{
	return o->after_len ? "a job that waits for others or for events cannot be kept in the spool"
	       : o->flow    ? "a job of a flow cannot be kept in the spool"
	       : !is_date(o->run_at)
		       ? "a job whose 'run_at' does not begin with a date (2026-01-31) cannot be kept in the spool"
	       : !is_date(o->expires_at)
		       ? "a job whose 'expires_at' does not begin with a date (2026-01-31) cannot be kept in the spool"
		       : NULL;
}

int spool_call(const char *path, const char *conninfo, const struct deferred_call_spec *call, char id[SPOOL_ID_SIZE],
	       const struct deferred_error *unreachable, struct deferred_error *err)
{
	const char *needs = needs_database(store_opts_of(call));
	char *json = NULL, *place = NULL;
	struct spool s = { .fd = -1 };
	int rc;

	if (needs) {
		error_set(err, unreachable->code, unreachable->where, "%s: %s", needs, unreachable->message);
		error_hint(err, "%s", unreachable->hint);
		return unreachable->code;
	}
	rc = call_json(call, &json, err);
	if (rc == 0)
		rc = pg_place(conninfo, &place, err);
	if (rc == 0)
		rc = spool_open(&s, path, err);
	if (rc == 0)
		rc = spool_append(&s, place, json, id, err);
	if (rc == DEFERRED_ESYSTEM)
		error_prefix(err, "not stored: the server cannot be reached");
	spool_close(&s);
	free(json);
	free(place);
	return rc < 0 ? rc
		      : error_set(err, DEFERRED_SPOOLED, "spool",
				  "%s; the job is in the spool\nrun deferred spool drain when the server is back",
				  unreachable->message);
}
