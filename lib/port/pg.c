/* SPDX-License-Identifier: MIT */
#include "port/pg.h"

#include "base/clock.h"
#include "port/answer.h"
#include "port/pg_connect.h"
#include "rows/admin.h"

#include <endian.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Types of parameters, from PostgreSQL's catalog (fixed since ever). */
enum {
	OID_BYTEA = 17,
	OID_INT8 = 20,
	OID_INT4 = 23,
	OID_TEXT = 25,
	OID_JSON = 114,
	OID_FLOAT8 = 701,
	OID_JSON_ARRAY = 199,
	OID_INT4_ARRAY = 1007,
	OID_TEXT_ARRAY = 1009,
	OID_INT8_ARRAY = 1016,
	OID_FLOAT8_ARRAY = 1022,
	OID_TIMESTAMPTZ = 1184,
	OID_INTERVAL = 1186,
	OID_INTERVAL_ARRAY = 1187,
	OID_TID = 27,
	OID_TID_ARRAY = 1010,
};

#define MAX_PREPARED 64

struct pg {
	PGconn *conn;
	bool borrowed;
	bool unnamed;
	bool transactions; /* pg_exec() makes them */
	bool pinned;       /* the session: see pg_pin() */
	bool own;
	bool denied;                      /* the last failure: see pg_denied() */
	bool here_only;                   /* a commit is not known to be on the synchronous standby */
	int answer_ms, lock_ms;           /* see pg_set_limits() */
	enum answer answer;               /* the last one; anything but ANSWER_CAME: the connection is not used again */
	char last_word[200];              /* why the server ended the session, said while nothing was asked of it */
	struct pg_connecting *connecting; /* conn is NULL until that ends */
	const struct sql_statement *prepared[MAX_PREPARED];
	int prepared_len;
	const struct sql_statement *sent_once[MAX_PREPARED]; /* unnamed, that is */
	int sent_once_len;
	/* What the pipeline expects back, in order. A statement NULL is an execution, else its preparation. */
	struct expected {
		int tag;
		const struct sql_statement *preparing;
		const struct sql_statement *stmt;
	} * expected;
	size_t expected_len, expected_at, expected_cap;
	size_t syncs; /* transactions whose end has not been read */
	bool failed;  /* a statement of the transaction whose answers are being read has */
	struct deferred_error pipeline_err;
	void (*on_notice)(void *data, const char *sqlstate, const char *message);
	void *notice_data;
};

/* ---- connections ------------------------------------------------------------------------------ */

static void note_last_word(struct pg *pg, const PGresult *res)
{
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED),
		   *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	if (severity && text && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
		snprintf(pg->last_word, sizeof(pg->last_word), "%s", text);
}

/* Nothing the server says is printed: libpq would write it to standard error. */
static void receive_notice(void *arg, const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE),
		   *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	const char *source = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);
	struct pg *pg = arg;

	note_last_word(pg, res);
	/* Its words are translated, and its state is that of any warning. */
	if (source && strcmp(source, "SyncRepWaitForLSN") == 0)
		pg->here_only = true;
	if (pg->on_notice && state && text)
		pg->on_notice(pg->notice_data, state, text);
}

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

