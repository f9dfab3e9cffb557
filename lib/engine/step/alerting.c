/* SPDX-License-Identifier: MIT */
/*
 * Alerts are looked for after housekeeping and at the end of a run that folded, once a minute among all workers. They
 * come from the folded sums, so a job pays nothing. The server ensures that no alert is lost or sent twice. An alert
 * becomes jobs of the queue alert.queue, and a line of our log. The breaker also counts each crash once it is recorded,
 * before the next jobs begin.
 */
#include "engine/step/alerting.h"

#include "base/log.h"
#include "store/alert.h"

#include <stdlib.h>

void alerting_set_up(struct alerting *a, const struct config *config)
{
	struct deferred_error err = { 0 };

	free(a->settings);
	if (store_alert_settings(config, false, &a->settings, &err) < 0)
		log_error(LOG_L_WARNING, &err, "alerts are off");
}

void alerting_clear(struct alerting *a)
{
	free(a->settings);
	a->settings = NULL;
}

static void log_alert(void *data, const struct store_alert *a)
{
	(void)data;
	log_line(LOG_L_WARNING, "alert: %s; %s%s%s", a->text, a->remedy, a->note[0] ? "; " : "", a->note);
}

/* Logs that a step between cycles failed, unless the connection is lost. */
static int log_failure(const struct pg *pg, const char *what, struct deferred_error *err)
{
	if (pg_broken(pg))
		return DEFERRED_ELOST;
	log_error(LOG_L_WARNING, err, "%s", what);
	error_clear(err);
	return 0;
}

void alerting_set_due(struct alerting *a)
{
	a->due = true;
}

int alerting_run(struct alerting *a, struct pg *pg, struct deferred_error *err)
{
	int rc = 0;

	if (!a->due)
		return 0;
	a->due = false;
	if (store_notice(pg, err) < 0)
		rc = log_failure(
			pg, "on_dead: calls for dead jobs could not be deferred, trying again after housekeeping", err);
	if (rc == 0 && a->settings && store_alert(pg, a->settings, log_alert, NULL, err) < 0)
		rc = log_failure(pg, "alerts could not be sent, trying again after housekeeping", err);
	return rc;
}

int alerting_crashed(struct pg *pg, const struct config *config, const char *fn, int64_t n, struct deferred_error *err)
{
	bool paused = false;

	if (config_int(config, "breaker.crashes") == 0)
		return 0;
	if (store_crashed(pg, fn, n, config, log_alert, NULL, &paused, err) == 0)
		return paused;
	if (pg_broken(pg))
		return DEFERRED_ELOST;
	log_error(LOG_L_WARNING, err, "function '%s': its crashes could not be counted", fn);
	return 0;
}

void alerting_at_end(const struct alerting *a, struct pg *pg, bool folded)
{
	struct deferred_error err = { 0 };

	if (folded && a->settings && store_alert(pg, a->settings, log_alert, NULL, &err) < 0) {
		log_error(LOG_L_WARNING, &err, "alerts could not be sent");
		error_clear(&err);
	}
	if (store_notice(pg, &err) < 0)
		log_error(LOG_L_WARNING, &err,
			  "on_dead: calls for dead jobs could not be deferred, the next run tries again");
}
