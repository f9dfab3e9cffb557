/* SPDX-License-Identifier: MIT */
#include "api/defer_check.h"

#include "base/span.h"
#include "base/job.h"
#include "base/text/names.h"
#include "base/text/utf8.h"
#include "base/traceparent.h"
#include "port/params.h"
#include "store/enqueue/job_options.h"

#include <string.h>

/* Limits of texts, in characters. */
#define TAG_MAX_CHARS 100
#define TAGS_MAX 32
#define AFTER_MAX 1000
#define AS_MAX_CHARS 100

/* max_chars 0: no limit here. */
static int check_text(const char *name, const char *s, size_t max_chars, struct deferred_error *err)
{
	if (!s)
		return 0;
	if (utf8_prefix(s, strlen(s)) != strlen(s))
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option '%s' is not valid UTF-8\nconvert the text to UTF-8", name);
	if (max_chars && utf8_count(s) > max_chars)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option '%s' has %zu characters, more than %zu\nshorten the text", name, utf8_count(s),
				 max_chars);
	return 0;
}

static int check_option_text(const struct job_option *k, const char *s, struct deferred_error *err)
{
	if (s && !*s && k->min > 0)
		return error_set(err, DEFERRED_EINVAL, "opts", "option '%s' is empty\nuse %g to %g characters, or NULL",
				 k->name, k->min, k->max);
	return check_text(k->name, s, (size_t)k->max, err);
}

/* 0 stands for the default, whatever the range is. */
static int check_number(const struct job_option *k, double n, struct deferred_error *err)
{
	if (n == 0 || (n >= k->min && n <= k->max))
		return 0;
	return error_set(err, DEFERRED_EINVAL, "opts", "option '%s' is out of range: %.15g\nuse %s", k->name, n,
			 k->hint);
}

static int check_span(const char *name, int64_t ms, struct deferred_error *err)
{
	if (ms >= 0 && ms <= SPAN_MAX_MS)
		return 0;
	return error_set(err, DEFERRED_EINVAL, "opts",
			 "option '%s_ms' is out of range: %lld ms\nuse 0 to 3155760000000 ms, a hundred years", name,
			 (long long)ms);
}

static int check_tags(const char *const *tags, struct deferred_error *err)
{
	for (size_t i = 0; tags && tags[i]; i++) {
		if (i == TAGS_MAX)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "option 'tags' has more than %d tags, the first is '%.100s'\nuse fewer tags",
					 TAGS_MAX, tags[0]);
		if (!*tags[i])
			return error_set(err, DEFERRED_EINVAL, "opts", "tags[%zu] is empty\nuse 1 to 100 characters",
					 i);
		if (utf8_prefix(tags[i], strlen(tags[i])) != strlen(tags[i]))
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "tags[%zu] is not valid UTF-8\nconvert the text to UTF-8", i);
		if (utf8_count(tags[i]) > TAG_MAX_CHARS)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "tags[%zu] has %zu characters, more than %d: '%.100s'\nshorten the tag", i,
					 utf8_count(tags[i]), TAG_MAX_CHARS, tags[i]);
	}
	return 0;
}

/* The database checks the rest. */
static int check_event(const struct deferred_after *a, size_t i, struct deferred_error *err)
{
	int rc = 0;

	if (!a->as || !*a->as || a->on != DEFERRED_AFTER_OK)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "after[%zu]: an event needs its name in 'as', and 'on' must be 0\n"
				 "set as to the name of the event, or to {\"event\": ...}",
				 i);
	if (*a->as == '{')
		rc = params_check(a->as, strlen(a->as), err);
	else
		rc = check_text("after", a->as, 0, err);
	if (rc < 0)
		error_prefix(err, "after[%zu]", i);
	return rc < 0 ? DEFERRED_EINVAL : 0;
}

static int check_after(const struct deferred_opts *o, struct deferred_error *err)
{
	if (o->after_len > 0 && !o->after)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'after' is NULL, but after_len is %zu\npass the jobs, or set after_len to 0",
				 o->after_len);
	if (o->after_len > AFTER_MAX)
		return error_set(
			err, DEFERRED_EINVAL, "opts",
			"option 'after' names %zu jobs, more than %d\nput a job between that waits for some of them",
			o->after_len, AFTER_MAX);
	for (size_t i = 0; i < o->after_len; i++) {
		const struct deferred_after *a = &o->after[i];

		if (a->job == DEFERRED_AFTER_EVENT) {
			if (check_event(a, i, err) < 0)
				return DEFERRED_EINVAL;
			continue;
		}
		if (a->job < 1)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "after[%zu]: %lld is not the id of a job\nan id is 1 or more", i,
					 (long long)a->job);
		if ((unsigned int)a->on > DEFERRED_AFTER_ENDED)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "after[%zu]: condition %d is unknown\nuse a value of enum deferred_after_on",
					 i, (int)a->on);
		if (check_text("after", a->as, AS_MAX_CHARS, err) < 0)
			return DEFERRED_EINVAL;
		if (a->as && !*a->as)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "after[%zu]: the name is empty\nuse 1 to 100 characters, or NULL", i);
	}
	return 0;
}

static int check_traceparent(const char *s, struct deferred_error *err)
{
	if (!s || traceparent_valid(s))
		return 0;
	error_set(err, DEFERRED_EINVAL, "opts", "option 'traceparent' has the invalid value '%.200s'", s);
	error_hint(err, "use the form of W3C Trace Context in lower case: %s; neither id is all zeros",
		   TRACEPARENT_FORM);
	return DEFERRED_EINVAL;
}

