/* SPDX-License-Identifier: MIT */
/*
 * worker_tell - reports what is wrong, and pauses functions that crash. Alerts are looked for after
 * housekeeping and at the end of a run that folded, once a minute among all workers. They come from
 * the folded sums, so a job pays nothing. The server sees to it that no alert is lost or sent twice.
 * An alert becomes jobs of the queue alert.queue, and a line of our log. The breaker also counts each
 * crash once it is recorded, before the next jobs begin.
 */
#include "base/log.h"
#include "engine/state.h"
#include "store/alert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void worker_tell_set_up(struct worker *w)
{
	struct deferred_error err = { 0 };

	free(w->tell.settings);
	if (store_alert_settings(w->config, false, &w->tell.settings, &err) < 0)
		log_line(LOG_L_WARNING, "alerts are off: %s", err.message);
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
		log_line(LOG_L_WARNING, "what is to be deferred for dead jobs is not, next try after housekeeping: %s",
			 err.message);
		error_clear(&err);
	}
	if (!pg_broken(w->pg) && w->tell.settings && store_alert(w->pg, w->tell.settings, log_alert, NULL, &err) < 0 &&
	    !pg_broken(w->pg))
		log_line(LOG_L_WARNING, "what is wrong is not told, next try after housekeeping: %s", err.message);
	if (pg_broken(w->pg))
		worker_lose_connection(w, &err, now);
}

void worker_note_crash(struct worker *w, const char *fn)
{
	size_t i = 0;

	while (i < w->tell.crashed_len && strcmp(w->tell.crashed[i].fn, fn) != 0)
		i++;
	if (i == CRASHED_MAX || config_int(w->config, "breaker.crashes") == 0)
		return;
	if (i == w->tell.crashed_len) {
		snprintf(w->tell.crashed[i].fn, sizeof(w->tell.crashed[i].fn), "%s", fn);
		w->tell.crashed[i].n = 0;
		w->tell.crashed_len++;
	}
	w->tell.crashed[i].n++;
}

void worker_ask_breaker(struct worker *w, uint64_t now)
{
	struct deferred_error err = { 0 };

	while (w->tell.crashed_len > 0) {
		size_t i = --w->tell.crashed_len;
		bool paused;

		if (store_crashed(w->pg, w->tell.crashed[i].fn, w->tell.crashed[i].n, w->config, log_alert, NULL,
				  &paused, &err) == 0) {
			if (paused)
				worker_give_back_unstarted(w, w->tell.crashed[i].fn);
		} else if (pg_broken(w->pg)) {
			worker_lose_connection(w, &err, now);
			return;
		} else {
			log_line(LOG_L_WARNING, "function %s: its crashes are not counted: %s", w->tell.crashed[i].fn,
				 err.message);
			error_clear(&err);
		}
	}
}

void worker_notice_at_end(struct worker *w)
{
	struct deferred_error err = { 0 };

	if (store_notice(w->pg, &err) < 0)
		log_line(LOG_L_WARNING, "what is to be deferred for dead jobs is not, the next run does it: %s",
			 err.message);
}

void worker_tell_at_end(struct worker *w)
{
	struct deferred_error err = { 0 };

	if (w->tell.settings && store_alert(w->pg, w->tell.settings, log_alert, NULL, &err) < 0)
		log_line(LOG_L_WARNING, "what is wrong is not told: %s", err.message);
}
