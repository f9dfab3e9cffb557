/* SPDX-License-Identifier: MIT */
/* The role of the session, and its connection. */
#include "doctor_here.h"

#include "rows/doctor.h"
#include "store/schedule.h"

void doctor_role(struct doctor *d)
{
	struct doctor_role_row r;
	struct pg_result *res = NULL;

	if (!doctor_ask(d, doctor_role_exec, &res))
		return;
	r = doctor_role_row(res, 0);
	if (r.superuser) {
		doctor_warn(d, "connects as %s, a superuser", r.role);
		doctor_why(d, "an attacker with its password, or in the process, has the whole server; "
			      "workers need deferred_worker only");
		doctor_do(d,
			  "create role deferred_run login in role deferred_worker, and name it in database.conninfo");
	} else if (r.owner) {
		doctor_warn(d, "connects as %s, which has the rights of deferred_owner", r.role);
		doctor_why(d, "that role may change and drop every table; workers need deferred_worker only");
		doctor_do(d, "revoke deferred_owner from %s; grant deferred_worker to %s", r.role, r.role);
	}
	if (!r.worker) {
		doctor_fail(d, "connects as %s, which lacks the rights of deferred_worker", r.role);
		doctor_why(d, "it cannot claim jobs or record how they ended");
		if (r.viewer)
			doctor_do(d,
				  "run deferred --db 'user=ROLE' doctor with the role of the crontab line "
				  "instead of %s; to make one: create role deferred_run login in role deferred_worker",
				  r.role);
		else
			doctor_do(d, "grant deferred_worker to %s", r.role);
	}
	doctor_rights_told(d, res);
	pg_result_free(res);
}

/* doctor_schedules(), and the setting for schedules without a time zone. */
void doctor_zone(struct doctor *d)
{
	struct deferred_error err = { 0 };
	int rc;

	doctor_schedules(d);
	rc = store_zone_check(d->pg, config_text(d->host->cli->config, "timezone"), &err);
	if (rc != DEFERRED_ECONFIG) {
		doctor_answered(d, rc, &err);
		return;
	}
	doctor_fail(d, "%s", err.message);
	doctor_why(d, "no worker starts with it, and schedules that name no time zone are refused");
	doctor_do(d, "%s", err.hint);
}

void doctor_listen(struct doctor *d)
{
	struct doctor_direct_row r;
	struct pg_result *res = NULL;

	if (!config_flag(d->host->cli->config, "listen") || !doctor_ask(d, doctor_direct_exec, &res))
		return;
	r = doctor_direct_row(res, 0);
	if (r.pid != pg_server_pid(d->pg)) {
		doctor_warn(d, "setting 'listen' is on, and a pooler is between this host and the server");
		doctor_why(d, "a pooler shares sessions, so notifications do not reach a service, which "
			      "polls as without listen");
		doctor_do(d, "name the server itself in database.conninfo, or set listen = 0");
	}
	pg_result_free(res);
}