static int check_key_until(const struct job_option *k, const struct deferred_opts *o, struct deferred_error *err)
{
	int64_t ms = job_option_number(k, o);

	if (ms != -1 && check_span(k->name, ms, err) < 0)
		return DEFERRED_EINVAL;
	if (ms != -1 && !o->key)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'key_until_ms' is given, but 'key' is missing\nset both");
	return 0;
}

static int check_reserved(const struct deferred_more_opts *more, struct deferred_error *err)
{
	for (size_t i = 0; more && i < sizeof(more->reserved) / sizeof(more->reserved[0]); i++)
		if (more->reserved[i])
			return error_set(
				err, DEFERRED_EINVAL, "opts",
				"reserved[%zu] is not zero: the options were not initialised\nbegin with { 0 }", i);
	return 0;
}

static int check_duplicate(const struct deferred_opts *o, struct deferred_error *err)
{
	if ((unsigned int)o->on_duplicate <= DEFERRED_DUPLICATE_UPDATE)
		return 0;
	return error_set(err, DEFERRED_EINVAL, "opts",
			 "option 'on_duplicate' has the invalid value %d\nuse a value of enum deferred_on_duplicate",
			 (int)o->on_duplicate);
}

static int check_flow_id(const struct deferred_opts *o, struct deferred_error *err)
{
	if (o->flow >= 0)
		return 0;
	return error_set(err, DEFERRED_EINVAL, "opts",
			 "option 'flow' is not the number of a flow: %lld\nan id is 1 or more", (long long)o->flow);
}

static int check_option(const struct job_option *k, const struct deferred_opts *o, struct deferred_error *err)
{
	switch (k->kind) {
	case JOB_OPTION_TEXT:
	case JOB_OPTION_TIME:
		return check_option_text(k, job_option_text(k, o), err);
	case JOB_OPTION_NUMBER:
		return check_number(k, (double)job_option_number(k, o), err);
	case JOB_OPTION_FACTOR:
		return check_number(k, job_option_factor(k, o), err);
	case JOB_OPTION_SPAN:
	case JOB_OPTION_FROM_NOW:
		return check_span(k->name, job_option_number(k, o), err);
	case JOB_OPTION_DUPLICATE:
		return check_duplicate(o, err);
	case JOB_OPTION_TAGS:
		return check_tags(o->tags, err);
	case JOB_OPTION_AFTER:
		return check_after(o, err);
	case JOB_OPTION_FLOW:
		return check_flow_id(o, err);
	case JOB_OPTION_KEY_UNTIL:
		return check_key_until(k, o, err);
	}
	return 0;
}

static int check_opts(const struct deferred_opts *o, struct deferred_error *err)
{
	if (o->queue && !names_is_queue(o->queue))
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "queue name '%.200s' is invalid\n"
				 "a name has 1 to 88 letters, digits, '_', '.' and '-', and begins with a letter, "
				 "a digit or '_'",
				 o->queue);
	for (const struct job_option *k = job_options; k->name; k++)
		if (check_option(k, o, err) < 0)
			return DEFERRED_EINVAL;
	if (o->concurrency && !o->concurrency_key)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'concurrency' is %d, but 'concurrency_key' is missing\nset both",
				 o->concurrency);
	if (check_traceparent(o->traceparent, err) < 0)
		return DEFERRED_EINVAL;
	return check_reserved(o->more, err);
}

int defer_check(const struct deferred_call_spec *call, int64_t params_max_bytes, struct deferred_error *err)
{
	const char *name = call->fn ? call->fn : "message";
	size_t len;
	int rc;

	/* A call without a function is a message, which must name its queue. */
	if (call->fn ? !names_is_function(call->fn) : !call->opts || !call->opts->queue) {
		if (call->fn)
			return error_set(err, DEFERRED_EINVAL, "fn",
					 "function name '%.200s' is invalid\n" JOB_FUNCTION_NAMES, call->fn);
		return error_set(err, DEFERRED_EINVAL, "fn",
				 "the function is missing\n"
				 "name a function; only a message has none, and needs a queue: set opts.queue");
	}
	if (call->opts && check_opts(call->opts, err) < 0) {
		error_prefix(err, "%s", name);
		return DEFERRED_EINVAL;
	}
	if (!call->params)
		return 0;
	len = strlen(call->params);
	if (params_max_bytes && len > (uint64_t)params_max_bytes) {
		error_set(err, DEFERRED_EINVAL, "params",
			  "params of function '%s' have %zu bytes, more than params_max_bytes (%lld)", name, len,
			  (long long)params_max_bytes);
		error_hint(err, "store the data elsewhere and pass a reference, or raise the setting");
		return DEFERRED_EINVAL;
	}
	rc = params_check(call->params, len, err);
	if (rc < 0)
		error_prefix(err, "params of function '%s'", name);
	return rc;
}

int defer_check_many(const struct deferred_call_spec *calls, size_t n, int64_t params_max_bytes,
		     struct deferred_error *err)
{
	if (!calls && n > 0)
		return error_set(err, DEFERRED_EINVAL, "calls", "calls is NULL\npass an array of calls");
	for (size_t i = 0; i < n; i++) {
		int rc = defer_check(&calls[i], params_max_bytes, err);

		if (rc < 0) {
			error_prefix(err, "call %zu", i);
			return rc;
		}
	}
	return 0;
}