static void connected(struct pg *pg)
{
	pg_connect_end(pg->connecting);
	pg->connecting = NULL;
	PQsetNoticeReceiver(pg->conn, receive_notice, pg);
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
		connected(*pg);
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
		connected(pg);
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
	if (PQtransactionStatus(conn) == PQTRANS_ACTIVE || PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
		return error_set(err, DEFERRED_EINVAL, "connect",
				 "the connection given is busy: a result is pending, or it is in pipeline mode\n"
				 "read all results with PQgetResult(), and leave pipeline mode");
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

bool pg_broken(const struct pg *pg)
{
	return pg->answer != ANSWER_CAME || PQstatus(pg->conn) != CONNECTION_OK;
}

bool pg_in_transaction(const struct pg *pg)
{
	PGTransactionStatusType s = PQtransactionStatus(pg->conn);

	return s == PQTRANS_INTRANS || s == PQTRANS_INERROR;
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

bool pg_alive(struct pg *pg)
{
	/* Twice: the first may read no further than the server's last words. */
	return PQconsumeInput(pg->conn) && PQconsumeInput(pg->conn) && PQstatus(pg->conn) == CONNECTION_OK;
}

void pg_on_notice(struct pg *pg, void (*f)(void *data, const char *sqlstate, const char *message), void *data)
{
	pg->on_notice = f;
	pg->notice_data = data;
	PQsetNoticeReceiver(pg->conn, receive_notice, pg);
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

bool pg_is_own(const struct pg *pg)
{
	return pg->own;
}

bool pg_denied(const struct pg *pg)
{
	return pg->denied;
}

const char *pg_user(const struct pg *pg)
{
	return PQuser(pg->conn);
}

int pg_server_pid(const struct pg *pg)
{
	return PQbackendPID(pg->conn);
}

/* ---- parameters ------------------------------------------------------------------------------- */

void pg_args_init(struct pg_args *args)
{
	args->n = 0;
	args->failed = false;
	args->buf = NULL;
	args->buf_len = args->buf_cap = 0;
}

void pg_args_clear(struct pg_args *args)
{
	free(args->buf);
	pg_args_init(args);
}

/* Room for len more bytes in buf; NULL when out of memory. Offsets, not pointers, are kept: buf moves. */
static char *room(struct pg_args *args, size_t len)
{
	if (args->failed)
		return NULL;
	if (args->buf_len + len > args->buf_cap) {
		size_t cap = (args->buf_cap ? args->buf_cap * 2 : 512) + len;
		char *buf = realloc(args->buf, cap);

		if (!buf) {
			args->failed = true;
			return NULL;
		}
		args->buf = buf;
		args->buf_cap = cap;
	}
	args->buf_len += len;
	return args->buf + args->buf_len - len;
}

static struct pg_arg *add_arg(struct pg_args *args, unsigned int type)
{
	struct pg_arg *a;

	if (args->n == (int)(sizeof(args->arg) / sizeof(args->arg[0]))) {
		args->failed = true;
		args->n--;
	}
	a = &args->arg[args->n++];
	memset(a, 0, sizeof(*a));
	a->type = type;
	a->at = args->buf_len;
	return a;
}

static void put16(struct pg_args *args, uint16_t v)
{
	char *p = room(args, 2);
	uint16_t be = htobe16(v);

	if (p)
		memcpy(p, &be, 2);
}

static void put32(struct pg_args *args, int32_t v)
{
	char *p = room(args, 4);
	uint32_t be = htobe32((uint32_t)v);

	if (p)
		memcpy(p, &be, 4);
}

static void put64(struct pg_args *args, uint64_t v)
{
	char *p = room(args, 8);
	uint64_t be = htobe64(v);

	if (p)
		memcpy(p, &be, 8);
}

static uint64_t float_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, 8);
	return bits;
}

void pg_arg_int4(struct pg_args *args, int32_t v)
{
	add_arg(args, OID_INT4)->len = 4;
	put32(args, v);
}

void pg_arg_int8(struct pg_args *args, int64_t v)
{
	add_arg(args, OID_INT8)->len = 8;
	put64(args, (uint64_t)v);
}

void pg_arg_id(struct pg_args *args, int64_t id)
{
	if (id > 0)
		pg_arg_int8(args, id);
	else
		pg_arg_null(args);
}

void pg_arg_timestamptz(struct pg_args *args, int64_t us)
{
	add_arg(args, OID_TIMESTAMPTZ)->len = 8;
	put64(args, (uint64_t)us);
}

void pg_arg_float8(struct pg_args *args, double v)
{
	add_arg(args, OID_FLOAT8)->len = 8;
	put64(args, float_bits(v));
}

static void borrow(struct pg_args *args, unsigned int type, const char *s, size_t len)
{
	struct pg_arg *a = add_arg(args, type);

	a->null = !s;
	a->borrowed = s;
	a->len = (int)len;
}

void pg_arg_text(struct pg_args *args, const char *s)
{
	borrow(args, OID_TEXT, s, s ? strlen(s) : 0);
}

void pg_arg_json(struct pg_args *args, const char *s, size_t len)
{
	borrow(args, OID_JSON, s, len);
}

void pg_arg_bytea(struct pg_args *args, const void *p, size_t len)
{
	borrow(args, OID_BYTEA, p, len);
}

void pg_arg_null(struct pg_args *args)
{
	add_arg(args, 0)->null = true;
}

/* Head of a one-dimensional array in binary form. */
static struct pg_arg *array_head(struct pg_args *args, unsigned int type, unsigned int element, bool has_null, size_t n)
{
	struct pg_arg *a = add_arg(args, type);

	put32(args, n > 0 ? 1 : 0);
	put32(args, has_null);
	put32(args, (int32_t)element);
	if (n > 0) {
		put32(args, (int32_t)n);
		put32(args, 1);
	}
	return a;
}

static void array_end(struct pg_args *args, struct pg_arg *a)
{
	a->len = (int)(args->buf_len - a->at);
}

static bool any(const bool *nulls, size_t n)
{
	return nulls && memchr(nulls, true, n);
}

void pg_arg_int4_array(struct pg_args *args, const int32_t *v, const bool *nulls, size_t n)
{
	struct pg_arg *a;

	if (!v) {
		add_arg(args, OID_INT4_ARRAY)->null = true;
		return;
	}
	a = array_head(args, OID_INT4_ARRAY, OID_INT4, any(nulls, n), n);
	for (size_t i = 0; i < n; i++) {
		put32(args, nulls && nulls[i] ? -1 : 4);
		if (!nulls || !nulls[i])
			put32(args, v[i]);
	}
	array_end(args, a);
}

static void array_of_8(struct pg_args *args, unsigned int type, unsigned int element, const void *v, const bool *nulls,
		       size_t n)
{
	const char *p = v;
	struct pg_arg *a;

	if (!v) {
		add_arg(args, type)->null = true;
		return;
	}
	a = array_head(args, type, element, any(nulls, n), n);
	for (size_t i = 0; i < n; i++) {
		uint64_t bits;

		put32(args, nulls && nulls[i] ? -1 : 8);
		memcpy(&bits, p + 8 * i, 8);
		if (!nulls || !nulls[i])
			put64(args, bits);
	}
	array_end(args, a);
}

void pg_arg_int8_array(struct pg_args *args, const int64_t *v, const bool *nulls, size_t n)
{
	array_of_8(args, OID_INT8_ARRAY, OID_INT8, v, nulls, n);
}

void pg_arg_tid_array(struct pg_args *args, const int64_t *tids, size_t n)
{
	struct pg_arg *a = array_head(args, OID_TID_ARRAY, OID_TID, false, n);

	for (size_t i = 0; i < n; i++) {
		put32(args, 6);
		put32(args, (int32_t)(tids[i] >> 16));
		put16(args, (uint16_t)tids[i]);
	}
	array_end(args, a);
}

void pg_arg_interval_array(struct pg_args *args, const int64_t *us, size_t n)
{
	struct pg_arg *a = array_head(args, OID_INTERVAL_ARRAY, OID_INTERVAL, false, n);

	for (size_t i = 0; i < n; i++) {
		put32(args, 16);
		put64(args, (uint64_t)us[i]);
		put64(args, 0); /* days, months */
	}
	array_end(args, a);
}

void pg_arg_float8_array(struct pg_args *args, const double *v, const bool *nulls, size_t n)
{
	array_of_8(args, OID_FLOAT8_ARRAY, OID_FLOAT8, v, nulls, n);
}

static void text_array(struct pg_args *args, unsigned int type, unsigned int element, const char *const *v,
		       const size_t *lens, size_t n)
{
	bool has_null = false;
	struct pg_arg *a;

	if (!v) {
		add_arg(args, type)->null = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		has_null |= !v[i];
	a = array_head(args, type, element, has_null, n);
	for (size_t i = 0; i < n; i++) {
		size_t len = !v[i] ? 0 : lens ? lens[i] : strlen(v[i]);
		char *p;

		put32(args, v[i] ? (int32_t)len : -1);
		p = room(args, len);
		if (p && len > 0)
			memcpy(p, v[i], len);
	}
	array_end(args, a);
}

void pg_arg_text_array(struct pg_args *args, const char *const *v, const size_t *lens, size_t n)
{
	text_array(args, OID_TEXT_ARRAY, OID_TEXT, v, lens, n);
}

void pg_arg_json_array(struct pg_args *args, const char *const *v, const size_t *lens, size_t n)
{
	text_array(args, OID_JSON_ARRAY, OID_JSON, v, lens, n);
}

/* As libpq wants them. */
struct wire {
	Oid types[32];
	const char *values[32];
	int lengths[32], formats[32];
	int n;
};

static int to_wire(struct wire *w, const struct pg_args *args, const char *where, struct deferred_error *err)
{
	w->n = args ? args->n : 0;
	if (args && args->failed)
		return error_set(err, DEFERRED_ENOMEM, where, "out of memory");
	for (int i = 0; i < w->n; i++) {
		const struct pg_arg *a = &args->arg[i];

		w->types[i] = a->type;
		w->values[i] = a->null ? NULL : a->borrowed ? a->borrowed : args->buf + a->at;
		w->lengths[i] = a->len;
		w->formats[i] = 1;
	}
	return 0;
}

/* ---- statements ------------------------------------------------------------------------------- */

/* What a failed result means. */
static int result_failed(struct pg *pg, const PGresult *res, const char *where, struct deferred_error *err)
{
	const char *state = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
	const char *text = res ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	const char *hint = res ? PQresultErrorField(res, PG_DIAG_MESSAGE_HINT) : NULL;
	const char *source = res ? PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION) : NULL;
	bool set = err && !err->code;
	int code;

	note_last_word(pg, res);
	pg->denied = source && strcmp(source, "aclcheck_error") == 0; /* its words are translated */
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
	if (set && !(source && strcmp(source, "exec_stmt_raise") == 0)) /* else the words are ours */
		error_explain(err);
	if (set && hint && !err->hint[0])
		error_hint(err, "%s", hint);
	return code;
}

/*
 * Somebody cancelled the wait for the synchronous standby: what was committed is here, and lost should this server be.
 * So it is neither a success nor a failure. On a borrowed connection the caller's own receiver of notices is told.
 */
static int known_elsewhere(struct pg *pg, const char *where, struct deferred_error *err)
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

/* ---- what one statement may take ---- */

/* No answer, or one that says it was given up. commits: what was sent may have been committed by itself. */
static int too_late(struct pg *pg, bool commits, const char *where, struct deferred_error *err)
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

	result_failed(pg, res, where, err);
	if (set) {
		err->code = DEFERRED_ETIMEOUT;
		len = strlen(err->message);
		snprintf(err->message + len, sizeof(err->message) - len, "; nothing has been changed");
	}
	return DEFERRED_ETIMEOUT;
}

/*
 * Take the answer to what has just been sent, and hand it out if it has one of two good ends. sent: libpq's word that
 * it could. A request to give up that the server heard ends in an error, so that nothing was changed; or it came too
 * late, and all is well; or the commit waits for a standby, and is told.
 */
static int take_answer(struct pg *pg, int sent, bool commits, const char *where, PGresult **out,
		       struct deferred_error *err)
{
	struct pg_result *res = NULL;
	ExecStatusType status;
	const char *state;
	int rc;

	*out = NULL;
	if (!sent)
		return result_failed(pg, NULL, where, err);
	pg->answer = answer_take(pg->conn, pg->answer_ms, &res);
	if (pg->answer == ANSWER_NONE)
		return too_late(pg, commits, where, err);
	status = PQresultStatus((PGresult *)res);
	state = PQresultErrorField((PGresult *)res, PG_DIAG_SQLSTATE);
	if (pg->answer == ANSWER_CANCELLED && (state ? strcmp(state, "57014") == 0 : pg_in_transaction(pg))) {
		rc = too_late(pg, false, where, err);
	} else if (state && strcmp(state, "55P03") == 0 && pg->lock_ms) {
		rc = lock_not_granted(pg, (PGresult *)res, where, err);
	} else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_COPY_IN ||
		   status == PGRES_COPY_OUT) {
		rc = known_elsewhere(pg, where, err);
	} else {
		rc = result_failed(pg, (PGresult *)res, where, err);
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
	PQisBusy(pg->conn); /* what came in with the end is read: see receive_notice() */
	return result_failed(pg, NULL, where, err);
}

static bool is_prepared(const struct pg *pg, const struct sql_statement *stmt)
{
	for (int i = 0; i < pg->prepared_len; i++)
		if (pg->prepared[i] == stmt)
			return true;
	return false;
}

/* Preparing takes a round trip, which pays from the second time on. */
static bool worth_preparing(struct pg *pg, const struct sql_statement *stmt)
{
	if (pg->unnamed || is_prepared(pg, stmt) || pg->prepared_len == MAX_PREPARED)
		return false;
	for (int i = 0; i < pg->sent_once_len; i++)
		if (pg->sent_once[i] == stmt)
			return true;
	if (pg->sent_once_len < MAX_PREPARED)
		pg->sent_once[pg->sent_once_len++] = stmt;
	return false;
}

static void set_prepared(struct pg *pg, const struct sql_statement *stmt)
{
	if (!is_prepared(pg, stmt) && pg->prepared_len < MAX_PREPARED)
		pg->prepared[pg->prepared_len++] = stmt;
}

static int prepare(struct pg *pg, const struct sql_statement *stmt, const struct wire *w, struct deferred_error *err)
{
	PGresult *res;
	int rc = take_answer(pg, PQsendPrepare(pg->conn, stmt->name, stmt->text, w->n, w->types), false, stmt->name,
			     &res, err);

	PQclear(res);
	if (rc == 0)
		set_prepared(pg, stmt);
	return rc;
}

static int exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum pg_format format,
		struct pg_result **out, struct deferred_error *err)
{
	bool commits = !pg_in_transaction(pg);
	PGresult *res;
	struct wire w;
	int rc, sent;

