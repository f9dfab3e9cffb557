/* SPDX-License-Identifier: MIT */
#include "store/migrate.h"

#include "base/clock.h"
#include "rows/admin.h"
#include "rows/why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHERE "migrate"

/* Zeros: there is no schema. */
static int find_schema(struct pg *pg, struct admin_schema_version_row *schema, struct deferred_error *err)
{
	struct admin_schema_exists_row r;
	int rc = admin_schema_exists_one(pg, &r, err);

	*schema = (struct admin_schema_version_row){ 0 };
	return rc == 0 && r.exists ? admin_schema_version_one(pg, schema, err) : rc;
}

int migrate_version(struct pg *pg, int *version, struct deferred_error *err)
{
	struct admin_schema_version_row schema;
	int rc = find_schema(pg, &schema, err);

	*version = schema.version;
	return rc;
}

#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

const char *migrate_versions(void)
{
	return MIGRATE_VERSION_MIN == MIGRATE_VERSION_MAX ? TEXT(MIGRATE_VERSION_MAX)
							  : TEXT(MIGRATE_VERSION_MIN) " to " TEXT(MIGRATE_VERSION_MAX);
}

/* A version outside of what this program works with. */
static int refuse(int version, struct deferred_error *err)
{
	if (version == 0)
		error_set(err, DEFERRED_ESCHEMA, WHERE,
			  "the database has no schema 'deferred'; this program works with version %s",
			  migrate_versions());
	else
		error_set(err, DEFERRED_ESCHEMA, WHERE,
			  "the schema of the database has version %d, but this program works with %s", version,
			  migrate_versions());
	error_hint(err, version > MIGRATE_VERSION_MAX
				? "install the version of deferred that made the schema, or a newer one"
				: "run: deferred migrate");
	return DEFERRED_ESCHEMA;
}

int migrate_accepts(int version, int oldest, struct deferred_error *err)
{
	return version >= MIGRATE_VERSION_MIN && oldest <= MIGRATE_VERSION_MAX ? 0 : refuse(version, err);
}

int migrate_accepts_server(int version, struct deferred_error *err)
{
	if (version >= MIGRATE_SERVER_MIN)
		return 0;
	error_set(err, DEFERRED_ESCHEMA, WHERE, "the server is PostgreSQL %d, the schema needs %d or later",
		  version / 10000, MIGRATE_SERVER_MIN / 10000);
	error_hint(err, "upgrade the server, or name the database of another one");
	return DEFERRED_ESCHEMA;
}

int migrate_check(struct pg *pg, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	struct admin_schema_version_row r;
	int rc = admin_schema_version_one(pg, &r, &why);

	if (rc < 0 && error_class(why.sqlstate) != ERROR_SCHEMA) {
		if (err)
			*err = why;
		return rc;
	}
	return migrate_accepts(r.version, r.oldest, err);
}

static int check_server(struct pg *pg, struct deferred_error *err)
{
	struct admin_server_version_row r;
	int rc = admin_server_version_one(pg, &r, err);

	return rc == 0 ? migrate_accepts_server(r.version, err) : rc;
}

/* ---- what is to be done ----------------------------------------------------------------------- */

#define SOURCES_MAX 1000

struct todo {
	const struct sql_migration *step; /* first of those missing, up to the end of sql_migrations */
	struct {
		bool due, applied;
		char checksum[65];
	} source[SOURCES_MAX]; /* of sql_sources */
	bool is_newer;         /* the schema is newer than the program: its functions stay */
};

static size_t sources_len(void)
{
	size_t n = 0;

	while (sql_sources[n].name)
		n++;
	return n;
}

static const char *const *source_names(void)
{
	static const char *names[SOURCES_MAX];

	for (size_t i = 0; sql_sources[i].name; i++)
		names[i] = sql_sources[i].name;
	return names;
}

