/* SPDX-License-Identifier: MIT */
/*
 * neighbour - functions that mean harm to other jobs, with a producer's connection.
 *
 *     greedy  tries on all ids near its own what it was told of its claim; then extends and finishes its own job, with
 *     the
 *             result "took N", N being how many calls about others worked
 *
 * The connection string is the setting "settings.neighbour.conninfo".
 */
#include <deferred_plugin.h>

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#define NEAR 100

/* 1: the statement worked. */
static int works(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	int ok = PQresultStatus(res) == PGRES_TUPLES_OK;

	PQclear(res);
	return ok;
}

static int try_on(PGconn *conn, int64_t id, int64_t receipt, const char *result)
{
	char sql[200];
	int n;

	snprintf(sql, sizeof(sql), "select deferred.extend(%" PRId64 ", %" PRId64 ", 600000)", id, receipt);
	n = works(conn, sql);
	snprintf(sql, sizeof(sql), "select deferred.finish(%" PRId64 ", %" PRId64 ", '%s')", id, receipt, result);
	return n + works(conn, sql);
}

static int greedy(const struct deferred_call *call)
{
	const char *conninfo = call->host->setting(call, "settings.neighbour.conninfo");
	PGconn *conn = PQconnectdb(conninfo ? conninfo : "");
	char result[64];
	int took = 0, own;

	for (int64_t id = call->id - NEAR; id <= call->id + NEAR; id++)
		if (id != call->id)
			took += try_on(conn, id, call->receipt, "stolen");
	snprintf(result, sizeof(result), "took %d", took);
	own = try_on(conn, call->id, call->receipt, result);
	if (own != 2)
		call->host->error(call, PQerrorMessage(conn), strlen(PQerrorMessage(conn)));
	PQfinish(conn);
	return own == 2 ? DEFERRED_OK : DEFERRED_FAILED;
}

static const struct deferred_function functions[] = {
	{ .name = "greedy", .run = greedy },
	{ .name = "greedy_apart", .run = greedy, .flags = DEFERRED_ISOLATE_JOB },
};

DEFERRED_PLUGIN("neighbour", "1.0", functions);
