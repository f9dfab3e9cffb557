/* SPDX-License-Identifier: MIT */
/*
 * migrate - brings a database up to sql/migrations, sql/functions and sql/views, which are embedded in the program.
 *
 * A step is applied once, and noted in deferred.__deferred_migration. A function or view is applied again when its text
 * is another one than deferred.__deferred_source says, or it is not there. A function or view without a file is
 * dropped. One that "create or replace" cannot change is dropped first, with those of ours that use it, which are
 * applied again. If something of the user's uses it, nothing changes, and the error names that. All of it is one
 * transaction: of two that migrate at once the second finds the work done. Steps go forward only. A database that is
 * newer than the program is left alone; that is an error unless its schema says that the program works with it.
 */
#ifndef MIGRATE_H
#define MIGRATE_H

#include "port/pg.h"

/* Schema versions that the statements of this program work with. MAX is the newest embedded migration. */
#define MIGRATE_VERSION_MIN 2

#define MIGRATE_VERSION_MAX 2

/* The oldest PostgreSQL that the schema can be made in, as server_version_num. */
#define MIGRATE_SERVER_MIN 150000

/* Both as text: "1", or "1 to 2" where they differ. */
const char *migrate_versions(void);

/*
 * migrate_version - version of the schema; 0: there is none.
 *
 * Returns 0 or an error of pg_exec(). Source: sql/queries/admin/admin_schema_exists.sql, admin_schema_version.sql.
 */
int migrate_version(struct pg *pg, int *version, struct deferred_error *err);

/*
 * migrate_accepts - does this program work with that version of the schema? 0 or DEFERRED_ESCHEMA with the remedy.
 *
 * oldest  programs that bring this version, or a later one, work with the schema, even if it is newer than they are
 */
int migrate_accepts(int version, int oldest, struct deferred_error *err);

/* migrate_accepts_server - can the schema be made in that PostgreSQL? 0 or DEFERRED_ESCHEMA with the remedy. version:
 * server_version_num. */
int migrate_accepts_server(int version, struct deferred_error *err);

/*
 * migrate_check - is the schema one that this program works with?
 *
 * One round trip. Returns 0; DEFERRED_ESCHEMA, naming both versions and the remedy; or an error of
 * pg_exec(). Source: sql/queries/admin/admin_schema_version.sql.
 */
int migrate_check(struct pg *pg, struct deferred_error *err);

/* The statements before and after the functions and views. These call each other in any order, and maintain
 * partitions. */
#define MIGRATE_SOURCES_BEGIN "set local role deferred_owner; set local check_function_bodies = off"
#define MIGRATE_SOURCES_END "select deferred.maintain(); reset role"

/* The default time that a migration waits for a lock. Producers may have to wait as long. */
#define MIGRATE_LOCK_MS 1000

struct migrate_item {
	int version;      /* of a step; 0: a function or view */
	int oldest;       /* of a step, as of migrate_accepts(); 0: its version */
	const char *name; /* "tables"; "functions/defer" */
	const char *text;
	const char *checksum; /* of a function or view, as __deferred_source has it */
};

/* Called for what was committed, or in the place of it. */
typedef void migrate_fn(void *data, const struct migrate_item *item);

/* migrate_plan - call `item` for what migrate_run() would apply; changes nothing. Errors as of migrate_run(). */
int migrate_plan(struct pg *pg, migrate_fn *item, void *data, struct deferred_error *err);

/*
 * migrate_run - apply what is missing, all of it or nothing.
 *
 * done  may be NULL.
 *
 * A lock that is not granted within the limit of pg_set_limits() rolls everything back. After a pause it starts again,
 * up to 20 times. Then it returns DEFERRED_ETIMEOUT, with who holds locks.
 *
 * Returns 0, also if nothing is missing. DEFERRED_ESCHEMA: the database is newer, was restored from a dump without its
 * roles or rights, or the server is too old. After an error of pg_exec() nothing has changed.
 */
int migrate_run(struct pg *pg, migrate_fn *done, void *data, struct deferred_error *err);

#endif
