/* SPDX-License-Identifier: MIT */
/*
 * exposition - lines as Prometheus reads them: text format 0.0.4, or OpenMetrics 1.0.0.
 *
 *     struct exposition e;
 *     if (exposition_begin(&e, open)) {
 *             exposition_metric(&e, "x_total", "counter", "What it counts.");
 *             exposition_sample(&e, "", labels, 1);
 *             exposition_whole(&e, 17);
 *             text = exposition_end(&e);
 *     }
 */
#ifndef EXPOSITION_H
#define EXPOSITION_H

#include "base/advice/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define EXPOSITION_TYPE_OPEN "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct exposition {
	FILE *fp;         /* of memory */
	bool open;        /* as OpenMetrics */
	const char *name; /* of the metric under way */
	char *text;
	size_t len;
};

/* Does a header "Accept" ask for OpenMetrics? NULL: there is none. */
bool exposition_wants_open(const char *accept);

/* False: no memory. Then nothing else is to be called. */
bool exposition_begin(struct exposition *e, bool open);
/* Returns the text, given: free(). NULL: no memory. */
char *exposition_end(struct exposition *e);

/* name: of its samples, so that of a counter ends in _total. Borrowed until the next one. */
void exposition_metric(struct exposition *e, const char *name, const char *type, const char *help);

struct exposition_label {
	const char *name, *value; /* value NULL: it has not that one */
};
#define EXPOSITION_LABELS 4

/* A sample up to its value, which is to follow; after: what its name has behind that of the metric. */
void exposition_sample(struct exposition *e, const char *after, const struct exposition_label *labels, size_t n);
void exposition_whole(struct exposition *e, int64_t n);
void exposition_seconds(struct exposition *e, int64_t us);

/* All samples of one; bounds: of buckets, microseconds, each also a bound of the histogram. */
void exposition_histogram(struct exposition *e, const struct exposition_label *labels, size_t n,
			  const struct histogram *h, int64_t sum_us, const int64_t *bounds_us, size_t bounds);

#endif
