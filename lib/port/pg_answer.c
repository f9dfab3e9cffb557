/* SPDX-License-Identifier: MIT */
#include "port/pg_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool pg_broken(const struct pg *pg)
{
	return pg->answer != ANSWER_CAME || PQstatus(pg->conn) != CONNECTION_OK;
}

bool pg_in_transaction(const struct pg *pg)
{
	PGTransactionStatusType s = PQtransactionStatus(pg->conn);

	return s == PQTRANS_INTRANS || s == PQTRANS_INERROR;
}

bool pg_denied(const struct pg *pg)
{
	return pg->denied;
}

void pg_note_last_word(struct pg *pg, const PGresult *res)
{
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED),
		   *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	if (severity && text && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
		snprintf(pg->last_word, sizeof(pg->last_word), "%s", text);
}

void pg_receive_notice(void *arg, const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE),
		   *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	const char *source = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);
	struct pg *pg = arg;

	pg_note_last_word(pg, res);
	/* The words are translated, and the state is that of any warning. */
	if (source && strcmp(source, "SyncRepWaitForLSN") == 0)
		pg->here_only = true;
	if (pg->on_notice && state && text)
		pg->on_notice(pg->notice_data, state, text);
}

bool pg_alive(struct pg *pg)
{
	/* Twice: the first call may read only as far as the server's last words. */
	return PQconsumeInput(pg->conn) && PQconsumeInput(pg->conn) && PQstatus(pg->conn) == CONNECTION_OK;
}

int pg_failed_result(struct pg *pg, const PGresult *res, const char *where, struct deferred_error *err)
{
	const char *state = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
	const char *text = res ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	const char *hint = res ? PQresultErrorField(res, PG_DIAG_MESSAGE_HINT) : NULL;
	const char *source = res ? PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION) : NULL;
	bool set = err && !err->code;
	int code;

	pg_note_last_word(pg, res);
	pg->denied = source && strcmp(source, "aclcheck_error") == 0; /* the words are translated */
	if (!state && PQstatus(pg->conn) != CONNECTION_OK) {
		const char *m = pg->last_word[0] ? pg->last_word : PQerrorMessage(pg->conn);

		return error_set(err, DEFERRED_ELOST, where,
				 "connection lost: %.*s\nlook whether it was done before you do it again; "
				 "the log of the server says why",
				 (int)strcspn(m, "\n"), m);
	}
	code = state && error_class(state) == ERROR_CONNECTION ? DEFERRED_ELOST
	       : state && error_class(state) == ERROR_SCHEMA   ? DEFERRED_ESCHEMA
							       : DEFERRED_EDB;
	if (!text) {
		text = res ? PQresultErrorMessage(res) : PQerrorMessage(pg->conn);
		error_set(err, code, where, "%.*s", (int)strcspn(text, "\n"), text);
	} else {
		error_set(err, code, where, "%s", text);
	}
	if (set && state)
		snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", state);
	if (set && !(source && strcmp(source, "exec_stmt_raise") == 0)) /* not words of our functions */
		error_explain(err);
	if (set && hint && !err->hint[0])
		error_hint(err, "%s", hint);
	return code;
}

int pg_known_elsewhere(struct pg *pg, const char *where, struct deferred_error *err)
{
	if (!pg->here_only)
		return 0;
	pg->here_only = false;
	if (pg->answer == ANSWER_CANCELLED)
		error_set(
			err, DEFERRED_ELOST, where,
			"stored on one server only, outcome unknown: no synchronous standby has confirmed it for %d ms",
			pg->answer_ms);
	else
		error_set(
			err, DEFERRED_ELOST, where,
			"stored on one server only, outcome unknown: the wait for a synchronous standby was cancelled");
	error_hint(err, "it stays if that server does; with a key it can be repeated safely");
	return DEFERRED_ELOST;
}

int pg_too_late(struct pg *pg, bool commits, const char *where, struct deferred_error *err)
{
	shutdown(PQsocket(pg->conn), SHUT_RDWR);
	if (commits) {
		error_set(err, DEFERRED_ELOST, where, "no answer for %d ms, outcome unknown", pg->answer_ms);
		error_hint(err, "it may have been done, or be done yet; with a key it can be repeated safely");
		return DEFERRED_ELOST;
	}
	return error_set(err, DEFERRED_ETIMEOUT, where, "no answer for %d ms; nothing has been changed\nrun it again",
			 pg->answer_ms);
}

static int lock_not_granted(struct pg *pg, const PGresult *res, const char *where, struct deferred_error *err)
{
	bool set = err && !err->code;
	size_t len;

	pg_failed_result(pg, res, where, err);
	if (set) {
		err->code = DEFERRED_ETIMEOUT;
		len = strlen(err->message);
		snprintf(err->message + len, sizeof(err->message) - len, "; nothing has been changed");
	}
	return DEFERRED_ETIMEOUT;
}

int pg_take_answer(struct pg *pg, int sent, bool commits, const char *where, PGresult **out, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	ExecStatusType status;
	const char *state;
	int rc;

	*out = NULL;
	if (!sent)
		return pg_failed_result(pg, NULL, where, err);
	pg->answer = answer_take(pg->conn, pg->answer_ms, &res);
	if (pg->answer == ANSWER_NONE)
		return pg_too_late(pg, commits, where, err);
	status = PQresultStatus((PGresult *)res);
	state = PQresultErrorField((PGresult *)res, PG_DIAG_SQLSTATE);
	if (pg->answer == ANSWER_CANCELLED && (state ? strcmp(state, "57014") == 0 : pg_in_transaction(pg))) {
		rc = pg_too_late(pg, false, where, err);
	} else if (state && strcmp(state, "55P03") == 0 && pg->lock_ms) {
		rc = lock_not_granted(pg, (PGresult *)res, where, err);
	} else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_COPY_IN ||
		   status == PGRES_COPY_OUT) {
		rc = pg_known_elsewhere(pg, where, err);
	} else {
		rc = pg_failed_result(pg, (PGresult *)res, where, err);
	}
	if (rc == DEFERRED_ETIMEOUT && err && state)
		snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", state);
	if (pg->answer == ANSWER_CANCELLED)
		shutdown(PQsocket(pg->conn), SHUT_RDWR);
	if (rc == 0)
		*out = (PGresult *)res;
	else
		pg_result_free(res);
	return rc;
}

int pg_gone(struct pg *pg, const char *where, struct deferred_error *err)
{
	PQisBusy(pg->conn); /* what came in with the end is read: see pg_receive_notice() */
	return pg_failed_result(pg, NULL, where, err);
}