	*out = NULL;
	rc = to_wire(&w, args, stmt->name, err);
	if (rc == 0 && worth_preparing(pg, stmt))
		rc = prepare(pg, stmt, &w, err);
	if (rc < 0)
		return rc;
	if (!pg->unnamed && is_prepared(pg, stmt))
		sent = PQsendQueryPrepared(pg->conn, stmt->name, w.n, w.values, w.lengths, w.formats, (int)format);
	else
		sent = PQsendQueryParams(pg->conn, stmt->text, w.n, w.types, w.values, w.lengths, w.formats,
					 (int)format);
	rc = take_answer(pg, sent, commits, stmt->name, &res, err);
	*out = (struct pg_result *)res;
	return rc;
}

int pg_exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum pg_format format,
	    struct pg_result **out, struct deferred_error *err)
{
	int rc;

	if ((!pg->transactions && !pg->lock_ms) || pg_in_transaction(pg))
		return exec(pg, stmt, args, format, out, err);
	*out = NULL;
	rc = pg_begin(pg, "", err);
	if (rc == 0)
		rc = exec(pg, stmt, args, format, out, err);
	if (rc == 0)
		rc = pg_command(pg, "commit", err);
	else if (!pg_broken(pg) && pg_in_transaction(pg))
		pg_command(pg, "rollback", NULL);
	if (rc < 0) {
		pg_result_free(*out);
		*out = NULL;
	}
	return rc;
}

