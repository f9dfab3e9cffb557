/* SPDX-License-Identifier: MIT */
/*
 * store_alert - finds problems and reports them. sql/functions/alert/__alert.sql decides which problems there are, and
 * that each is reported once.
 */
#ifndef STORE_ALERT_H
#define STORE_ALERT_H

#include "base/error.h"
#include "port/config.h"
#include "port/pg.h"
#include "rows/alert.h"

#include <stdbool.h>

/* The settings alert.* and breaker.* in the form of that function. The caller frees *json; NULL: there are no alerts
 * and no breaker. print: the caller prints the alerts. */
int store_alert_settings(const struct config *config, bool print, char **json, struct deferred_error *err);

/* An alert that was just reported; texts are borrowed for the call. note: why one of the channels was not used,
 * otherwise "". */
struct store_alert {
	const char *cause, *name, *text, *remedy, *note;
};
typedef void store_alert_fn(void *data, const struct store_alert *alert);

/* Find what is wrong, and have it told by jobs; where somebody looked within a minute, nothing. By a worker, between
 * its cycles. Source: alert.sql. */
int store_alert(struct pg *pg, const char *settings, store_alert_fn *told, void *data, struct deferred_error *err);

/*
 * n attempts of a function crashed, and are recorded. *paused: the breaker has paused the function. told() is called
 * when this call paused it. Source: crashed.sql.
 */
int store_crashed(struct pg *pg, const char *fn, int64_t n, const struct config *config, store_alert_fn *told,
		  void *data, bool *paused, struct deferred_error *err);

/* Defer the function of --on-dead for jobs that died. At most this many transactions of 1,000 deaths each; the rest
 * waits for the next call. */
#define STORE_NOTICE_STEPS 20
int store_notice(struct pg *pg, struct deferred_error *err);

#endif
