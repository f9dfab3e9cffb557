/* SPDX-License-Identifier: MIT */
/* chart - what ended, how long it waited and how long it ran, drawn by time: as SVG, with the numbers beside it for who
 * cannot see it. */
#ifndef CHART_H
#define CHART_H

#include "page.h"

/* Of one queue, or of one function; both NULL: of all. What span is asked for stands in the query: range. */
int chart_figures(struct visit *v, const char *queue, const char *fn, struct deferred_error *err);

#endif
