/* SPDX-License-Identifier: MIT */
/* The checks in the order of their report. */
#include "program/doctor.h"

const struct doctor_check doctor_checks[] = {
	{ "config", NULL, DOCTOR_NOTHING },
	{ "connection", NULL, DOCTOR_SETTINGS },
	{ "schema", doctor_schema, DOCTOR_SERVER },
	{ "role", doctor_rights, DOCTOR_SCHEMA },
	{ "clocks", doctor_clocks, DOCTOR_SCHEMA },
	{ "user", NULL, DOCTOR_SETTINGS },
	{ "pidfile", NULL, DOCTOR_SETTINGS },
	{ "spool", NULL, DOCTOR_SETTINGS },
	{ "plugins", NULL, DOCTOR_SETTINGS },
	{ "functions", doctor_functions, DOCTOR_SCHEMA },
	{ "workers", doctor_workers, DOCTOR_SCHEMA },
	{ "mail", NULL, DOCTOR_SETTINGS },
	{ "interval", doctor_superseded, DOCTOR_SCHEMA },
	{ "listen", NULL, DOCTOR_SERVER },
	{ "certificates", NULL, DOCTOR_SETTINGS },
	{ "retention", doctor_retention, DOCTOR_SCHEMA },
	{ "partitions", doctor_partitions, DOCTOR_SCHEMA },
	{ "indexes", doctor_indexes, DOCTOR_SCHEMA },
	{ "snapshots", doctor_snapshots, DOCTOR_SERVER },
	{ "slots", doctor_slots, DOCTOR_SERVER },
	{ "durability", doctor_durability, DOCTOR_SERVER },
	{ "builds", doctor_builds, DOCTOR_SCHEMA },
	{ "alerts", doctor_alerts, DOCTOR_SCHEMA },
	{ "schedules", doctor_schedules, DOCTOR_SCHEMA },
	{ "tokens", doctor_tokens, DOCTOR_SCHEMA },
	{ 0 },
};
