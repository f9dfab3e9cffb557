/* SPDX-License-Identifier: MIT */
/*
 * metrics - figures as Prometheus reads them (exposition.h).
 *
 * Each counter is a sum since ever, so it outlives restarts, and what it costs to ask does not grow with what lies in
 * the log. Labels are queue, fn, outcome, state, build and version, never what a producer writes freely. Of queues the
 * first METRICS_QUEUES that ever had something are told one by one, of functions METRICS_FUNCTIONS, of pairs of them
 * METRICS_PAIRS; the others are summed as "other". The first, for the busiest would change places, and a counter that
 * does is taken for one that began anew. Builds are told of functions that ran in more than one within two days,
 * METRICS_BUILDS in all.
 */
#ifndef METRICS_H
#define METRICS_H

#include "base/error.h"
#include "port/pg.h"

#define METRICS_QUEUES 100
#define METRICS_FUNCTIONS 200
#define METRICS_PAIRS 500
#define METRICS_BUILDS 400

/*
 * All metrics, as text and as OpenMetrics, from one reading: each given, free(); NULL: that form is not wanted. No
 * transaction may be open. Folds first, for at most STORE_FOLD_READ_MS; a server that takes no changes tells what was
 * folded before. Takes the rights of deferred_viewer.
 */
int metrics_text(struct pg *pg, char **text, char **open, struct deferred_error *err);

#endif
