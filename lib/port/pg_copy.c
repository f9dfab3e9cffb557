/* SPDX-License-Identifier: MIT */
#include "port/pg_state.h"

#include <stdlib.h>
#include <sys/socket.h>

int pg_copy_begin(struct pg *pg, const char *sql, struct deferred_error *err)
{
	static const char head[19] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
	PGresult *res;
	int rc = pg_take_answer(pg, PQsendQuery(pg->conn, sql), false, "copy", &res, err);

	PQclear(res);
	return rc < 0 ? rc : pg_copy_data(pg, head, sizeof(head), err);
}

int pg_copy_data(struct pg *pg, const char *buf, size_t len, struct deferred_error *err)
{
	if (PQputCopyData(pg->conn, buf, (int)len) != 1)
		return pg_failed_result(pg, NULL, "copy", err);
	if (answer_flush(pg->conn, pg->answer_ms))
		return 0;
	pg->answer = ANSWER_NONE;
	return pg_too_late(pg, false, "copy", err);
}

int pg_copy_end(struct pg *pg, const char *cancel_reason, struct deferred_error *err)
{
	static const char tail[2] = { '\377', '\377' };
	PGresult *res;
	int rc = 0, ended;

	if (!cancel_reason)
		rc = pg_copy_data(pg, tail, sizeof(tail), err);
	if (pg_broken(pg))
		return rc;
	if (PQputCopyEnd(pg->conn, rc < 0 ? "client failed" : cancel_reason) != 1 && rc == 0)
		rc = pg_failed_result(pg, NULL, "copy", err);
	/* A COPY that ended with a reason is refused by the server, as it should be. */
	ended = pg_take_answer(pg, 1, false, "copy", &res, rc < 0 || cancel_reason ? NULL : err);
	PQclear(res);
	return rc < 0 || cancel_reason ? rc : ended;
}

int pg_copy_out(struct pg *pg, const char *sql,
		int (*row)(void *data, const char *row, size_t len, struct deferred_error *err), void *data,
		int64_t *rows, struct deferred_error *err)
{
	PGresult *res;
	char *line = NULL;
	int rc = pg_take_answer(pg, PQsendQuery(pg->conn, sql), false, "copy", &res, err), len = 0;

	PQclear(res);
	while (rc == 0 && (len = answer_row(pg->conn, pg->answer_ms, &line)) > 0) {
		rc = row(data, line, (size_t)len, err);
		PQfreemem(line);
	}
	if (rc == 0 && len == ANSWER_ROW_LATE) {
		pg->answer = ANSWER_NONE;
		return pg_too_late(pg, false, "copy", err);
	}
	if (rc < 0) {
		shutdown(PQsocket(pg->conn), SHUT_RDWR);
		return rc;
	}
	if ((rc = pg_take_answer(pg, 1, false, "copy", &res, err)) == 0)
		*rows = strtoll(PQcmdTuples(res), NULL, 10);
	PQclear(res);
	return rc;
}