/* By the server, which has SHA-256 at hand. */
static int find_checksums(struct pg *pg, struct todo *todo, struct deferred_error *err)
{
	const char *texts[SOURCES_MAX];
	struct pg_result *res;
	int rc;

	for (size_t i = 0; i < sources_len(); i++)
		texts[i] = sql_sources[i].text;
	rc = admin_migrate_checksums_exec(pg, texts, sources_len(), &res, err);
	for (size_t i = 0; rc == 0 && i < pg_rows(res); i++)
		snprintf(todo->source[i].checksum, sizeof(todo->source[i].checksum), "%s",
			 admin_migrate_checksums_row(res, i).checksum);
	pg_result_free(res);
	return rc;
}

static int find_changed(struct pg *pg, struct todo *todo, struct deferred_error *err)
{
	const char *checksums[SOURCES_MAX];
	struct pg_result *res;
	int rc;

	for (size_t i = 0; i < sources_len(); i++)
		checksums[i] = todo->source[i].checksum;
	rc = admin_migrate_changed_exec(pg, source_names(), sources_len(), checksums, sources_len(), &res, err);
	for (size_t i = 0; rc == 0 && i < pg_rows(res); i++)
		todo->source[admin_migrate_changed_row(res, i).n - 1].due = true;
	pg_result_free(res);
	return rc;
}

/* The dump of a database has no roles. If they were missing when it was restored, objects have the wrong owner and
 * nothing is granted. SECURITY DEFINER functions then run with the rights of the role that restored it. */
static int refuse_incomplete(struct pg *pg, struct deferred_error *err)
{
	struct pg_result *res;
	int rc = admin_migrate_missing_exec(pg, source_names(), sources_len(), &res, err);

	if (rc == 0 && admin_migrate_missing_row(res, 0).missing[0]) {
		rc = error_set(err, DEFERRED_ESCHEMA, WHERE,
			       "the schema is there in part, as after a restore without its roles: %s",
			       admin_migrate_missing_row(res, 0).missing);
		error_hint(err, "make the roles, which pg_dumpall --roles-only dumps, then restore into an empty "
				"database, with owners and privileges");
	}
	pg_result_free(res);
	return rc;
}

static int find_todo(struct pg *pg, struct todo *todo, struct deferred_error *err)
{
	struct admin_schema_version_row schema;
	int rc = find_schema(pg, &schema, err);

	memset(todo, 0, sizeof(*todo));
	for (todo->step = sql_migrations; todo->step->version && todo->step->version <= schema.version; todo->step++)
		;
	todo->is_newer = schema.version > MIGRATE_VERSION_MAX;
	if (rc == 0 && todo->is_newer)
		return migrate_accepts(schema.version, schema.oldest, err);
	if (rc == 0 && schema.version > 0)
		rc = refuse_incomplete(pg, err);
	if (rc == 0)
		rc = find_checksums(pg, todo, err);
	if (rc < 0)
		return rc;
	if (schema.version > 0)
		return find_changed(pg, todo, err);
	for (size_t i = 0; i < sources_len(); i++)
		todo->source[i].due = true;
	return rc;
}

static void report(const struct todo *todo, migrate_fn *done, void *data)
{
	for (const struct sql_migration *m = todo->step; m->version; m++)
		done(data, &(struct migrate_item){
				   .version = m->version, .oldest = m->oldest, .name = m->name, .text = m->text });
	for (size_t i = 0; i < sources_len(); i++)
		if (todo->source[i].due)
			done(data, &(struct migrate_item){ .name = sql_sources[i].name,
							   .text = sql_sources[i].text,
							   .checksum = todo->source[i].checksum });
}

int migrate_plan(struct pg *pg, migrate_fn *item, void *data, struct deferred_error *err)
{
	struct todo todo;
	int rc = check_server(pg, err);

	if (rc == 0)
		rc = find_todo(pg, &todo, err);
	if (rc == 0)
		report(&todo, item, data);
	return rc;
}

/* ---- doing it, inside one transaction --------------------------------------------------------- */

