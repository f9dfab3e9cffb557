/* SPDX-License-Identifier: MIT */
#include "program/doctor.h"

#include "store/admin.h"
#include "rows/doctor.h"
#include "base/span.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

#define CLOCK_WARN_US 1000000
#define CLOCK_FAIL_US 30000000

void doctor_clocks(struct doctor *d)
{
	struct doctor_clock_row r;
	struct pg_result *res = NULL;
	int64_t before = now_us(), after, off, behind;

	if (!doctor_ask(d, doctor_clock_exec, &res))
		return;
	after = now_us();
	/* It was read somewhere in between. */
	r = doctor_clock_row(res, 0);
	off = r.now_us > after ? r.now_us - after : r.now_us < before ? r.now_us - before : 0;
	if (llabs(off) >= CLOCK_WARN_US) {
		(llabs(off) >= CLOCK_FAIL_US ? doctor_fail : doctor_warn)(d, "this host is %.1f s %s the database",
									  (double)llabs(off) / 1e6,
									  off > 0 ? "behind" : "ahead of");
		doctor_why(d, "jobs are due by the clock of the database, and cron starts by that of this "
			      "host; times in logs do not agree");
		doctor_do(d, "let both hosts follow the same time servers: chronyc tracking, timedatectl set-ntp true");
	}
	/* It was put back, or the jobs were deferred where another one was ahead. */
	behind = r.behind_us;
	if (behind >= CLOCK_WARN_US) {
		(behind >= CLOCK_FAIL_US ? doctor_fail : doctor_warn)(
			d, "the clock of the database is %.1f s behind the time at which jobs were deferred",
			(double)behind / 1e6);
		doctor_why(d, "delayed jobs, retries, and leases of dead workers last longer by that time");
		doctor_do(
			d,
			"set the server's clock; jobs that are due too late then run at once with `deferred retry ID`");
	}
	pg_result_free(res);
}

#define SNAPSHOT_WARN_S 300
#define SNAPSHOT_FAIL_S 3600

void doctor_snapshots(struct doctor *d)
{
	struct pg_result *res = NULL, *hidden = NULL;
	char age[SPAN_AGE_SIZE];

	/* Those may be the ones; that is no finding, for a role that runs jobs need not see them. */
	if (!doctor_ask(d, doctor_hidden_exec, &hidden))
		return;
	if (doctor_hidden_row(hidden, 0).hidden)
		doctor_note(d, "other sessions are not visible: grant pg_read_all_stats to %s", doctor_user_name(d));
	pg_result_free(hidden);
	if (!doctor_ask(d, doctor_snapshots_exec, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_snapshots_row r = doctor_snapshots_row(res, i);

		if (r.age_s < SNAPSHOT_WARN_S)
			break;
		(r.age_s >= SNAPSHOT_FAIL_S ? doctor_fail : doctor_warn)(d, "%s: in a transaction for %s", r.who,
									 span_age(age, r.age_s));
		doctor_why(d, "rows of jobs that have ended since cannot be removed, so tables grow and "
			      "finding jobs gets slower");
		doctor_do(d, "%s", r.ends);
	}
	pg_result_free(res);
}

#define SLOT_WARN_BYTES (1LL << 30)
#define SLOT_FAIL_BYTES (10LL << 30)

void doctor_slots(struct doctor *d)
{
	struct pg_result *res = NULL;

	if (!doctor_ask(d, doctor_slots_exec, &res))
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct doctor_slots_row r = doctor_slots_row(res, i);
		int64_t kept = r.kept;
		bool fails = kept >= SLOT_FAIL_BYTES || (r.has_share && r.share >= 0.5);

		if (!fails && kept < SLOT_WARN_BYTES && !r.keeps_rows)
			continue;
		(fails ? doctor_fail
		       : doctor_warn)(d, "nobody reads from replication slot %s, which keeps %" PRId64 " MB of WAL%s",
				      r.slot, kept >> 20, r.keeps_rows ? ", and dead rows" : "");
		doctor_why(d, "the WAL that it keeps grows until the disk is full, and the server then stops");
		doctor_do(d,
			  "start the standby that reads from it; if there is none any more: select "
			  "pg_drop_replication_slot('%s')",
			  r.slot);
	}
	pg_result_free(res);
}

void doctor_durability(struct doctor *d)
{
	struct admin_durability_row r;
	struct pg_result *res = NULL;
	const char *class, *told;

	if (!doctor_ask(d, admin_durability_exec, &res))
		return;
	r = admin_durability_row(res, 0);
	class = r.class;
	told = r.sentence;
	if (strcmp(class, "waiting") == 0) {
		doctor_fail(d, "%s", told);
		doctor_why(d,
			   "applications that defer jobs wait until a standby is there, and so do workers that record "
			   "results");
		doctor_do(d, "start the standby, or let the primary continue alone: alter system set "
			     "synchronous_standby_names = ''; select pg_reload_conf()");
	} else if (strcmp(class, "none") == 0) {
		doctor_warn(d, "%s", told);
		doctor_why(d, "after a loss of power jobs may be missing, and the server may not start again");
		doctor_do(d, "alter system set fsync = on; select pg_reload_conf()");
	} else if (strcmp(class, "delayed") == 0) {
		doctor_warn(d, "%s", told);
		doctor_why(d, "jobs that the application counts as stored are lost, and jobs that ran in that second "
			      "run again");
		doctor_do(d, "alter role ... reset synchronous_commit, or take it out of postgresql.conf");
	} else {
		doctor_note(d, "%s", told);
	}
	pg_result_free(res);
}
