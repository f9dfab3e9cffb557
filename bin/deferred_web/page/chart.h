/* SPDX-License-Identifier: MIT */
/* chart - attempts, their wait times and their run times, as SVG with a table of the values. */
#ifndef CHART_H
#define CHART_H

#include "page.h"

#include <stdbool.h>

/* Is the value `range` of the query one that a chart can have? False: no, and the request was refused. */
bool chart_is_asked(struct web_request *r);

/* Of one queue, or of one function; both NULL: of all. */
int chart_figures(struct web_request *r, const char *queue, const char *fn, struct deferred_error *err);

#endif