int pg_command(struct pg *pg, const char *sql, struct deferred_error *err)
{
	bool commits = !pg_in_transaction(pg) ? strncmp(sql, "begin", 5) != 0 : strcmp(sql, "commit") == 0;
	PGresult *res;
	int rc = take_answer(pg, PQsendQuery(pg->conn, sql), commits, "command", &res, err);

	PQclear(res);
	return rc;
}

/* A pooler tells its clients a number of its own, not that of the process. *shared: it does so. */
static int pin(struct pg *pg, bool *shared, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, pg_server_pid(pg));
	rc = exec(pg, &sql_session_pin, &args, PG_TEXT, &res, err);
	pg_args_clear(&args);
	*shared = rc < 0 || session_pin_row(res, 0).shared;
	pg_result_free(res);
	return rc;
}

int pg_pin(struct pg *pg, struct deferred_error *err)
{
	bool shared;
	int rc = pin(pg, &shared, err);

	pg->pinned = !shared;
	return rc;
}

void pg_unpin(struct pg *pg)
{
	pg->pinned = false;
}

int pg_begin(struct pg *pg, const char *more, struct deferred_error *err)
{
	static const char begin[] = "begin isolation level read committed;";
	bool apart = !pg->pinned && !pg->borrowed, shared;
	char limit[64] = "", sql[384];
	int rc = apart ? pg_command(pg, begin, err) : 0;

	if (rc == 0 && apart)
		rc = pin(pg, &shared, err);
	if (pg->lock_ms)
		snprintf(limit, sizeof(limit), "set local lock_timeout = %d;", pg->lock_ms);
	snprintf(sql, sizeof(sql), "%s%s%s", apart ? "" : begin, limit, more);
	return rc == 0 && *sql ? pg_command(pg, sql, err) : rc;
}

