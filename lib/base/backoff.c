/* SPDX-License-Identifier: MIT */
#include "base/backoff.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>

/* The comparisons turn NaN and infinity into a bound. Their conversion to an integer would be undefined. */

double backoff_grow(double interval_ms, double exponent, int64_t ceiling_ms)
{
	double grown = exponent > 1 ? interval_ms * exponent : interval_ms;

	return grown < (double)ceiling_ms ? grown : (double)ceiling_ms;
}

int64_t backoff_round_ms(double interval_ms, int64_t ceiling_ms)
{
	/* Not through the double: the largest ceiling is no double. */
	int64_t ms = interval_ms < (double)ceiling_ms ? (int64_t)interval_ms : ceiling_ms;

	return ms > 0 ? ms : 1;
}

/* The settings may have changed since the interval was set (and before the first use it is 0). */
static double within_bounds(const struct deferred_backoff *b, double interval_ms)
{
	double floor_ms = (double)b->interval_floor_ms;

	if (!(interval_ms > floor_ms))
		interval_ms = floor_ms;
	return interval_ms < (double)b->interval_ceiling_ms ? interval_ms : (double)b->interval_ceiling_ms;
}

int64_t deferred_backoff_empty(struct deferred_backoff *b)
{
	double interval_ms = within_bounds(b, b->interval_ms);

	b->interval_ms = backoff_grow(interval_ms, b->exponent, b->interval_ceiling_ms);
	return backoff_round_ms(interval_ms, b->interval_ceiling_ms);
}

void deferred_backoff_hit(struct deferred_backoff *b)
{
	if (b->gradual_decrease && b->exponent > 1)
		b->interval_ms = within_bounds(b, within_bounds(b, b->interval_ms) / b->exponent);
	else
		b->interval_ms = within_bounds(b, 0);
}

int deferred_backoff_check(const struct deferred_backoff *b, struct deferred_error *err)
{
	static const char where[] = "deferred_backoff_check";
	int rc;

	error_clear(err);
	if (!b)
		return error_set(err, DEFERRED_EINVAL, where,
				 "the settings are missing\npass a struct deferred_backoff");
	if (b->interval_floor_ms <= 0) {
		rc = error_set(err, DEFERRED_EINVAL, where,
			       "interval_floor is %" PRId64 " ms: an idle loop would never sleep",
			       b->interval_floor_ms);
		error_hint(err, "set interval_floor to 1 ms or more; 1 s is the default");
	} else if (b->interval_ceiling_ms < b->interval_floor_ms) {
		rc = error_set(err, DEFERRED_EINVAL, where,
			       "interval_ceiling is %" PRId64 " ms: less than interval_floor, %" PRId64 " ms",
			       b->interval_ceiling_ms, b->interval_floor_ms);
		error_hint(err, "raise interval_ceiling or lower interval_floor");
	} else if (!isfinite(b->exponent) || b->exponent < 1) {
		rc = error_set(err, DEFERRED_EINVAL, where, "exponent is %g: intervals would not grow", b->exponent);
		error_hint(err, "set exponent to a number from 1 (always the floor) up; 2 is the default");
	} else {
		rc = 0;
	}
	return rc;
}
