/* SPDX-License-Identifier: MIT */
/*
 * worker_tell - what is wrong is told, and functions that crash are paused: looked for after housekeeping and at the end of a run that folded, once a minute
 * among all workers. By the sums that were folded, so it costs a job nothing; that nothing is told twice, or lost, is the server's matter. Told
 * are people: by jobs of the queue alert.queue, and by a line of our log.
 */
#include "base/log.h"
#include "engine/state.h"
#include "store/alert.h"

#include <stdlib.h>

void worker_tell_set_up(struct worker *w)
{
	struct deferred_error err = { 0 };

	free(w->tell.settings);
	if (store_alert_settings(w->config, false, &w->tell.settings, &err) < 0)
		log_line(LOG_L_WARNING, "nothing will be told: %s", err.message);
}

void worker_tell_clear(struct worker *w)
{
	free(w->tell.settings);
	w->tell.settings = NULL;
}

static void log_alert(void *data, const struct store_alert *a)
{
	(void)data;
	log_line(LOG_L_WARNING, "alert: %s; %s%s%s", a->text, a->mend, a->note[0] ? "; " : "", a->note);
}

void worker_tell(struct worker *w, uint64_t now)
{
	struct deferred_error err = { 0 };

	if (!w->tell.due)
		return;
	w->tell.due = false;
	if (store_notice(w->pg, &err) < 0 && !pg_broken(w->pg)) {
		log_line(LOG_L_WARNING, "what is to be deferred for dead jobs is not, next try after housekeeping: %s", err.message);
		error_clear(&err);
	}
	if (!pg_broken(w->pg) && w->tell.settings && store_alert(w->pg, w->tell.settings, log_alert, NULL, &err) < 0 && !pg_broken(w->pg))
		log_line(LOG_L_WARNING, "what is wrong is not told, next try after housekeeping: %s", err.message);
	if (pg_broken(w->pg))
		worker_lose_connection(w, &err, now);
}

void worker_notice_at_end(struct worker *w)
{
	struct deferred_error err = { 0 };

	if (store_notice(w->pg, &err) < 0)
		log_line(LOG_L_WARNING, "what is to be deferred for dead jobs is not, the next run does it: %s", err.message);
}

void worker_tell_at_end(struct worker *w)
{
	struct deferred_error err = { 0 };

	if (w->tell.settings && store_alert(w->pg, w->tell.settings, log_alert, NULL, &err) < 0)
		log_line(LOG_L_WARNING, "what is wrong is not told: %s", err.message);
}
