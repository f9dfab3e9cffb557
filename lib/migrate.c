/* SPDX-License-Identifier: MIT */
#include "migrate.h"

#include <string.h>

#define WHERE "migrate"

static int query_int(struct pg *pg, const struct sql_statement *stmt, int *value, struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	rc = pg_exec(pg, stmt, &args, PG_BINARY, &res, err);
	if (rc == 0)
		*value = (int)pg_int(res, 0, 0);
	pg_result_free(res);
	pg_args_clear(&args);
	return rc;
}

int migrate_version(struct pg *pg, int *version, struct deferred_error *err)
{
	int exists, rc;

	*version = 0;
	rc = query_int(pg, &sql_admin_schema_exists, &exists, err);
	if (rc == 0 && exists)
		rc = query_int(pg, &sql_admin_schema_version, version, err);
	return rc;
}

#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

const char *migrate_versions(void)
{
	return MIGRATE_VERSION_MIN == MIGRATE_VERSION_MAX ? TEXT(MIGRATE_VERSION_MAX) : TEXT(MIGRATE_VERSION_MIN) " to " TEXT(MIGRATE_VERSION_MAX);
}

/* A version outside of what this program works with. */
static int refuse(int version, struct deferred_error *err)
{
	if (version == 0)
		error_set(err, DEFERRED_ESCHEMA, WHERE,
			  "the database has no schema \"deferred\" yet, this program works with version %s", migrate_versions());
	else
		error_set(err, DEFERRED_ESCHEMA, WHERE,
			  "schema of the database has version %d, this program works with %s", version,
			  migrate_versions());
	error_hint(err, version > MIGRATE_VERSION_MAX ? "install the version of deferred that made the schema, or a newer one"
						      : "run: deferred migrate");
	return DEFERRED_ESCHEMA;
}

int migrate_accepts(int version, struct deferred_error *err)
{
	return version >= MIGRATE_VERSION_MIN && version <= MIGRATE_VERSION_MAX ? 0 : refuse(version, err);
}

int migrate_accepts_server(int version, struct deferred_error *err)
{
	if (version >= MIGRATE_SERVER_MIN)
		return 0;
	error_set(err, DEFERRED_ESCHEMA, WHERE, "the server is PostgreSQL %d, the schema needs %d or later", version / 10000, MIGRATE_SERVER_MIN / 10000);
	error_hint(err, "upgrade the server, or name the database of another one");
	return DEFERRED_ESCHEMA;
}

int migrate_check(struct pg *pg, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int version = 0, rc = query_int(pg, &sql_admin_schema_version, &version, &why);

	if (rc < 0 && error_class(why.sqlstate) != ERROR_SCHEMA) {
		if (err)
			*err = why;
		return rc;
	}
	return migrate_accepts(version, err);
}

static const struct sql_migration *step_after(int version)
{
	for (const struct sql_migration *m = sql_migrations; m->version; m++)
		if (m->version > version)
			return m;
	return NULL;
}

static int check_server(struct pg *pg, struct deferred_error *err)
{
	int version, rc = query_int(pg, &sql_admin_server_version, &version, err);

	return rc == 0 ? migrate_accepts_server(version, err) : rc;
}

int migrate_plan(struct pg *pg, migrate_step_fn *step, void *data, struct deferred_error *err)
{
	const struct sql_migration *m;
	int version, rc = check_server(pg, err);

	if (rc == 0)
		rc = migrate_version(pg, &version, err);
	if (rc < 0)
		return rc;
	if (version > MIGRATE_VERSION_MAX)
		return refuse(version, err);
	for (m = step_after(version); m && m->version; m++)
		step(data, m);
	return 0;
}

static int record(struct pg *pg, const struct sql_migration *m, struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, m->version);
	pg_arg_text(&args, m->name);
	rc = pg_exec(pg, &sql_admin_migrate_record, &args, PG_BINARY, &res, err);
	pg_result_free(res);
	pg_args_clear(&args);
	return rc;
}

/* Apply the next step inside the open transaction; *applied is NULL where there is none. */
static int apply_next(struct pg *pg, const struct sql_migration **applied, struct deferred_error *err)
{
	const struct sql_migration *m;
	int version, ignored, rc = query_int(pg, &sql_admin_migrate_lock, &ignored, err);

	*applied = NULL;
	if (rc == 0)
		rc = migrate_version(pg, &version, err);
	if (rc < 0)
		return rc;
	if (version > MIGRATE_VERSION_MAX)
		return refuse(version, err);
	m = step_after(version);
	if (!m)
		return 0;
	rc = pg_command(pg, m->text, err);
	if (rc == 0)
		rc = record(pg, m, err);
	if (rc < 0)
		error_prefix(err, "migration %d \"%s\"", m->version, m->name);
	*applied = m;
	return rc;
}

int migrate_run(struct pg *pg, migrate_step_fn *step, void *data, struct deferred_error *err)
{
	const struct sql_migration *applied = NULL;
	int rc = check_server(pg, err);

	if (rc < 0)
		return rc;
	do {
		rc = pg_command(pg, "begin", err);
		if (rc == 0)
			rc = apply_next(pg, &applied, err);
		if (rc == 0)
			rc = pg_command(pg, "commit", err);
		if (rc == 0 && applied && step)
			step(data, applied);
	} while (rc == 0 && applied);
	if (rc < 0 && pg_in_transaction(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}
