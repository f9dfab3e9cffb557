/* SPDX-License-Identifier: MIT */
#include "port/answer.h"

#include "base/clock.h"
#include "base/detached.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdint.h>
#include <stddef.h>

/* A server that is there has given up within that. */
#define GIVE_UP_MS 1000

/* Wait until all is sent and, unless `sent` is enough, until PQgetResult() would not wait. False: the time is up. The
 * result reports a broken connection. */
static bool wait_until(PGconn *conn, bool sent, uint64_t end_ns)
{
	for (;;) {
		int unsent = PQflush(conn);
		struct pollfd fd = { PQsocket(conn), (short)(POLLIN | (unsent > 0 ? POLLOUT : 0)), 0 };
		uint64_t now = clock_ns();

		if (unsent < 0 || (unsent == 0 && (sent || !PQisBusy(conn))))
			return true;
		if (now >= end_ns)
			return false;
		if (poll(&fd, 1, (int)((end_ns - now) / NS_PER_MS) + 1) > 0 && !PQconsumeInput(conn))
			return true;
	}
}

static uint64_t end_of(int limit_ms)
{
	return clock_ns() + (uint64_t)limit_ms * NS_PER_MS;
}

bool answer_flush(PGconn *conn, int limit_ms)
{
	return limit_ms == 0 || wait_until(conn, true, end_of(limit_ms));
}

int answer_row(PGconn *conn, int limit_ms, char **row)
{
	uint64_t end_ns = end_of(limit_ms);
	int len = PQgetCopyData(conn, row, limit_ms > 0);

	while (len == 0) {
		struct pollfd fd = { PQsocket(conn), POLLIN, 0 };
		uint64_t now = clock_ns();

		if (now >= end_ns)
			return ANSWER_ROW_LATE;
		if (poll(&fd, 1, (int)((end_ns - now) / NS_PER_MS) + 1) > 0 && !PQconsumeInput(conn))
			return ANSWER_ROW_NONE;
		len = PQgetCopyData(conn, row, true);
	}
	return len > 0 ? len : ANSWER_ROW_NONE;
}

/* ---- asking the server to give up -------------------------------------------------------------- */

static void *ask(void *cancel)
{
	char why[256];

	PQcancel(cancel, why, sizeof(why));
	PQfreeCancel(cancel);
	return NULL;
}

/* PQcancel() connects and waits without limit, which the caller must not. */
static void ask_to_give_up(PGconn *conn)
{
	PGcancel *cancel = PQgetCancel(conn);

	if (cancel && !detached_start(ask, cancel))
		PQfreeCancel(cancel);
}

/* ---- taking it --------------------------------------------------------------------------------- */

static bool has_state(const PGresult *res)
{
	return res && PQresultErrorField(res, PG_DIAG_SQLSTATE);
}

/* As far as it comes. Returns whether that is all of it; *last is then what counts. */
static bool take_until(PGconn *conn, int limit_ms, PGresult **last)
{
	uint64_t end_ns = end_of(limit_ms);
	PGresult *res;

	while (limit_ms == 0 || wait_until(conn, false, end_ns)) {
		ExecStatusType status;

		res = PQgetResult(conn);
		if (!res)
			return true;
		status = PQresultStatus(res);
		if (has_state(*last) && !has_state(res) && PQstatus(conn) != CONNECTION_OK) {
			PQclear(res); /* "server closed the connection", after it said why */
		} else {
			PQclear(*last);
			*last = res;
		}
		if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH ||
		    PQstatus(conn) != CONNECTION_OK)
			return true;
	}
	return false;
}

enum answer answer_take(PGconn *conn, int limit_ms, struct pg_result **res)
{
	PGresult *last = NULL;
	enum answer answer = ANSWER_CAME;

	if (!take_until(conn, limit_ms, &last)) {
		answer = ANSWER_CANCELLED;
		ask_to_give_up(conn);
		if (!take_until(conn, GIVE_UP_MS, &last)) {
			answer = ANSWER_NONE;
			PQclear(last); /* part of an answer says nothing of the commit behind it */
			last = NULL;
		}
	}
	*res = (struct pg_result *)last;
	return answer;
}
