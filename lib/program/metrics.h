/* SPDX-License-Identifier: MIT */
/*
 * metrics - figures as Prometheus reads them (exposition.h).
 *
 * Each counter is a sum over all time, so it survives restarts. Its cost does not grow with the log. Labels are queue,
 * fn, outcome, state, build and version, never free text of a producer. The first METRICS_QUEUES queues ever used have
 * lines of their own, and so have METRICS_FUNCTIONS functions and METRICS_PAIRS pairs. The others are summed as
 * "other". The busiest would change over time, and a counter that disappears looks like a restart. Builds are listed
 * for functions that ran in more than one within two days, METRICS_BUILDS in all.
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
