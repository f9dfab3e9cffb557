/* SPDX-License-Identifier: MIT */
/* Alerts of workers, and schedules that fail. */
#include "program/doctor.h"

#include "store/alert.h"
#include "store/schedule.h"
#include "base/span.h"
#include "rows/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TOLD_MAX 20 /* of one kind */

void doctor_alerts(struct doctor *d)
{
	struct pg_result *res = NULL;
	char age[SPAN_AGE_SIZE];

	if (!doctor_ask(d, alert_ls_exec, &res))
		return;
	for (size_t i = 0; i < pg_rows(res) && i < TOLD_MAX; i++) {
		struct alert_ls_row r = alert_ls_row(res, i);
		bool breaker = strcmp(r.cause, "breaker") == 0;

		(breaker ? doctor_fail : doctor_warn)(d, "%s, found %s ago", r.text, span_age(age, r.since_s));
		doctor_why(d, "%s",
			   breaker ? "its jobs wait; one at a time is tried, and the first that does not crash ends "
				     "the pause"
			   : !r.has_reported_s ? "a worker found it, and no alert was sent"
					       : "a worker found it and sent an alert; it is not solved yet");
		doctor_do(d, "%s", r.remedy);
	}
	if (pg_rows(res) > TOLD_MAX) {
		doctor_warn(d, "%zu more problems are not solved", pg_rows(res) - TOLD_MAX);
		doctor_why(d, "at most %d are shown here", TOLD_MAX);
		doctor_do(d, "deferred alert --list");
	}
	pg_result_free(res);
}

static int doctor_told_ask_schedules(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return schedule_trouble_exec(pg, NULL, res, err);
}

void doctor_schedules(struct doctor *d)
{
	struct pg_result *res = NULL;
	char age[SPAN_AGE_SIZE];
	size_t paused = 0;

	if (!doctor_ask(d, doctor_told_ask_schedules, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct schedule_trouble_row r = schedule_trouble_row(res, i);
		const char *name = r.name, *what = r.what;

		if (strcmp(what, "paused") == 0) {
			paused++;
		} else if (strcmp(what, "dead") == 0) {
			doctor_warn(d, "schedule %s: its last job, %" PRId64 ", is dead", name, r.job);
			doctor_why(d, "its work was not done for the tick of %s ago", span_age(age, r.since_s));
			doctor_do(d, "deferred show %" PRId64 "; after the fix: deferred retry %" PRId64, r.job, r.job);
		} else {
			doctor_fail(d, "schedule %s: its tick of %s ago could not be deferred%s%s", name,
				    span_age(age, r.since_s), !r.why ? "" : ": ", !r.why ? "" : r.why);
			doctor_why(d, "that tick has no job, and the next ones have none until the cause is gone");
			doctor_do(d,
				  "deferred schedule show %s; to make up for the lost tick: deferred schedule run %s",
				  name, name);
		}
	}
	if (paused > 0)
		doctor_note(d, "%zu paused", paused);
	pg_result_free(res);
}

void doctor_tokens(struct doctor *d)
{
	struct pg_result *res = NULL;
	char age[SPAN_AGE_SIZE];

	if (!doctor_ask(d, doctor_tokens_exec, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_tokens_row r = doctor_tokens_row(res, i);

		doctor_warn(d, r.left_s < 0 ? "token '%s' expired %s ago" : "token '%s' expires in %s", r.token,
			    span_age(age, r.left_s < 0 ? -r.left_s : r.left_s));
		doctor_why(d, "deferred_http refuses the requests of programs that use it after that");
		doctor_do(d, "deferred token rotate %s --grace 1d --expires 90d, or: deferred token rm %s", r.token,
			  r.token);
	}
	pg_result_free(res);
}
