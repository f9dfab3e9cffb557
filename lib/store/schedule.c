/* SPDX-License-Identifier: MIT */
#include "store/schedule.h"

#include "rows/schedule.h"
#include "store/admin.h"

#include <string.h>

int store_crontab(struct pg *pg, const char *rule, struct crontab_when *when, struct deferred_error *err)
{
	struct crontab_row r;
	int rc = crontab_one(pg, rule, &r, err);

	if (rc == 0)
		*when = (struct crontab_when){ r.minutes, r.hours, r.days, r.months, r.weekdays, r.both_days };
	return rc;
}

int store_zone_check(struct pg *pg, const char *zone, struct deferred_error *err)
{
	int rc = strcmp(zone, "UTC") == 0 ? 0 : zone_known_exec(pg, zone, err);

	if (rc == 0 || strncmp(err->sqlstate, "22", 2) != 0)
		return rc;
	error_clear(err);
	error_set(err, DEFERRED_ECONFIG, "config", "setting 'timezone': time zone '%.100s' is unknown", zone);
	error_hint(err, "use a name from the view pg_timezone_names, such as Europe/Berlin");
	return DEFERRED_ECONFIG;
}

int store_schedule_backfill(struct pg *pg, const char *name, const char *from, const char *to, bool dry, int64_t *ticks,
			    struct deferred_error *err)
{
	struct admin_schedule_backfill_row r;
	int rc = admin_schedule_backfill_one(pg, name, from, to, dry ? "true" : "false", &r, err);

	if (rc == 0)
		*ticks = r.jobs;
	return rc;
}

int store_schedule_do(struct pg *pg, enum store_schedule_what what, const char *name, int64_t *job,
		      struct deferred_error *err)
{
	const char *user = store_admin_user();
	struct admin_schedule_run_row run;
	int rc;

	*job = 0;
	switch (what) {
	case STORE_SCHEDULE_PAUSE:
		return admin_schedule_pause_one(pg, name, user, &(struct admin_schedule_pause_row){ 0 }, err);
	case STORE_SCHEDULE_RESUME:
		return admin_schedule_resume_one(pg, name, user, &(struct admin_schedule_resume_row){ 0 }, err);
	case STORE_SCHEDULE_REMOVE:
		return schedule_remove_exec(pg, name, user, err);
	default:
		rc = admin_schedule_run_one(pg, name, user, &run, err);
		*job = run.job;
		return rc;
	}
}

int store_schedule_sync(struct pg *pg, const char *source, const char *schedules, bool prune, bool dry,
			struct pg_result **res, struct deferred_error *err)
{
	int rc = pg_begin(pg, "", err);

	*res = NULL;
	if (rc < 0)
		return rc;
	rc = schedule_sync_exec(pg, source, schedules, prune ? "true" : "false", res, err);
	if (rc < 0 || dry)
		pg_command(pg, "rollback", NULL);
	else
		rc = pg_command(pg, "commit", err);
	return rc;
}
