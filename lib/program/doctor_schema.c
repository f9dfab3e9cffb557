/* SPDX-License-Identifier: MIT */
#include "program/doctor.h"

#include "rows/doctor.h"
#include "store/migrate.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <string.h>

struct due {
	int steps, sources;
	const char *first;
};

static void on_due(void *data, const struct migrate_item *item)
{
	struct due *due = data;

	if (item->version)
		due->steps++;
	else if (due->sources++ == 0)
		due->first = item->name;
}

void doctor_schema(struct doctor *d)
{
	struct deferred_error err = { 0 };
	struct due due = { 0 };
	int version, rc = migrate_version(d->pg, &version, &err);

	if (rc == 0)
		rc = migrate_plan(d->pg, on_due, &due, &err);
	if (rc < 0 && rc != DEFERRED_ESCHEMA) {
		d->usable = true; /* each later check finds out for itself */
		doctor_answered(d, rc, &err);
		return;
	}
	if (rc < 0) {
		doctor_fail(d, "%s", err.message);
		doctor_why(d, "the programs here work with version %s of the schema", migrate_versions());
		doctor_do(d, "%s", err.hint[0] ? err.hint : "deferred migrate");
		return;
	}
	d->usable = version > 0 && due.steps == 0;
	if (version == 0)
		doctor_fail(d, "the database has no schema 'deferred'");
	else if (due.steps > 0)
		doctor_fail(d, "the schema has version %d, this program brings version %d", version,
			    MIGRATE_VERSION_MAX);
	else if (due.sources > 0)
		doctor_warn(d, "%d function%s or view%s in the database %s not of this program, such as %s",
			    due.sources, plural(due.sources), plural(due.sources), due.sources == 1 ? "is" : "are",
			    due.first);
	else
		return;
	doctor_why(d, "tables or functions that the programs need may be missing");
	doctor_do(d, "deferred migrate");
}

void doctor_rights_told(struct doctor *d, const struct pg_result *res)
{
	struct doctor_role_row r;

	r = doctor_role_row(res, 0);
	if (!r.worker_lacks[0])
		return;
	doctor_fail(d, "deferred_worker lacks rights that the schema gave it");
	doctor_why(d, "each claim or record that needs them is refused");
	doctor_do(d, "%s", r.worker_lacks);
}

void doctor_rights(struct doctor *d)
{
	struct pg_result *res = NULL;

	if (!doctor_ask(d, doctor_role_exec, &res))
		return;
	doctor_rights_told(d, res);
	pg_result_free(res);
}

void doctor_indexes(struct doctor *d)
{
	struct pg_result *res = NULL;

	if (!doctor_ask(d, doctor_indexes_exec, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_indexes_row r = doctor_indexes_row(res, i);

		if (r.repair) {
			doctor_warn(d, "index %s, for searches, was not completed", r.index);
			doctor_why(d, "each defer may pay for it, and no search uses it");
			doctor_do(d, "%s", r.repair);
			continue;
		}
		doctor_fail(d, "index %s of %s is not valid", r.index, r.table);
		doctor_why(d, "the server does not use it: searches read the whole table, and what it keeps "
			      "unique need not be");
		doctor_do(
			d,
			r.partial
				? "create index on the partition that lacks it, and alter index %s attach partition it"
				: "reindex index concurrently %s",
			r.index);
	}
	pg_result_free(res);
}

#define PARTITIONS_MANY 200

static const char remedy[] = "select deferred.maintain(), which every run with work calls at its end: see the log of "
			     "check_deferred for why it does not";

static void check_partition(struct doctor *d, bool there, bool soon, const char *table, const char *what)
{
	if (there)
		return;
	(soon ? doctor_fail : doctor_warn)(d, "%s has no partition for %s", table, what);
	doctor_why(d, "rows without a partition go to the default partition, which is not purged and "
		      "slows every search for a job");
	doctor_do(d, "%s", remedy);
}

void doctor_partitions(struct doctor *d)
{
	struct doctor_partitions_row r;
	struct pg_result *res = NULL;

	if (!doctor_ask(d, doctor_partitions_exec, &res))
		return;
	r = doctor_partitions_row(res, 0);
	check_partition(d, r.log_now, true, "__deferred_log", "this week");
	check_partition(d, r.log_next, false, "__deferred_log", "the week after the next");
	check_partition(d, r.jobs_now, true, "__deferred", "the next job");
	check_partition(d, r.jobs_next, false, "__deferred", "2,500,000 jobs on");
	if (r.net_rows > 0) {
		doctor_warn(d, "%" PRId64 " row%s in the default partitions", r.net_rows, plural(r.net_rows));
		doctor_why(d, "they are not purged, and slow every search for a job");
		doctor_do(d, "%s", remedy);
	}
	if (r.partitions > PARTITIONS_MANY) {
		doctor_warn(d, "__deferred has %" PRId64 " partitions", r.partitions);
		doctor_why(d, "each session opens all of them when it looks a job up by its id, so starts and claims "
			      "get slower");
		doctor_do(d, "deferred purge, with shorter --older-than and --dead-older-than");
	}
	if (r.set_aside) {
		doctor_warn(d, "deferred.%s was set aside and is not archived", r.set_aside);
		doctor_why(d, "deferred purge --archive has not ended: its command failed, or it still runs");
		doctor_do(d, "run again, and read what it prints: deferred purge --older-than SPAN --archive COMMAND");
	}
	pg_result_free(res);
}

#define OLD_DAYS 90              /* history that nobody purges is reported from that age on, */
#define LARGE_BYTES (10LL << 30) /* or from that size on */
#define PURGED_DAYS 35           /* a purge once a month is in time */

void doctor_retention(struct doctor *d)
{
	struct doctor_retention_row r;
	struct pg_result *res = NULL;
	int64_t bytes, daily, oldest, keep;
	bool never, old;

	if (!doctor_ask(d, doctor_retention_exec, &res))
		return;
	r = doctor_retention_row(res, 0);
	bytes = r.log_bytes;
	daily = r.day_bytes;
	oldest = r.oldest_days;
	never = !r.has_purged_days;
	keep = r.keep_days;
	old = oldest >= OLD_DAYS || bytes >= LARGE_BYTES;
	if (!never && oldest > 2 * keep + 7)
		doctor_warn(d,
			    "the log goes back %" PRId64 " days, though the last purge, %" PRId64
			    " days ago, was set to keep %" PRId64,
			    oldest, r.purged_days, keep);
	else if (old && never)
		doctor_warn(d, "the log goes back %" PRId64 " days, and was never purged", oldest);
	else if (old && r.purged_days > PURGED_DAYS)
		doctor_warn(d, "the log goes back %" PRId64 " days, and was purged %" PRId64 " days ago last", oldest,
			    r.purged_days);
	if (d->level > DOCTOR_OK) {
		doctor_why(d,
			   "it has %" PRId64 " MB, and grew by %" PRId64
			   " MB a day lately: nothing is deleted without a purge",
			   bytes >> 20, daily >> 20);
		doctor_do(d,
			  "run by cron each night, as a role with the rights of deferred_purger: deferred purge "
			  "--older-than %" PRId64 "d --dead-older-than 365d",
			  never ? 30 : keep);
	}
	pg_result_free(res);
}
