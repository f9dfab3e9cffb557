/* SPDX-License-Identifier: MIT */
#include "otlp.h"

#include "base/random.h"
#include "base/text/utf8.h"
#include "deferred.h"
#include "port/params.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KIND_CONSUMER 5
#define STATUS_ERROR 2

uint64_t otlp_span_id(int64_t job, int64_t attempt, int64_t end_us)
{
	uint64_t id = random_mix(random_mix(random_mix((uint64_t)job) + (uint64_t)attempt) + (uint64_t)end_us);

	return id ? id : 1; /* zeros are no id */
}

static void attribute_open(struct params_text *t, const char *key)
{
	params_open(t, NULL, '{');
	params_string(t, "key", key);
	params_open(t, "value", '{');
}

static void attribute_close(struct params_text *t)
{
	params_close(t, '}');
	params_close(t, '}');
}

static void otlp_text(struct params_text *t, const char *key, const char *value)
{
	if (!value)
		return;
	attribute_open(t, key);
	params_string(t, "stringValue", value);
	attribute_close(t);
}

static void otlp_number_text(struct params_text *t, const char *key, int64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRId64, value);
	params_string(t, key, digits);
}

static void otlp_number(struct params_text *t, const char *key, int64_t value)
{
	attribute_open(t, key);
	otlp_number_text(t, "intValue", value);
	attribute_close(t);
}

static void flag(struct params_text *t, const char *key, bool value)
{
	attribute_open(t, key);
	params_flag(t, "boolValue", value);
	attribute_close(t);
}

static void attributes(struct params_text *t, const struct otlp_span *s)
{
	char id[24];

	snprintf(id, sizeof(id), "%" PRId64, s->job);
	params_open(t, "attributes", '[');
	otlp_text(t, "messaging.system", "deferred");
	otlp_text(t, "messaging.operation.name", "process");
	otlp_text(t, "messaging.operation.type", "process");
	otlp_text(t, "messaging.destination.name", s->queue);
	otlp_text(t, "messaging.message.id", id);
	otlp_text(t, "error.type", s->failed ? s->outcome : NULL);
	otlp_text(t, "deferred.function", s->fn);
	otlp_number(t, "deferred.attempt", s->attempt);
	otlp_text(t, "deferred.outcome", s->outcome);
	flag(t, "deferred.final", s->final);
	if (s->wait_us >= 0)
		otlp_number(t, "deferred.wait_us", s->wait_us);
	if (s->worker)
		otlp_number(t, "deferred.worker", s->worker);
	params_close(t, ']');
}

static void otlp_one_span(struct params_text *t, const struct otlp_span *s)
{
	char hex[33], name[512];
	size_t queue_len = strnlen(s->queue, sizeof(name) - sizeof("process "));

	params_open(t, NULL, '{');
	snprintf(hex, sizeof(hex), "%.32s", s->traceparent + 3);
	params_string(t, "traceId", hex);
	snprintf(hex, sizeof(hex), "%016" PRIx64, s->id);
	params_string(t, "spanId", hex);
	snprintf(hex, sizeof(hex), "%.16s", s->traceparent + 36);
	params_string(t, "parentSpanId", hex);
	snprintf(name, sizeof(name), "process %.*s", (int)utf8_prefix(s->queue, queue_len), s->queue);
	params_string(t, "name", name);
	params_number(t, "kind", KIND_CONSUMER);
	otlp_number_text(t, "startTimeUnixNano", s->start_us * 1000);
	otlp_number_text(t, "endTimeUnixNano", s->end_us * 1000);
	attributes(t, s);
	if (s->failed) {
		params_open(t, "status", '{');
		params_number(t, "code", STATUS_ERROR);
		if (s->error)
			params_string(t, "message", s->error);
		params_close(t, '}');
	}
	params_close(t, '}');
}

int otlp_line(const struct otlp_span *spans, size_t n, char **line, struct deferred_error *err)
{
	struct params_text t = { 0 };

	params_open(&t, NULL, '{');
	params_open(&t, "resourceSpans", '[');
	params_open(&t, NULL, '{');
	params_open(&t, "resource", '{');
	params_open(&t, "attributes", '[');
	otlp_text(&t, "service.name", "deferred");
	params_close(&t, ']');
	params_close(&t, '}');
	params_open(&t, "scopeSpans", '[');
	params_open(&t, NULL, '{');
	params_open(&t, "scope", '{');
	params_string(&t, "name", "deferred");
	params_string(&t, "version", DEFERRED_VERSION);
	params_close(&t, '}');
	params_open(&t, "spans", '[');
	for (size_t i = 0; i < n; i++)
		otlp_one_span(&t, &spans[i]);
	params_close(&t, ']');
	params_close(&t, '}');
	params_close(&t, ']');
	params_close(&t, '}');
	params_close(&t, ']');
	params_close(&t, '}');
	return params_take(&t, line, err);
}