int pg_copy_begin(struct pg *pg, const char *sql, struct deferred_error *err)
{
	static const char head[19] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
	PGresult *res;
	int rc = take_answer(pg, PQsendQuery(pg->conn, sql), false, "copy", &res, err);

	PQclear(res);
	return rc < 0 ? rc : pg_copy_data(pg, head, sizeof(head), err);
}

int pg_copy_data(struct pg *pg, const char *buf, size_t len, struct deferred_error *err)
{
	if (PQputCopyData(pg->conn, buf, (int)len) != 1)
		return result_failed(pg, NULL, "copy", err);
	if (answer_flush(pg->conn, pg->answer_ms))
		return 0;
	pg->answer = ANSWER_NONE;
	return too_late(pg, false, "copy", err);
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
		rc = result_failed(pg, NULL, "copy", err);
	/* What was ended for a reason is refused by the server, as it should be. */
	ended = take_answer(pg, 1, false, "copy", &res, rc < 0 || cancel_reason ? NULL : err);
	PQclear(res);
	return rc < 0 || cancel_reason ? rc : ended;
}

int pg_copy_out(struct pg *pg, const char *sql,
		int (*row)(void *data, const char *row, size_t len, struct deferred_error *err), void *data,
		int64_t *rows, struct deferred_error *err)
{
	PGresult *res;
	char *line = NULL;
	int rc = take_answer(pg, PQsendQuery(pg->conn, sql), false, "copy", &res, err), len = 0;

	PQclear(res);
	while (rc == 0 && (len = answer_row(pg->conn, pg->answer_ms, &line)) > 0) {
		rc = row(data, line, (size_t)len, err);
		PQfreemem(line);
	}
	if (rc == 0 && len == ANSWER_ROW_LATE) {
		pg->answer = ANSWER_NONE;
		return too_late(pg, false, "copy", err);
	}
	if (rc < 0) {
		shutdown(PQsocket(pg->conn), SHUT_RDWR);
		return rc;
	}
	if ((rc = take_answer(pg, 1, false, "copy", &res, err)) == 0)
		*rows = strtoll(PQcmdTuples(res), NULL, 10);
	PQclear(res);
	return rc;
}

