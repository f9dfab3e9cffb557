/* SPDX-License-Identifier: MIT */
/*
 * archive - the worked example of rules: moves a row of an application's table to its archive. See
 * tests/demo/archive.sql.
 *
 *     archive_row  {"table": "document" | "task", "id": N}; other members are ignored
 *
 * A runner has no database connection of the queue's, so the function opens one of its own, to where the setting says,
 * and keeps it from job to job:
 *
 *     settings "archive" { conninfo = "dbname=app user=archiver" }
 *
 * The row is moved by one statement, which is a transaction: whatever dies, it is in one of the two tables. A second
 * attempt finds it moved, and that is success too.
 */
#include <deferred_plugin.h>

#include <inttypes.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

/* The names come from here, never from the params. */
static const struct {
	const char *name, *move;
} tables[] = {
#define TABLE(name) \
	{ \
		name, "with moved as (delete from app." name " where id = $1 returning *)," \
		      " kept as (insert into app." name \
		      "_archive select moved.*, clock_timestamp() from moved returning 1)" \
		      " select count(*), exists (select from app." name "_archive where id = $1) from kept" \
	}
	TABLE("document"),
	TABLE("task"),
#undef TABLE
};

static int refuse(const struct deferred_call *call, int result, const char *text)
{
	call->host->error(call, text, strcspn(text, "\n"));
	return result;
}

/* The connection of this runner: opened by the first job, and anew where it broke. NULL: the error was reported. */
static PGconn *connection(const struct deferred_call *call)
{
	static PGconn *conn;
	const char *conninfo = call->host->setting(call, "settings.archive.conninfo");

	if (!conninfo) {
		refuse(call, 0, "the setting settings.archive.conninfo is missing");
		return NULL;
	}
	if (conn && PQstatus(conn) != CONNECTION_OK) {
		PQfinish(conn);
		conn = NULL;
	}
	if (!conn)
		conn = PQconnectdb(conninfo);
	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	refuse(call, 0, PQerrorMessage(conn));
	return NULL;
}

static int move(const struct deferred_call *call, const char *sql, json_int_t id)
{
	char text[24];
	const char *values[] = { text };
	PGconn *conn = connection(call);
	PGresult *res;
	int result = DEFERRED_FAILED;

	if (!conn)
		return DEFERRED_FAILED;
	snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, id);
	res = PQexecParams(conn, sql, 1, NULL, values, NULL, NULL, 0);
	if (PQresultStatus(res) != PGRES_TUPLES_OK) {
		refuse(call, 0, PQerrorMessage(conn));
	} else if (strcmp(PQgetvalue(res, 0, 0), "1") == 0) {
		call->host->result(call, "moved", 5);
		result = DEFERRED_OK;
	} else if (strcmp(PQgetvalue(res, 0, 1), "t") == 0) {
		call->host->result(call, "was moved before", 16);
		result = DEFERRED_OK;
	} else {
		result = refuse(call, DEFERRED_DEAD, "there is no such row");
	}
	PQclear(res);
	return result;
}

static int archive_row(const struct deferred_call *call)
{
	json_t *params = json_loadb(call->params, call->params_len, 0, NULL);
	const char *table = json_string_value(json_object_get(params, "table"));
	const json_t *id = json_object_get(params, "id");
	int result = DEFERRED_DEAD;
	size_t i = 0, n = sizeof(tables) / sizeof(tables[0]);

	while (table && i < n && strcmp(table, tables[i].name) != 0)
		i++;
	if (!table || i == n || !json_is_integer(id))
		refuse(call, 0, "params need \"table\", document or task, and \"id\", a number");
	else
		result = move(call, tables[i].move, json_integer_value(id));
	json_decref(params);
	return result;
}

static const struct deferred_function functions[] = {
	{ .name = "archive_row", .run = archive_row, .timeout_ms = 60000 },
};

DEFERRED_PLUGIN("archive", "1.0", functions);
