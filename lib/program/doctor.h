/* SPDX-License-Identifier: MIT */
/*
 * doctor - the checks of an installation and their findings, for `deferred doctor` and for a page. A check reports a
 * finding with doctor_warn() or doctor_fail(), then why it matters and the remedy. A check without a finding passed.
 * doctor_run() hands on the complete findings.
 *
 *     struct doctor d = { .pg = pg, .role = "deferred_worker", .take = print };
 *     for (const struct doctor_check *c = doctor_checks; c->name; c++)
 *             if (c->run) doctor_run(&d, c, c->run);
 *     doctor_clear(&d);
 *
 *     doctor_schema.c    the schema, what workers may do in it, its tables
 *     doctor_server.c    the database server
 *     doctor_work.c      functions that jobs wait for, and whether anybody runs them
 *     doctor_builds.c    builds of plugins that run worse than those before them
 *     doctor_told.c      what workers have found wrong, and schedules
 *
 * A check is bounded: it reads in one read-only transaction, no statement of which takes longer than DOCTOR_LOOK_MS.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "base/error.h"
#include "port/pg.h"

#include <stdbool.h>
#include <stddef.h>

#define DOCTOR_LOOK_MS 1000

/* In the order of what matters more. Unknown: the check itself failed, so nothing is known of what it checks. */
enum doctor_level { DOCTOR_OK, DOCTOR_UNKNOWN, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_LEVELS };

/* In a passed check these texts are NULL. Its note says how far it could look; "": everywhere. A finding has the note
 * "". */
struct doctor_finding {
	const char *check;
	enum doctor_level level;
	const char *note, *what, *why, *remedy; /* not escaped; the last two may be NULL */
};

struct doctor_host;

struct doctor {
	/* The caller's. */
	struct pg *pg;        /* NULL: there is no connection */
	const char *role;     /* the role whose rights the checks need; a check without them asks for it */
	const char *user;     /* who that is; NULL: the login */
	int lock_ms;          /* no statement waits longer for a lock; 0: than it may take */
	bool knows_functions; /* those of this host are below */
	char **functions;     /* in the plugins here and in the config file, sorted */
	size_t functions_len;
	struct doctor_host *host; /* of checks of the host; NULL: there are none */
	void (*take)(void *data, const struct doctor_finding *finding);
	void *data;

	/* Found so far. */
	enum doctor_level level, worst; /* of the check under way, of all */
	bool usable; /* there is a schema that this program knows, or it is unknown whether there is one */

	/* Of the check under way. */
	const char *check;
	char note[256];
	bool open; /* there is a finding that is not handed on */
	enum doctor_level found;
	char *what, *why, *remedy;
};

/* The requirements of a check. */
enum doctor_needs { DOCTOR_NOTHING, DOCTOR_SETTINGS, DOCTOR_SERVER, DOCTOR_SCHEMA };

struct doctor_check {
	const char *name;
	void (*run)(struct doctor *d); /* NULL: only who is on a host that runs jobs can tell, with its settings */
	enum doctor_needs needs;
};

/* In the order to be made in: what a check needs to know is found by one before it. Ends with name NULL. */
extern const struct doctor_check doctor_checks[];

/* Do the check by run, and hand on its findings. The caller provides the settings that it needs. */
void doctor_run(struct doctor *d, const struct doctor_check *check, void (*run)(struct doctor *d));
void doctor_clear(struct doctor *d);

const char *doctor_word(enum doctor_level level);
int doctor_exit_code(enum doctor_level level); /* that of monitoring plugins */

/* ---- for checks --------------------------------------------------------------------------------- */

void doctor_warn(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_fail(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_note(struct doctor *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3))); /* where nothing else is found: how far it could look */
void doctor_why(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_do(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ask the database; *res is given. False: it did not answer, and the check is unknown. */
typedef int doctor_question(struct pg *pg, struct pg_result **res, struct deferred_error *err);
bool doctor_ask(struct doctor *d, doctor_question *question, struct pg_result **res);
bool doctor_answered(struct doctor *d, int rc,
		     const struct deferred_error *err); /* the same of what was asked already */

/* Whom to grant something that is missing. */
const char *doctor_user_name(const struct doctor *d);

void doctor_schema(struct doctor *d);
void doctor_rights(struct doctor *d);
void doctor_rights_told(struct doctor *d,
			const struct pg_result *res); /* the same of the answer to doctor_role_exec() */
void doctor_clocks(struct doctor *d);
void doctor_functions(struct doctor *d);
void doctor_workers(struct doctor *d);
void doctor_superseded(struct doctor *d);
void doctor_retention(struct doctor *d);
void doctor_partitions(struct doctor *d);
void doctor_indexes(struct doctor *d);
void doctor_snapshots(struct doctor *d);
void doctor_slots(struct doctor *d);
void doctor_durability(struct doctor *d);
void doctor_builds(struct doctor *d);
void doctor_alerts(struct doctor *d);
void doctor_schedules(struct doctor *d);
void doctor_tokens(struct doctor *d);

/* The remedy for a line that starts again before its run has ended. */
extern const char doctor_skip[];

#endif