/* ---- results ---------------------------------------------------------------------------------- */

static const PGresult *pgres(const struct pg_result *res)
{
	return (const PGresult *)res;
}

size_t pg_rows(const struct pg_result *res)
{
	return (size_t)PQntuples(pgres(res));
}

int pg_column(const struct pg_result *res, const char *name)
{
	return PQfnumber(pgres(res), name);
}

bool pg_null(const struct pg_result *res, size_t row, int col)
{
	return PQgetisnull(pgres(res), (int)row, col);
}

const char *pg_text(const struct pg_result *res, size_t row, int col, size_t *len)
{
	if (len)
		*len = (size_t)PQgetlength(pgres(res), (int)row, col);
	return PQgetvalue(pgres(res), (int)row, col);
}

int64_t pg_tid(const struct pg_result *res, size_t row, int col)
{
	const char *p = PQgetvalue(pgres(res), (int)row, col);
	uint32_t page;
	uint16_t line;

	if (PQgetisnull(pgres(res), (int)row, col) ||
	    PQgetlength(pgres(res), (int)row, col) != (int)(sizeof(page) + sizeof(line)))
		return 0;
	memcpy(&page, p, sizeof(page));
	memcpy(&line, p + sizeof(page), sizeof(line));
	return (int64_t)be32toh(page) << 16 | be16toh(line);
}

int64_t pg_int(const struct pg_result *res, size_t row, int col)
{
	const char *p = PQgetvalue(pgres(res), (int)row, col);
	int len = PQgetlength(pgres(res), (int)row, col);
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	if (PQgetisnull(pgres(res), (int)row, col))
		return 0;
	if (PQfformat(pgres(res), col) == 0)
		return strtoll(p, NULL, 10);
	switch (len) {
	case 2:
		memcpy(&v16, p, 2);
		return (int16_t)be16toh(v16);
	case 4:
		memcpy(&v32, p, 4);
		return (int32_t)be32toh(v32);
	case 8:
		memcpy(&v64, p, 8);
		return (int64_t)be64toh(v64);
	default:
		return 0;
	}
}

