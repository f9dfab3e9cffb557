/* SPDX-License-Identifier: MIT */
/*
 * migrate - brings a database up to the newest migration of sql/migrations, which is embedded in the program.
 *
 * Each step is a transaction of its own that also adds the row of deferred.__deferred_migration, under an
 * advisory lock: of two that migrate at once the second finds the work done. Migrations go forward only; a
 * database newer than the program is left alone.
 */
#ifndef MIGRATE_H
#define MIGRATE_H

#include "pg.h"

/* Schema versions that the statements of this program work with. MAX is the newest embedded migration. */
#define MIGRATE_VERSION_MIN 7

#define MIGRATE_VERSION_MAX 7

/* The oldest PostgreSQL that the schema can be made in, as server_version_num. */
#define MIGRATE_SERVER_MIN 150000

/* Both as text: "7", or "6 to 7" where they differ. */
const char *migrate_versions(void);

/*
 * migrate_version - version of the schema; 0: there is none.
 *
 * Returns 0 or an error of pg_exec(). Source: sql/queries/admin_schema_exists.sql, admin_schema_version.sql.
 */
int migrate_version(struct pg *pg, int *version, struct deferred_error *err);

/* migrate_accepts - does this program work with that version of the schema? 0 or DEFERRED_ESCHEMA with the remedy. */
int migrate_accepts(int version, struct deferred_error *err);

/* migrate_accepts_server - can the schema be made in that PostgreSQL? 0 or DEFERRED_ESCHEMA with the remedy. version: server_version_num. */
int migrate_accepts_server(int version, struct deferred_error *err);

/*
 * migrate_check - is the schema one that this program works with?
 *
 * One round trip. Returns 0; DEFERRED_ESCHEMA, naming both versions and the remedy; or an error of
 * pg_exec(). Source: sql/queries/admin_schema_version.sql.
 */
int migrate_check(struct pg *pg, struct deferred_error *err);

/* Called when a step was committed, or in the place of it. */
typedef void migrate_step_fn(void *data, const struct sql_migration *step);

/* migrate_plan - call `step` for what migrate_run() would apply; changes nothing. */
int migrate_plan(struct pg *pg, migrate_step_fn *step, void *data, struct deferred_error *err);

/*
 * migrate_run - apply what is missing.
 *
 * step  may be NULL.
 *
 * Returns 0, also where nothing is missing; DEFERRED_ESCHEMA where the database is newer, or the server too old; or an error of
 * pg_exec(), the steps before the failed one having been committed.
 */
int migrate_run(struct pg *pg, migrate_step_fn *step, void *data, struct deferred_error *err);

#endif