static int apply_step(struct pg *pg, const struct sql_migration *m, struct deferred_error *err)
{
	int rc = pg_command(pg, m->text, err);

	if (rc == 0)
		rc = admin_migrate_record_exec(pg, m->version, m->name, m->oldest, err);
	if (rc < 0)
		error_prefix(err, "migration %d '%s'", m->version, m->name);
	return rc;
}

/* "create or replace" refuses other names of arguments, another result and other columns. With other types of arguments
 * it makes a second function, and then the comment does not say which of them it means. */
static bool is_in_the_way(const struct deferred_error *err)
{
	static const char states[][6] = { "42725", "42P13", "42P16", "42809" };
	size_t i = 0;

	while (i < sizeof(states) / sizeof(states[0]) && strcmp(err->sqlstate, states[i]) != 0)
		i++;
	return i < sizeof(states) / sizeof(states[0]);
}

/* Drop the objects of a name, or those without a file if it is NULL. Dependent objects are dropped too, and applied
 * again if they have a file. */
static int drop_leftover(struct pg *pg, struct todo *todo, const char *name, struct deferred_error *err)
{
	struct pg_result *res;
	int rc = admin_migrate_leftover_exec(pg, name, source_names(), sources_len(), &res, err);

	for (size_t i = 0; rc == 0 && i < pg_rows(res); i++) {
		struct admin_migrate_leftover_row r = admin_migrate_leftover_row(res, i);

		if (r.used_by[0]) {
			rc = error_set(err, DEFERRED_EDB, WHERE, "cannot %s: used by %s", r.statement, r.used_by);
			error_hint(err, "drop what uses it, run `deferred migrate`, then create it again");
			continue;
		}
		rc = pg_command(pg, r.statement, err);
		if (r.n > 0) {
			todo->source[r.n - 1].due = true;
			todo->source[r.n - 1].applied = false;
		}
	}
	pg_result_free(res);
	return rc;
}

static int create_source(struct pg *pg, const char *text, struct deferred_error *err)
{
	char *sql;
	int rc;

	if (asprintf(&sql, "savepoint source; %s release savepoint source", text) < 0)
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	rc = pg_command(pg, sql, err);
	free(sql);
	return rc;
}

static int apply_source(struct pg *pg, struct todo *todo, size_t i, struct deferred_error *err)
{
	const struct sql_statement *source = &sql_sources[i];
	struct deferred_error why = { 0 };
	int rc = create_source(pg, source->text, &why);

	if (rc < 0 && is_in_the_way(&why)) {
		rc = pg_command(pg, "rollback to savepoint source", err);
		if (rc == 0)
			rc = drop_leftover(pg, todo, source->name, err);
		if (rc == 0)
			rc = create_source(pg, source->text, err);
	} else if (rc < 0 && err) {
		*err = why;
	}
	if (rc == 0)
		rc = admin_migrate_applied_exec(pg, source->name, todo->source[i].checksum, err);
	if (rc < 0)
		error_prefix(err, "%s", source->name);
	todo->source[i].applied = rc == 0;
	return rc;
}

static size_t next_source(const struct todo *todo)
{
	size_t i = 0;

	while (sql_sources[i].name && (!todo->source[i].due || todo->source[i].applied))
		i++;
	return i;
}

static int apply_due(struct pg *pg, struct todo *todo, struct deferred_error *err)
{
	int rc = 0;

	for (size_t i; rc == 0 && (i = next_source(todo), sql_sources[i].name);)
		rc = apply_source(pg, todo, i, err);
	return rc;
}

static int revoke(struct pg *pg, const struct todo *todo, struct deferred_error *err)
{
	const char *names[SOURCES_MAX];
	struct pg_result *res;
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < sources_len(); i++)
		if (todo->source[i].due)
			names[n++] = sql_sources[i].name;
	rc = admin_migrate_revoke_exec(pg, names, n, &res, err);
	if (rc == 0 && admin_migrate_revoke_row(res, 0).statements[0])
		rc = pg_command(pg, admin_migrate_revoke_row(res, 0).statements, err);
	pg_result_free(res);
	return rc;
}