double pg_float(const struct pg_result *res, size_t row, int col)
{
	const char *p = PQgetvalue(pgres(res), (int)row, col);
	uint64_t bits;
	double v;

	if (PQgetisnull(pgres(res), (int)row, col))
		return 0;
	if (PQfformat(pgres(res), col) == 0)
		return strtod(p, NULL);
	if (PQgetlength(pgres(res), (int)row, col) != 8)
		return 0;
	memcpy(&bits, p, 8);
	bits = be64toh(bits);
	memcpy(&v, &bits, 8);
	return v;
}

bool pg_bool(const struct pg_result *res, size_t row, int col)
{
	char c = PQgetisnull(pgres(res), (int)row, col) ? 0 : *PQgetvalue(pgres(res), (int)row, col);

	return PQfformat(pgres(res), col) == 0 ? c == 't' : c != 0;
}

void pg_result_free(struct pg_result *res)
{
	PQclear((PGresult *)res);
}

/* ---- pipeline --------------------------------------------------------------------------------- */

static void expect(struct pg *pg, int tag, const struct sql_statement *stmt, const struct sql_statement *preparing)
{
	pg->expected[pg->expected_len++] = (struct expected){ tag, preparing, stmt };
}

/* Room for a statement and its preparation. */
static int reserve_expected(struct pg *pg)
{
	size_t cap = pg->expected_cap ? pg->expected_cap * 2 : 32;
	struct expected *bigger;

	if (pg->expected_len + 2 <= pg->expected_cap)
		return 0;
	bigger = realloc(pg->expected, cap * sizeof(*bigger));
	if (!bigger)
		return -1;
	pg->expected = bigger;
	pg->expected_cap = cap;
	return 0;
}

static bool in_pipeline(const struct pg *pg, const struct sql_statement *stmt)
{
	for (size_t i = pg->expected_at; i < pg->expected_len; i++)
		if (pg->expected[i].preparing == stmt)
			return true;
	return false;
}

static int enter_pipeline(struct pg *pg, const char *where, struct deferred_error *err)
{
	if (PQpipelineStatus(pg->conn) != PQ_PIPELINE_OFF)
		return 0;
	PQsetnonblocking(pg->conn, 1);
	if (!PQenterPipelineMode(pg->conn))
		return result_failed(pg, NULL, where, err);
	pg->expected_len = pg->expected_at = 0;
	error_clear(&pg->pipeline_err);
	pg->failed = false;
	return 0;
}

int pg_pipeline_add(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, int tag,
		    struct deferred_error *err)
{
	bool known, named;
	struct wire w;
	int rc, sent;

	rc = to_wire(&w, args, stmt->name, err);
	if (rc == 0)
		rc = enter_pipeline(pg, stmt->name, err);
	if (rc < 0)
		return rc;
	if (reserve_expected(pg) < 0)
		return error_set(err, DEFERRED_ENOMEM, stmt->name, "out of memory");
	known = is_prepared(pg, stmt) || in_pipeline(pg, stmt);
	named = !pg->unnamed && (known || pg->prepared_len < MAX_PREPARED);
	if (named && !known) {
		if (!PQsendPrepare(pg->conn, stmt->name, stmt->text, w.n, w.types))
			return result_failed(pg, NULL, stmt->name, err);
		expect(pg, tag, stmt, stmt);
	}
	if (named)
		sent = PQsendQueryPrepared(pg->conn, stmt->name, w.n, w.values, w.lengths, w.formats, 1);
	else
		sent = PQsendQueryParams(pg->conn, stmt->text, w.n, w.types, w.values, w.lengths, w.formats, 1);
	if (!sent)
		return result_failed(pg, NULL, stmt->name, err);
	expect(pg, tag, stmt, NULL);
	return 0;
}

int pg_pipeline_commit(struct pg *pg, struct deferred_error *err)
{
	if (!PQpipelineSync(pg->conn))
		return result_failed(pg, NULL, "pipeline", err);
	pg->syncs++;
	return 0;
}

