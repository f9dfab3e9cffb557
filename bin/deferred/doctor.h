/* SPDX-License-Identifier: MIT */
/*
 * doctor - what the checks of `deferred doctor` share. cmd_doctor.c has the table of them and calls one after the other; a check says what it
 * finds with doctor_warn() or doctor_fail(), then, of that, why it matters and what mends it. One that says nothing is fine.
 *
 *     doctor_schema.c    the schema, and what the role may do in it
 *     doctor_server.c    the database server
 *     doctor_host.c      this host: user, pidfile, certificates
 *     doctor_plugins.c   plugins here, functions that jobs wait for, and whether anybody runs them
 *     doctor_builds.c    builds of plugins that run worse than those before them
 *     doctor_mail.c      the mail server
 *     doctor_told.c      what workers have found wrong, and schedules
 *     doctor_child.c     a child process for what may crash or hang
 *
 * A check is bounded: it reads in one read-only transaction, no statement of which takes longer than DOCTOR_LOOK_MS.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "cmd.h"
#include "port/params.h"
#include "run/user.h"

#define DOCTOR_LOOK_MS 1000

/* The exit codes of monitoring plugins. */
enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor {
	struct cli *cli;
	const char *check;          /* under way */
	enum doctor_level level, worst;
	char note[256];
	bool open;                  /* JSON: the object of a finding is */
	struct params_text json;
	bool usable;                /* there is a schema that this program knows */
	struct deferred_error lost; /* why there is no connection */
	struct runner_setup user;   /* whom functions run as */
	char **functions;           /* in the plugins here and in the config file, sorted once doctor_plugins() has run */
	size_t functions_len;
};

void doctor_warn(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_fail(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_note(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* where nothing else is found: how far it could look */
void doctor_why(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void doctor_do(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ask the database; *res is given. False: it did not answer, and that was said. */
typedef int doctor_question(struct pg *pg, struct pg_result **res, struct deferred_error *err);
bool doctor_ask(struct doctor *d, doctor_question *question, struct pg_result **res);
bool doctor_answered(struct doctor *d, int rc, const struct deferred_error *err); /* the same of what was asked already */

/*
 * Have f called in a child process, as the user of functions where this one is root. What it says with doctor_tell() is handed to take(), a letter and a
 * text each time. Returns NULL; or, where it did not come to its end in 10 s, why: then, `what` was being done.
 */
typedef void doctor_child(struct doctor *d, int fd);
typedef void doctor_take(struct doctor *d, char letter, const char *text);
const char *doctor_in_child(struct doctor *d, doctor_child *f, doctor_take *take);
void doctor_tell(int fd, char letter, const char *text);

/* The checks. */
void doctor_config(struct doctor *d);
void doctor_connection(struct doctor *d);
void doctor_schema(struct doctor *d);
void doctor_role(struct doctor *d);
void doctor_clocks(struct doctor *d);
void doctor_plugins(struct doctor *d);
void doctor_functions(struct doctor *d);
void doctor_workers(struct doctor *d);
void doctor_mail(struct doctor *d);
void doctor_retention(struct doctor *d);
void doctor_intervals(struct doctor *d);
void doctor_user(struct doctor *d);
void doctor_pidfile(struct doctor *d);
void doctor_certificates(struct doctor *d);
void doctor_listen(struct doctor *d);
void doctor_snapshots(struct doctor *d);
void doctor_slots(struct doctor *d);
void doctor_durability(struct doctor *d);
void doctor_builds(struct doctor *d);
void doctor_alerts(struct doctor *d);
void doctor_schedules(struct doctor *d);
void doctor_indexes(struct doctor *d);
void doctor_partitions(struct doctor *d);

#endif