static int apply_sources(struct pg *pg, struct todo *todo, struct deferred_error *err)
{
	int rc = pg_command(pg, MIGRATE_SOURCES_BEGIN, err);

	if (rc == 0)
		rc = revoke(pg, todo, err);
	if (rc == 0)
		rc = apply_due(pg, todo, err);
	if (rc == 0)
		rc = drop_leftover(pg, todo, NULL, err);
	if (rc == 0)
		rc = apply_due(pg, todo, err);
	return rc == 0 ? pg_command(pg, MIGRATE_SOURCES_END, err) : rc;
}

/*
 * One migration at a time in a database. Anybody who can connect could hold an advisory lock for
 * ever, so it is only used until there is a table to lock.
 */
#define LOCK \
	"do $$begin " \
	"if to_regclass('deferred.__deferred_migration') is null then " \
	"perform pg_advisory_xact_lock(hashtextextended('deferred.migrate', 0)); " \
	"end if; " \
	"if has_table_privilege(to_regclass('deferred.__deferred_migration'), 'update') then " \
	"lock table deferred.__deferred_migration in share row exclusive mode; " \
	"end if; end$$"

static int apply(struct pg *pg, struct todo *todo, struct deferred_error *err)
{
	int rc = pg_command(pg, LOCK, err);

	if (rc == 0)
		rc = find_todo(pg, todo, err);
	if (rc < 0)
		return rc;
	if (todo->step->version && (rc = admin_migrate_roles_exec(pg, err)) < 0)
		error_prefix(err, "roles");
	for (const struct sql_migration *m = todo->step; rc == 0 && m->version; m++)
		rc = apply_step(pg, m, err);
	return rc == 0 && !todo->is_newer ? apply_sources(pg, todo, err) : rc;
}

/* A lock was not granted in time. */
static void hint_holders(struct pg *pg, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, "true");
	if (pg_exec(pg, &sql_lock_tables, &args, PG_TEXT, &res, NULL) == 0 && *lock_rows_row(res, 0).holders)
		error_hint(err, "wait for, or end: %s; or raise --lock-timeout, for which others then wait too",
			   lock_rows_row(res, 0).holders);
	pg_args_clear(&args);
	pg_result_free(res);
}

static int migrate_try(struct pg *pg, struct todo *todo, struct deferred_error *err)
{
	int rc = pg_begin(pg, "", err);

	if (rc == 0)
		rc = apply(pg, todo, err);
	if (rc == 0)
		rc = pg_command(pg, "commit", err);
	if (rc < 0 && pg_in_transaction(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}

/* While a step waits for a lock, all who come later wait behind it. They go on during the pause between two tries. */
#define TRIES 20
#define PAUSE_MS 200

/* A lock was not granted in time, or somebody else won a deadlock. */
static bool may_try_again(const struct pg *pg, const struct deferred_error *err)
{
	return !pg_broken(pg) && (strcmp(err->sqlstate, "55P03") == 0 || strcmp(err->sqlstate, "40P01") == 0);
}

int migrate_run(struct pg *pg, migrate_fn *done, void *data, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	struct todo todo;
	int rc = check_server(pg, &why);

	for (int try = 0; rc == 0; try++) {
		rc = migrate_try(pg, &todo, &why);
		if (rc == 0 || try == TRIES - 1 || !may_try_again(pg, &why))
			break;
		nanosleep(&(struct timespec){ 0, PAUSE_MS * (long)NS_PER_MS }, NULL);
		error_clear(&why);
		rc = 0;
	}
	if (rc == 0 && done)
		report(&todo, done, data);
	if (rc == DEFERRED_ETIMEOUT && !pg_broken(pg))
		hint_holders(pg, &why);
	if (rc < 0 && err)
		*err = why;
	return rc;
}
