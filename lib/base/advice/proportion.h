/* SPDX-License-Identifier: MIT */
/* proportion - how often something happened, and whether it is more than chance that it happens more often now than
 * before. */
#ifndef PROPORTION_H
#define PROPORTION_H

#include <stdbool.h>
#include <stdint.h>

struct proportion {
	int64_t of, n; /* n out of this many */
};

/* The difference of two shares, 0.01 for one in a hundred, with its 95 % confidence interval. */
struct proportion_difference {
	double more, low, high;
};

/* False: one of them is of fewer than PROPORTION_LEAST, of which nothing can be said. */
#define PROPORTION_LEAST 200
bool proportion_difference(struct proportion now, struct proportion before, struct proportion_difference *difference);

#endif
