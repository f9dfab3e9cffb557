/* SPDX-License-Identifier: MIT */
/*
 * otlp - spans as lines of JSON in the form of OTLP. Each line is an ExportTraceServiceRequest. Ids are hexadecimal,
 * numbers of 64 bits are texts, enumerations are numbers. See "JSON Protobuf Encoding" in
 * https://opentelemetry.io/docs/specs/otlp.
 */
#ifndef OTLP_H
#define OTLP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An attempt of a job. Texts are borrowed; NULL: none. */
struct otlp_span {
	uint64_t id;
	int64_t job, attempt, worker; /* worker 0: none that is known */
	const char *queue, *fn;
	const char *traceparent; /* traceparent_valid() */
	const char *outcome, *error;
	bool final, failed;
	int64_t start_us, end_us; /* since 1970 */
	int64_t wait_us;          /* -1: not known */
};

/* An attempt always has the same id, so a span that is written twice is the same span. */
uint64_t otlp_span_id(int64_t job, int64_t attempt, int64_t end_us);

/* *line: given, without its end. */
int otlp_line(const struct otlp_span *spans, size_t n, char **line, struct deferred_error *err);

#endif
