/* SPDX-License-Identifier: MIT */
#include "port/pg_state.h"

#include "port/pg_connect.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pg_open_start(struct pg **out, const char *conninfo, const char *program, int limit_ms, struct deferred_error *err)
{
	struct pg *pg = calloc(1, sizeof(*pg));
	int rc;

	*out = NULL;
	if (!pg)
		return error_set(err, DEFERRED_ENOMEM, "connect", "out of memory");
	rc = pg_connect_start(&pg->connecting, conninfo, program, limit_ms, err);
	if (rc < 0)
		pg_close(pg);
	else
		*out = pg;
	return rc;
}

static void take_connection(struct pg *pg)
{
	pg_connect_end(pg->connecting);
	pg->connecting = NULL;
	PQsetNoticeReceiver(pg->conn, pg_receive_notice, pg);
}

int pg_open(struct pg **pg, const char *conninfo, const char *program, struct deferred_error *err)
{
	int rc = pg_open_start(pg, conninfo, program, 0, err);

	if (rc == 0)
		rc = pg_connect_wait((*pg)->connecting, &(*pg)->conn, err);
	if (rc < 0) {
		pg_close(*pg);
		*pg = NULL;
	} else {
		take_connection(*pg);
	}
	return rc;
}

int pg_open_as(struct pg **pg, const char *conninfo, const char *program, const char *user, const char *password,
	       struct deferred_error *err)
{
	char *text = pg_connect_as(conninfo, user, password, err);
	int rc;

	*pg = NULL;
	if (!text)
		return err ? err->code : DEFERRED_ECONNECT;
	rc = pg_open(pg, text, program, err);
	explicit_bzero(text, strlen(text));
	free(text);
	if (rc == 0 && !PQconnectionUsedPassword((*pg)->conn)) {
		pg_close(*pg);
		*pg = NULL;
		rc = error_set(err, DEFERRED_ECONNECT, PG_TRUSTED,
			       "the server let '%.63s' in without asking for a password", user);
		error_hint(err, "let pg_hba.conf ask for scram-sha-256 where deferred_web connects");
	}
	return rc;
}

int pg_open_poll(struct pg *pg, bool *done, struct deferred_error *err)
{
	int rc = pg_connect_poll(pg->connecting, &pg->conn, err);

	*done = rc == 0 && pg->conn;
	if (*done)
		take_connection(pg);
	return rc;
}

int pg_borrow(struct pg **out, struct pg_conn *conn, struct deferred_error *err)
{
	const char *encoding;
	struct pg *pg;

	*out = NULL;
	if (!conn || PQstatus(conn) != CONNECTION_OK)
		return error_set(err, DEFERRED_ECONNECT, "connect",
				 "the connection given is not open\nconnect, and look at PQstatus()");
	if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
		return error_set(err, DEFERRED_EINVAL, "connect",
				 "the connection given is in pipeline mode\n"
				 "read all results with PQgetResult(), and call PQexitPipelineMode()");
	if (PQtransactionStatus(conn) == PQTRANS_ACTIVE)
		return error_set(err, DEFERRED_EINVAL, "connect",
				 "the connection given is busy: a result is pending\n"
				 "read all results with PQgetResult()");
	encoding = PQparameterStatus(conn, "client_encoding");
	if (encoding && strcmp(encoding, "UTF8") != 0 && strcmp(encoding, "SQL_ASCII") != 0) {
		error_set(err, DEFERRED_EINVAL, "connect", "the connection given has client_encoding %s, not UTF8",
			  encoding);
		error_hint(err, "call PQsetClientEncoding(conn, 'UTF8') first");
		return DEFERRED_EINVAL;
	}
	pg = calloc(1, sizeof(*pg));
	if (!pg)
		return error_set(err, DEFERRED_ENOMEM, "connect", "out of memory");
	pg->conn = conn;
	pg->borrowed = pg->unnamed = true;
	*out = pg;
	return 0;
}

void pg_close(struct pg *pg)
{
	if (!pg)
		return;
	pg_connect_end(pg->connecting);
	if (!pg->borrowed)
		PQfinish(pg->conn);
	free(pg->expected);
	free(pg);
}

int pg_fd(const struct pg *pg)
{
	return pg->connecting ? pg_connect_fd(pg->connecting) : PQsocket(pg->conn);
}

short pg_events(const struct pg *pg)
{
	if (pg->connecting)
		return pg_connect_events(pg->connecting);
	/* PQflush() is cheap when there is nothing to send and tells whether there still is. */
	return (short)(POLLIN | (PQflush(pg->conn) == 1 ? POLLOUT : 0));
}

void pg_set_unnamed(struct pg *pg)
{
	pg->unnamed = true;
}

void pg_set_limits(struct pg *pg, int answer_ms, int lock_ms)
{
	pg->answer_ms = answer_ms;
	pg->lock_ms = lock_ms;
	PQsetnonblocking(pg->conn, answer_ms > 0);
}

void pg_set_transactions(struct pg *pg)
{
	pg->transactions = true;
}

bool pg_is_unnamed(const struct pg *pg)
{
	return pg->unnamed;
}

void pg_on_notice(struct pg *pg, void (*f)(void *data, const char *sqlstate, const char *message), void *data)
{
	pg->on_notice = f;
	pg->notice_data = data;
	PQsetNoticeReceiver(pg->conn, pg_receive_notice, pg);
}

bool pg_notification(struct pg *pg, char *payload, size_t size)
{
	PGnotify *n = PQnotifies(pg->conn);

	if (!n)
		return false;
	snprintf(payload, size, "%s", n->extra ? n->extra : "");
	PQfreemem(n);
	return true;
}

void pg_set_own(struct pg *pg)
{
	pg->own = true;
}

void pg_set_shared(struct pg *pg)
{
	pg->shared = true;
}

bool pg_is_shared(const struct pg *pg)
{
	return pg->shared;
}

bool pg_is_own(const struct pg *pg)
{
	return pg->own;
}

const char *pg_user(const struct pg *pg)
{
	return PQuser(pg->conn);
}

int pg_server_pid(const struct pg *pg)
{
	return PQbackendPID(pg->conn);
}
