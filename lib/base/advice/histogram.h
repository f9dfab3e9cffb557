/* SPDX-License-Identifier: MIT */
/*
 * histogram - how many times lay between which bounds.
 *
 * The bounds are 1 1.25 1.6 2 2.5 3.15 4 5 6.3 8 times each power of ten, from 10 us to 10^12 us. Bucket b counts the
 * values above bound b - 1 and up to bound b. The last one, HISTOGRAM_BUCKETS - 1, counts those above all bounds.
 * deferred.__bucket() is the same in SQL.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 112

struct histogram {
	int64_t n[HISTOGRAM_BUCKETS];
};

/* Upper bound of a bucket, microseconds; that of the last one is INT64_MAX. */
int64_t histogram_bound_us(int bucket);

/* Add what the database has of one: {{bucket,n},{bucket,n}}. False: it is none, and some may have been added. */
bool histogram_add_text(struct histogram *h, const char *text);

/* One more that took so long. */
void histogram_count_us(struct histogram *h, int64_t us);

void histogram_add(struct histogram *h, const struct histogram *other);
int64_t histogram_count(const struct histogram *h);

/* How many were at most so long: exact at the bounds, which 1, 2.5, 5 and 10 times the powers of ten are. */
int64_t histogram_up_to(const struct histogram *h, int64_t us);

/* The q-quantile in microseconds, 0 <= q <= 1, interpolated between the bounds by the logarithm. -1: it is empty. */
int64_t histogram_quantile_us(const struct histogram *h, double q);

/* The ratio of two medians, with its 95 % confidence interval. */
struct histogram_ratio {
	double times, low, high;
};

/* False: one of them has fewer than HISTOGRAM_RATIO_LEAST, of which nothing can be said. */
#define HISTOGRAM_RATIO_LEAST 200
bool histogram_ratio(const struct histogram *h, const struct histogram *before, struct histogram_ratio *ratio);

#endif
