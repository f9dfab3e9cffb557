/* SPDX-License-Identifier: MIT */
#include "store/enqueue/job_options.h"

#include <limits.h>

#define AT(member) offsetof(struct deferred_opts, member)

const struct job_option job_options[] = {
	{ "label", JOB_OPTION_TEXT, AT(label), .max = 1000, .copied = true },
	{ "priority", JOB_OPTION_NUMBER, AT(priority), .min = INT16_MIN, .max = INT16_MAX, .copied = true,
	  .hint = "-32768 to 32767; jobs with a larger priority run earlier" },
	{ "delay", JOB_OPTION_FROM_NOW, AT(delay_ms), .copied = true },
	{ "run_at", JOB_OPTION_TIME, AT(run_at), AT(delay_ms) },
	{ "expires", JOB_OPTION_FROM_NOW, AT(expires_ms), .copied = true },
	{ "expires_at", JOB_OPTION_TIME, AT(expires_at), AT(expires_ms) },
	{ "key", JOB_OPTION_TEXT, AT(key), .min = 1, .max = 1000 },
	{ "on_duplicate", JOB_OPTION_DUPLICATE, AT(on_duplicate) },
	{ "max_attempts", JOB_OPTION_NUMBER, AT(max_attempts), .min = 1, .max = INT_MAX, .copied = true,
	  .hint = "a number from 1 on, or 0 for the setting" },
	{ "timeout", JOB_OPTION_SPAN, AT(timeout_ms), .copied = true },
	{ "backoff_floor", JOB_OPTION_SPAN, AT(backoff_floor_ms), .copied = true },
	{ "backoff_ceiling", JOB_OPTION_SPAN, AT(backoff_ceiling_ms), .copied = true },
	{ "backoff_exponent", JOB_OPTION_FACTOR, AT(backoff_exponent), .min = 1, .max = 100, .copied = true,
	  .hint = "1 to 100" },
	{ "concurrency_key", JOB_OPTION_TEXT, AT(concurrency_key), .min = 1, .max = 1000 },
	{ "concurrency", JOB_OPTION_NUMBER, AT(concurrency), .min = 1, .max = 10000, .hint = "1 to 10000" },
	{ "tags", JOB_OPTION_TAGS },
	{ "traceparent", JOB_OPTION_TEXT, AT(traceparent) },
	{ "after", JOB_OPTION_AFTER, .alone = true },
	{ "flow", JOB_OPTION_FLOW, AT(flow) },
	{ "key_until", JOB_OPTION_KEY_UNTIL, offsetof(struct deferred_more_opts, key_until_ms), .more = true },
	{ 0 },
};

static const void *member(const struct job_option *k, const struct deferred_opts *o)
{
	static const struct deferred_more_opts none;

	if (k->more)
		return (const char *)(o->more ? o->more : &none) + k->at;
	return (const char *)o + k->at;
}

/* Skipping is the default, which need not be sent. */
static const char *duplicate_text(const struct deferred_opts *o)
{
	static const char *const texts[] = { NULL, "error", "replace", "update" };

	return o->key ? texts[o->on_duplicate] : NULL;
}

const char *job_option_text(const struct job_option *k, const struct deferred_opts *o)
{
	return k->kind == JOB_OPTION_DUPLICATE ? duplicate_text(o) : *(const char *const *)member(k, o);
}

int64_t job_option_number(const struct job_option *k, const struct deferred_opts *o)
{
	int64_t n = k->kind == JOB_OPTION_NUMBER ? *(const int *)member(k, o) : *(const int64_t *)member(k, o);

	if (k->kind != JOB_OPTION_KEY_UNTIL)
		return n;
	return n == DEFERRED_KEY_UNTIL_START ? 0 : n ? n : -1;
}

int64_t job_option_from_now(const struct job_option *k, const struct deferred_opts *o)
{
	return *(const int64_t *)((const char *)o + k->from_now);
}

double job_option_factor(const struct job_option *k, const struct deferred_opts *o)
{
	return *(const double *)member(k, o);
}

bool job_option_is_given(const struct job_option *k, const struct deferred_opts *o)
{
	switch (k->kind) {
	case JOB_OPTION_TEXT:
	case JOB_OPTION_TIME:
	case JOB_OPTION_DUPLICATE:
		return job_option_text(k, o);
	case JOB_OPTION_FACTOR:
		return job_option_factor(k, o) > 0;
	case JOB_OPTION_TAGS:
		return o->tags && o->tags[0];
	case JOB_OPTION_AFTER:
		return o->after_len > 0;
	case JOB_OPTION_KEY_UNTIL:
		return job_option_number(k, o) >= 0;
	default:
		return job_option_number(k, o) != 0;
	}
}

static bool is_name(const char *name, const char *given)
{
	while (*name && (*given == *name || (*given == '-' && *name == '_'))) {
		name++;
		given++;
	}
	return *name == *given;
}

const struct job_option *job_option_find(const char *name)
{
	for (const struct job_option *k = job_options; k->name; k++)
		if (is_name(k->name, name))
			return k;
	return NULL;
}