int pg_pipeline_send(struct pg *pg, struct deferred_error *err)
{
	int rc = pg_pipeline_commit(pg, err);

	if (rc == 0 && PQflush(pg->conn) < 0)
		rc = result_failed(pg, NULL, "pipeline", err);
	return rc;
}

/* The rest of its transaction is passed over by the server; of several that fail, the first one's error is told. */
static void part_failed(struct pg *pg, const PGresult *res, const char *where)
{
	struct deferred_error err = { 0 };

	pg->failed = true;
	if (PQresultStatus(res) == PGRES_PIPELINE_ABORTED)
		return;
	result_failed(pg, res, where, &err);
	if (!pg->pipeline_err.code)
		pg->pipeline_err = err;
}

/* Why the server ended the session may have come in with the end. */
static int pipeline_lost(struct pg *pg, struct deferred_error *err)
{
	for (size_t i = 0; i < 2 * pg->expected_len && !pg->last_word[0] && !PQisBusy(pg->conn); i++) {
		PGresult *res = PQgetResult(pg->conn);

		note_last_word(pg, res);
		PQclear(res);
	}
	return result_failed(pg, NULL, "pipeline", err);
}

int pg_pipeline_poll(struct pg *pg, void (*on_result)(void *data, int tag, const struct pg_result *res), void *data,
		     bool *done, struct deferred_error *err)
{
	bool sent = PQflush(pg->conn) >= 0, heard = PQconsumeInput(pg->conn);

	*done = false;
	if (!sent || !heard)
		return pipeline_lost(pg, err);
	while (pg->syncs > 0 && !PQisBusy(pg->conn)) {
		PGresult *res = PQgetResult(pg->conn);
		ExecStatusType status = PQresultStatus(res);
		size_t at = pg->expected_at;

		if (!res) /* separates the results of two statements */
			continue;
		if (status == PGRES_PIPELINE_SYNC) {
			pg->syncs--;
			on_result(data, pg->failed ? PG_FAILED : PG_COMMITTED, NULL);
			pg->failed = false;
		} else if (at < pg->expected_len) {
			const struct sql_statement *preparing = pg->expected[at].preparing;

			pg->expected_at++;
			if (status == PGRES_COMMAND_OK && preparing)
				set_prepared(pg, preparing);
			else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
				on_result(data, pg->expected[at].tag, (struct pg_result *)res);
			else
				part_failed(pg, res, pg->expected[at].stmt->name);
		}
		PQclear(res);
		if (PQstatus(pg->conn) != CONNECTION_OK)
			break;
	}
	if (PQstatus(pg->conn) != CONNECTION_OK) {
		/* What the server said last ("terminating connection ...") tells more than the broken pipe. */
		if (pg->pipeline_err.code) {
			if (err)
				*err = pg->pipeline_err;
			if (err)
				err->code = DEFERRED_ELOST;
			return DEFERRED_ELOST;
		}
		return result_failed(pg, NULL, "pipeline", err);
	}
	if (pg->syncs > 0)
		return 0;
	*done = true;
	if (PQexitPipelineMode(pg->conn) == 1)
		PQsetnonblocking(pg->conn, pg->answer_ms > 0);
	if (pg->pipeline_err.code) {
		if (err && !err->code)
			*err = pg->pipeline_err;
		return pg->pipeline_err.code;
	}
	return known_elsewhere(pg, "pipeline", err);
}

int pg_pipeline_wait(struct pg *pg, void (*on_result)(void *data, int tag, const struct pg_result *res), void *data,
		     int limit_ms, struct deferred_error *err)
{
	uint64_t end = clock_ns() + (uint64_t)limit_ms * NS_PER_MS;
	bool done = false;
	int rc = 0;

	while (rc == 0 && !done) {
		struct pollfd fd = { pg_fd(pg), pg_events(pg), 0 };
		uint64_t now = clock_ns();

		if (now >= end) {
			shutdown(PQsocket(pg->conn),
				 SHUT_RDWR); /* what is still to come would be taken for the answer to something else */
			pg->answer = ANSWER_NONE;
			return error_set(err, DEFERRED_ELOST, "pipeline",
					 "the server has not answered for %d ms\nlook at its load, and at the network",
					 limit_ms);
		}
		poll(&fd, 1, (int)((end - now) / NS_PER_MS) + 1);
		rc = pg_pipeline_poll(pg, on_result, data, &done, err);
	}
	return rc;
}
