/* SPDX-License-Identifier: MIT */
#include "histogram.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define STEPS 10
#define LAST (HISTOGRAM_BUCKETS - 1)

int64_t histogram_bound_us(int bucket)
{
	static const int64_t hundredths[STEPS] = { 100, 125, 160, 200, 250, 315, 400, 500, 630, 800 };
	int64_t power = 10;

	if (bucket >= LAST)
		return INT64_MAX;
	for (int i = bucket / STEPS; i > 0; i--)
		power *= 10;
	return hundredths[bucket % STEPS] * power / 100;
}

/* "N" and what must follow it. */
static bool take_number(const char **text, int64_t *n, char end)
{
	char *after;

	errno = 0;
	*n = strtoll(*text, &after, 10);
	if (after == *text || errno || *after != end)
		return false;
	*text = after + 1;
	return true;
}

bool histogram_add_text(struct histogram *h, const char *text)
{
	int64_t bucket, n;

	if (text[0] == '{' && text[1] == '}')
		return text[2] == '\0';
	if (*text++ != '{')
		return false;
	do {
		if (*text++ != '{' || !take_number(&text, &bucket, ',') || !take_number(&text, &n, '}') || bucket < 0 ||
		    bucket > LAST || n < 0)
			return false;
		h->n[bucket] += n;
	} while (*text++ == ',');
	return text[-1] == '}' && *text == '\0';
}

void histogram_count_us(struct histogram *h, int64_t us)
{
	int low = 0, high = LAST;

	while (low < high) {
		int middle = (low + high) / 2;

		if (us <= histogram_bound_us(middle))
			high = middle;
		else
			low = middle + 1;
	}
	h->n[low]++;
}

void histogram_add(struct histogram *h, const struct histogram *other)
{
	for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
		h->n[b] += other->n[b];
}

int64_t histogram_count(const struct histogram *h)
{
	int64_t n = 0;

	for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
		n += h->n[b];
	return n;
}

int64_t histogram_up_to(const struct histogram *h, int64_t us)
{
	int64_t n = 0;

	for (int b = 0; b < LAST && histogram_bound_us(b) <= us; b++)
		n += h->n[b];
	return n;
}

int64_t histogram_quantile_us(const struct histogram *h, double q)
{
	double rank = q * (double)histogram_count(h);
	int64_t below = 0;
	int b = 0, last = -1;

	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (h->n[i] > 0)
			last = i;
	if (last < 0)
		return -1;
	while (b < last && (h->n[b] == 0 || (double)(below + h->n[b]) < rank))
		below += h->n[b++];
	if (b == LAST)
		return histogram_bound_us(LAST - 1);
	double to = (double)histogram_bound_us(b), from = b > 0 ? (double)histogram_bound_us(b - 1) : 1;

	return (int64_t)(from * pow(to / from, (rank - (double)below) / (double)h->n[b]) + 0.5);
}

/* How far the median may be from the true one, as logarithms: its rank has a deviation of half the root of their
 * number. */
static void median_within(const struct histogram *h, double *median, double *below, double *above)
{
	double off = 0.98 / sqrt((double)histogram_count(h));

	*median = log((double)histogram_quantile_us(h, 0.5));
	*below = *median - log((double)histogram_quantile_us(h, 0.5 - off));
	*above = log((double)histogram_quantile_us(h, 0.5 + off)) - *median;
}

bool histogram_ratio(const struct histogram *h, const struct histogram *before, struct histogram_ratio *ratio)
{
	double median[2], below[2], above[2];

	if (histogram_count(h) < HISTOGRAM_RATIO_LEAST || histogram_count(before) < HISTOGRAM_RATIO_LEAST)
		return false;
	median_within(h, &median[0], &below[0], &above[0]);
	median_within(before, &median[1], &below[1], &above[1]);
	ratio->times = exp(median[0] - median[1]);
	ratio->low = exp(median[0] - median[1] - hypot(below[0], above[1]));
	ratio->high = exp(median[0] - median[1] + hypot(above[0], below[1]));
	return true;
}
