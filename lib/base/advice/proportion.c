/* SPDX-License-Identifier: MIT */
#include "proportion.h"

#include <math.h>

#define Z 1.96 /* deviations that leave out 5 of 100 */

/* The interval of Wilson: unlike that of the deviation it holds where nearly nothing, or nearly all, is counted, as of
 * crashes it is. */
static void share_within(struct proportion p, double *share, double *low, double *high)
{
	double of = (double)p.of, n = (double)p.n, middle = (n + Z * Z / 2) / (of + Z * Z);
	double off = Z * sqrt(n * (of - n) / of + Z * Z / 4) / (of + Z * Z);

	*share = n / of;
	*low = middle - off;
	*high = middle + off;
}

/* Two of them are put together as Newcombe does (his method 10). */
bool proportion_difference(struct proportion now, struct proportion before, struct proportion_difference *difference)
{
	double share[2], low[2], high[2];

	if (now.of < PROPORTION_LEAST || before.of < PROPORTION_LEAST)
		return false;
	share_within(now, &share[0], &low[0], &high[0]);
	share_within(before, &share[1], &low[1], &high[1]);
	difference->more = share[0] - share[1];
	difference->low = difference->more - hypot(share[0] - low[0], high[1] - share[1]);
	difference->high = difference->more + hypot(high[0] - share[0], share[1] - low[1]);
	return true;
}
