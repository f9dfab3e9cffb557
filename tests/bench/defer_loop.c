/* SPDX-License-Identifier: MIT */
/*
 * Load on the library.
 *
 *     defer_loop CONNINFO single THREADS SECONDS   each thread defers on a context of its own, a call a transaction
 *     defer_loop CONNINFO bulk N                   N calls by deferred_defer_many()
 *     defer_loop CONNINFO copy N TABLE ROW ...     to compare with: N rows by COPY into each table, in one transaction.
 *     TABLE has its
 *                                                  columns, ROW is a line of text; a # in it is the number of the row
 *
 * Prints calls per second; on standard error how many calls it made.
 */
#include "deferred.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FN "noop"
#define PARAMS "{\"n\": 1}"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

_Noreturn static void die(const char *why)
{
	fprintf(stderr, "defer_loop: %s\n", why);
	exit(1);
}

static const char *conninfo;
static atomic_bool stop;

static void *defer_until_stopped(void *data)
{
	struct deferred *d = data;
	struct deferred_error err;
	long n = 0;

	for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++)
		if (deferred_defer(d, FN, PARAMS, NULL, NULL, &err) < 0)
			die(err.message);
	return (void *)n;
}

static double single(int threads, double seconds, long *made)
{
	struct timespec pause = { .tv_sec = (time_t)seconds,
				  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
	struct deferred *contexts[64];
	struct deferred_error err;
	pthread_t ids[64];
	long calls = 0;
	double start;

	if (threads < 1 || threads > 64)
		die("1 to 64 threads");
	for (int i = 0; i < threads; i++)
		if (deferred_open(&contexts[i], conninfo, &err) < 0)
			die(err.message);
	start = now();
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, defer_until_stopped, contexts[i]);
	nanosleep(&pause, NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < threads; i++) {
		void *n;

		pthread_join(ids[i], &n);
		calls += (long)n;
	}
	seconds = now() - start;
	for (int i = 0; i < threads; i++)
		deferred_close(contexts[i]);
	*made = calls;
	return (double)calls / seconds;
}

static double bulk(size_t n)
{
	struct deferred_call_spec *calls = calloc(n, sizeof(*calls));
	int64_t *ids = calloc(n, sizeof(*ids));
	struct deferred *d = NULL;
	struct deferred_error err;
	double start;

	if (!calls || !ids)
		die("out of memory");
	for (size_t i = 0; i < n; i++)
		calls[i] = (struct deferred_call_spec){ .fn = FN, .params = PARAMS };
	if (deferred_open(&d, conninfo, &err) < 0)
		die(err.message);
	start = now();
	if (deferred_defer_many(d, calls, n, ids, &err) < 0)
		die(err.message);
	start = now() - start;
	deferred_close(d);
	free(calls);
	free(ids);
	return (double)n / start;
}

static void run(PGconn *conn, const char *sql, ExecStatusType expected)
{
	PGresult *res = PQexec(conn, sql);

	if (PQresultStatus(res) != expected)
		die(PQerrorMessage(conn));
	PQclear(res);
}

static size_t append(char *buf, size_t len, const char *text, size_t text_len)
{
	memcpy(buf + len, text, text_len);
	return len + text_len;
}

static void copy_into(PGconn *conn, const char *table, const char *row, size_t n)
{
	const char *mark = strchr(row, '#');
	const char *rest = mark ? mark + 1 : row;
	size_t rest_len = strlen(rest);
	char buf[65536];
	size_t len = 0;
	PGresult *res;

	snprintf(buf, sizeof(buf), "copy %s from stdin", table);
	run(conn, buf, PGRES_COPY_IN);
	for (size_t i = 1; i <= n; i++) {
		if (mark) {
			len = append(buf, len, row, (size_t)(mark - row));
			len += (size_t)snprintf(buf + len, sizeof(buf) - len, "%zu", i);
		}
		len = append(buf, len, rest, rest_len);
		buf[len++] = '\n';
		if (len > sizeof(buf) - 1024) {
			PQputCopyData(conn, buf, (int)len);
			len = 0;
		}
	}
	PQputCopyData(conn, buf, (int)len);
	PQputCopyEnd(conn, NULL);
	res = PQgetResult(conn);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die(PQerrorMessage(conn));
	PQclear(res);
	while ((res = PQgetResult(conn)))
		PQclear(res);
}

static double copy(size_t n, char **tables_and_rows)
{
	PGconn *conn = PQconnectdb(conninfo);
	double start = now();

	run(conn, "begin", PGRES_COMMAND_OK);
	for (char **arg = tables_and_rows; *arg; arg += 2) {
		if (!arg[1] || strlen(arg[1]) > 900)
			die("a row of at most 900 bytes for each table");
		copy_into(conn, arg[0], arg[1], n);
	}
	run(conn, "commit", PGRES_COMMAND_OK);
	start = now() - start;
	PQfinish(conn);
	return (double)n / start;
}

int main(int argc, char **argv)
{
	double rate;
	long made = argc > 3 ? atol(argv[3]) : 0;

	if (argc < 4)
		die("usage: defer_loop CONNINFO single THREADS SECONDS | bulk N | copy N TABLE ROW ...");
	conninfo = argv[1];
	if (strcmp(argv[2], "single") == 0 && argc == 5)
		rate = single(atoi(argv[3]), atof(argv[4]), &made);
	else if (strcmp(argv[2], "bulk") == 0)
		rate = bulk(strtoul(argv[3], NULL, 10));
	else if (strcmp(argv[2], "copy") == 0 && argc > 5)
		rate = copy(strtoul(argv[3], NULL, 10), argv + 4);
	else
		die("single, bulk or copy, with their arguments");
	printf("%.1f\n", rate);
	fprintf(stderr, "%ld calls\n", made);
	return 0;
}
