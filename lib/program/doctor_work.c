/* SPDX-License-Identifier: MIT */
/* Functions that jobs wait for, and whether anybody runs them. */
#include "program/doctor.h"

#include "base/text/plural.h"
#include "base/span.h"
#include "rows/doctor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_LOOKED_AT 10000
#define LOG_PAGES 2000 /* 16 MB */

static int ask_functions(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return doctor_functions_exec(pg, JOBS_LOOKED_AT, res, err);
}

static int ask_superseded(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return doctor_superseded_exec(pg, LOG_PAGES, res, err);
}

static int doctor_work_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool doctor_work_is_here(const struct doctor *d, const char *fn)
{
	return d->functions_len > 0 && bsearch(&fn, d->functions, d->functions_len, sizeof(fn), doctor_work_by_name);
}

/* ---- functions that jobs wait for --------------------------------------------------------------------- */

#define UNSEEN_S 86400 /* a host that has not spoken for so long may be gone, */
#define WAITING_S 3600 /* where jobs wait for so long */

void doctor_functions(struct doctor *d)
{
	struct pg_result *res = NULL;
	char age[SPAN_AGE_SIZE], seen[SPAN_AGE_SIZE];

	if (!doctor_ask(d, ask_functions, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_functions_row r = doctor_functions_row(res, i);
		const char *fn = r.fn;

		if (doctor_work_is_here(d, fn))
			continue;
		if (!r.has_offered_s) {
			doctor_fail(d, "%" PRId64 " job%s, the first deferred %s ago, for function '%s', which %s",
				    r.jobs, plural(r.jobs), span_age(age, r.oldest_s), fn,
				    r.any_offers ? "no worker offers"
				    : d->knows_functions
					    ? "is not on this host, and no worker has stored yet what it offers"
					    : "is unknown: no worker has stored yet what it offers");
			doctor_why(d, "the name is misspelt, or its plugin is not installed on any host");
			doctor_do(d, "install the plugin, or cancel them: deferred ls --fn %s; deferred cancel --fn %s",
				  fn, fn);
		} else if (r.offered_s > UNSEEN_S && r.oldest_s > WAITING_S) {
			doctor_warn(d, "%" PRId64 " job%s for function '%s', which %s offered last, %s ago", r.jobs,
				    plural(r.jobs), fn, r.host, span_age(seen, r.offered_s));
			doctor_why(d, "that host may be gone, or no longer runs check_deferred");
			doctor_do(d, "look at the log of check_deferred there, or install the plugin on another host");
		}
	}
	pg_result_free(res);
}

/* ---- and whether anybody runs them ---------------------------------------------------------------------- */

#define UNSERVED_S 900 /* cron lines that start less often are few */

void doctor_workers(struct doctor *d)
{
	struct doctor_workers_row r;
	char age[SPAN_AGE_SIZE], seen[SPAN_AGE_SIZE];
	struct pg_result *res = NULL;

	if (!doctor_ask(d, doctor_workers_exec, &res))
		return;
	/* A run says that it lives when it begins and ends; in between it holds jobs. */
	r = doctor_workers_row(res, 0);
	if (r.ready_s > UNSERVED_S && (!r.has_seen_s || r.seen_s > UNSERVED_S) && !r.busy) {
		doctor_fail(d, "%" PRId64 "%s job%s ready, the first for %s, and no worker was %s%s", r.ready,
			    r.ready == 1000 ? " or more" : "", r.ready == 1 ? " is" : "s are", span_age(age, r.ready_s),
			    !r.has_seen_s ? "ever seen" : "seen for ", !r.has_seen_s ? "" : span_age(seen, r.seen_s));
		doctor_why(d, "check_deferred is not started for their queues, or ends before it claims a job");
		doctor_do(d, "run check_deferred by hand as the user of the crontab line; then look at the line or "
			     "unit, and its log");
	}
	pg_result_free(res);
}

/* ---- cron's line --------------------------------------------------------------------------------------- */

const char doctor_skip[] = "add --if-running=skip to the line, or have it start less often, or set a timeout below "
			   "that; or run it as a service";

static void shared_pidfiles(struct doctor *d)
{
	struct pg_result *res = NULL;

	if (!doctor_ask(d, doctor_pidfiles_exec, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_pidfiles_row r = doctor_pidfiles_row(res, i);

		doctor_fail(d, "pidfile %s is used by %" PRId64 " lines with different options", r.instance, r.kinds);
		doctor_why(d, "a start terminates the copy that has its pidfile: these lines terminate "
			      "each other");
		doctor_do(d, "give each line a --pidfile of its own");
	}
	pg_result_free(res);
}

void doctor_superseded(struct doctor *d)
{
	struct pg_result *res = NULL;
	char age[SPAN_AGE_SIZE];

	shared_pidfiles(d);
	if (!doctor_ask(d, ask_superseded, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_superseded_row r = doctor_superseded_row(res, i);

		doctor_warn(d, "the next start terminated %" PRId64 " attempt%s of %s in the last day%s%s%s%s",
			    r.cut_off, plural(r.cut_off), r.fn, !r.has_gap_s ? "" : ", every ",
			    !r.has_gap_s ? "" : span_age(age, r.gap_s), r.instance[0] ? ", with pidfile " : "",
			    r.instance);
		doctor_why(d, "a start terminates the copy before it, and the interrupted job starts again; "
			      "a job that takes longer than the interval never ends");
		doctor_do(d, "%s", doctor_skip);
	}
	pg_result_free(res);
}
