/* SPDX-License-Identifier: MIT */
/*
 * store_schedule - the statements about schedules. One function a file of sql/queries, of that name, which says what
 * the rows of *res are.
 * *res is given.
 */
#ifndef STORE_SCHEDULE_H
#define STORE_SCHEDULE_H

#include "base/advice/crontab.h"
#include "port/pg.h"
#include "rows/schedule.h"

#include <stdbool.h>

/* Refuses a setting 'timezone' that the server does not know. */
int store_zone_check(struct pg *pg, const char *zone, struct deferred_error *err);

int store_schedule_backfill(struct pg *pg, const char *name, const char *from, const char *to, bool dry, int64_t *ticks,
			    struct deferred_error *err);

/* When a line of a crontab starts. Source: crontab.sql. */
int store_crontab(struct pg *pg, const char *rule, struct crontab_when *when, struct deferred_error *err);

/* One schedule. *job: what STORE_SCHEDULE_RUN deferred; 0: nothing. sqlstate P0002: there is no such schedule. */
enum store_schedule_what { STORE_SCHEDULE_PAUSE, STORE_SCHEDULE_RESUME, STORE_SCHEDULE_RUN, STORE_SCHEDULE_REMOVE };
int store_schedule_do(struct pg *pg, enum store_schedule_what what, const char *name, int64_t *job,
		      struct deferred_error *err);

/* All schedules of a file; dry: nothing is changed. schedules: a JSON array. */
int store_schedule_sync(struct pg *pg, const char *source, const char *schedules, bool prune, bool dry,
			struct pg_result **res, struct deferred_error *err);

#endif
