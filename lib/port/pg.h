/* SPDX-License-Identifier: MIT */
/*
 * pg - connections, parameters and results. Only these files include libpq:
 *
 *     pg.c           connections; pg_connect.c makes them
 *     pg_args.c      parameters
 *     pg_exec.c      statements, one at a time; pg_copy.c: COPY; pg_pipeline.c: several in one round trip
 *     pg_answer.c    what the server answers, and what that means; answer.c waits for it
 *     pg_result.c    columns of results
 *
 * lib/store and the generated functions of build/gen/rows/NAME.h send the statements of sql/queries through it.
 *
 * Order of calls: pg_open() or pg_borrow(); for each statement pg_args_init(), pg_arg_...() in the order
 * of $1.., pg_exec(), read the result, pg_result_free(), pg_args_clear(); pg_close().
 *
 * A pipeline sends several statements in one transaction and one round trip without waiting. Call pg_pipeline_add() for
 * each, then pg_pipeline_send(). Then call pg_pipeline_poll() whenever pg_fd() has one of pg_events(), until it is
 * done.
 */
#ifndef PG_H
#define PG_H

#include "base/error.h"
#include "sql.h" /* made from sql/: struct sql_statement { const char *name, *text; }, and one object each */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg;
struct pg_result;

/*
 * Connect and wait for it. conninfo: libpq's, "" or NULL: its environment. program: application_name. Defaults are
 * added for what conninfo does not set: connect_timeout 10 s, keepalives, tcp_user_timeout, UTF-8. Notices of the
 * server are dropped; see pg_on_notice(). Returns 0 or DEFERRED_ECONNECT. Then err->where is PG_CONNINFO if conninfo is
 * wrong, and PG_LOGIN if the server refused the password. It is PG_REFUSED if the server refused the connection for
 * another reason that lasts.
 */
#define PG_CONNINFO "conninfo"
#define PG_LOGIN "login"
#define PG_REFUSED "refused"
int pg_open(struct pg **pg, const char *conninfo, const char *program, struct deferred_error *err);

/* Host, port, database and role of a connection string, with what libpq adds: one line, to be freed. Nothing is
 * connected. Returns 0, DEFERRED_ECONNECT (conninfo is wrong) or DEFERRED_ENOMEM. */
int pg_place(const char *conninfo, char **place, struct deferred_error *err);

/* pg_open() as another user, who has to show a password: a server that lets in whoever comes is refused, with
 * PG_TRUSTED in err->where. */
#define PG_TRUSTED "trusted"
int pg_open_as(struct pg **pg, const char *conninfo, const char *program, const char *user, const char *password,
	       struct deferred_error *err);

/*
 * The same without waiting, not even for name servers. Call pg_open_poll() regularly, and whenever pg_fd() has one of
 * pg_events(), until *done. limit_ms: see pg_connect_start().
 */
int pg_open_start(struct pg **pg, const char *conninfo, const char *program, int limit_ms, struct deferred_error *err);
int pg_open_poll(struct pg *pg, bool *done, struct deferred_error *err);

/* Use the caller's connection. pg_close() leaves it open. Statements go unnamed, its session is not changed. */
int pg_borrow(struct pg **pg, struct pg_conn *conn, struct deferred_error *err);

void pg_close(struct pg *pg); /* NULL is accepted */
bool pg_broken(const struct pg *pg);
bool pg_in_transaction(const struct pg *pg);
int pg_fd(const struct pg *pg);
short pg_events(const struct pg *pg); /* POLLIN and, while output waits, POLLOUT */

/*
 * No setting of the role, the database or the server changes our statements, their output or their names. pg_pin()
 * makes the settings for the session. Behind a pooler, which shares sessions, it makes no lasting setting. There, and
 * without pg_pin(), pg_begin() makes them for its transaction. pg_unpin(): the session was reset.
 */
int pg_pin(struct pg *pg, struct deferred_error *err);
void pg_unpin(struct pg *pg);

/*
 * Begin a transaction, with these settings and the limit of locks. A statement of it that has waited for a lock sees
 * what was committed meanwhile. more: "", or commands to begin with, separated by ";". On a borrowed connection the
 * settings are the caller's.
 */
int pg_begin(struct pg *pg, const char *more, struct deferred_error *err);

/*
 * The time limits of one answer, and of the wait for a lock in a transaction begun here; 0, the default: none. The
 * first is kept by the client. The second is set in the transaction alone, so a pooler may be in between. A statement
 * over the limit is cancelled. DEFERRED_ETIMEOUT: it changed nothing. DEFERRED_ELOST: that is unknown; the message has
 * details. After that the connection is broken.
 */
void pg_set_limits(struct pg *pg, int answer_ms, int lock_ms);

/* From now on pg_exec() outside of a transaction makes one of its own, by pg_begin(). */
void pg_set_transactions(struct pg *pg);

/* From now on send statements unnamed: a transaction pooler is in between. */
void pg_set_unnamed(struct pg *pg);
bool pg_is_unnamed(const struct pg *pg);

/* Take in what the server sent of its own accord while the connection was idle. False: it has gone. */
bool pg_alive(struct pg *pg);

/* It has gone: say why, in the server's last words where it said any. Returns DEFERRED_ELOST. */
int pg_gone(struct pg *pg, const char *where, struct deferred_error *err);

/* The next notification that has come in, with its payload cut to fit. False: there is none. */
bool pg_notification(struct pg *pg, char *payload, size_t size);

/* No pooler is in between, and the session has the settings it needs. */
void pg_set_own(struct pg *pg);
bool pg_is_own(const struct pg *pg);

/* A pooler is in between, so that each transaction sets its isolation level. */
void pg_set_shared(struct pg *pg);
bool pg_is_shared(const struct pg *pg);

/* Did the last statement that failed lack a privilege of the role, not something one of our functions asks for? */
bool pg_denied(const struct pg *pg);
const char *pg_user(const struct pg *pg);

/* The process id of the server session; a pooler reports its own number. */
int pg_server_pid(const struct pg *pg);

/* Parameters. Grows as needed; an allocation failure is remembered and reported by pg_exec(). */
struct pg_args {
	int n;
	bool failed;
	char *buf;
	size_t buf_len, buf_cap;
	struct pg_arg {
		unsigned int type; /* Oid */
		bool null;
		const char *borrowed; /* else in buf */
		size_t at;
		int len;
	} arg[32];
};
void pg_args_init(struct pg_args *args);
void pg_args_clear(struct pg_args *args);
void pg_arg_int4(struct pg_args *args, int32_t v);
void pg_arg_int8(struct pg_args *args, int64_t v);
void pg_arg_id(struct pg_args *args, int64_t id); /* null where it is none: 0 or below */
void pg_arg_float8(struct pg_args *args, double v);
void pg_arg_timestamptz(struct pg_args *args,
			int64_t us); /* microseconds since 2000, as pg_int() gives them; INT64_MIN: -infinity */
void pg_arg_text(struct pg_args *args, const char *s);              /* NULL: SQL NULL. Borrowed */
void pg_arg_json(struct pg_args *args, const char *s, size_t len);  /* Borrowed */
void pg_arg_bytea(struct pg_args *args, const void *p, size_t len); /* NULL: SQL NULL. Borrowed */
void pg_arg_null(struct pg_args *args);                             /* type is left to the server */
/* Arrays are copied. v NULL: SQL NULL. nulls NULL: none; else nulls[i] makes element i NULL. */
void pg_arg_int4_array(struct pg_args *args, const int32_t *v, const bool *nulls, size_t n);
void pg_arg_int8_array(struct pg_args *args, const int64_t *v, const bool *nulls, size_t n);
void pg_arg_float8_array(struct pg_args *args, const double *v, const bool *nulls, size_t n);
void pg_arg_tid_array(struct pg_args *args, const int64_t *tids, size_t n);    /* as pg_tid() gives them; not NULL */
void pg_arg_interval_array(struct pg_args *args, const int64_t *us, size_t n); /* microseconds; not NULL */
/* An element NULL is SQL NULL. lens NULL: NUL-terminated. */
void pg_arg_text_array(struct pg_args *args, const char *const *v, const size_t *lens, size_t n);
void pg_arg_json_array(struct pg_args *args, const char *const *v, const size_t *lens, size_t n);

/*
 * Call f for each notice of the server, with sqlstate and message, borrowed for the call. Without f, notices are
 * dropped.
 */
void pg_on_notice(struct pg *pg, void (*f)(void *data, const char *sqlstate, const char *message), void *data);

enum pg_format { PG_TEXT = 0, PG_BINARY = 1 };

/*
 * Run one statement and wait. *res receives the result (free it) or NULL on failure. On failure:
 * DEFERRED_EDB with sqlstate, message and hint of the server; DEFERRED_ELOST when the connection broke;
 * DEFERRED_ENOMEM; DEFERRED_ETIMEOUT, see pg_set_limits(). Statements are prepared at their second use, unless the
 * connection is unnamed or borrowed.
 */
int pg_exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum pg_format format,
	    struct pg_result **res, struct deferred_error *err);

/* Run SQL without parameters, several statements allowed ("begin"; a migration). */
int pg_command(struct pg *pg, const char *sql, struct deferred_error *err);

/* COPY table (columns) FROM STDIN, binary: begin, then rows of fields as raw bytes, then end. */
int pg_copy_begin(struct pg *pg, const char *sql, struct deferred_error *err);
int pg_copy_data(struct pg *pg, const char *buf, size_t len, struct deferred_error *err);
int pg_copy_end(struct pg *pg, const char *cancel_reason, struct deferred_error *err); /* reason NULL: complete */

/*
 * COPY ... TO STDOUT. Each line of the server, the header too, is passed to `row`, borrowed for the call. *rows: the
 * number that the server reports. The limit of an answer applies between two rows. A result of `row` other than 0 ends
 * the copy; after a failure the connection is broken.
 */
int pg_copy_out(struct pg *pg, const char *sql,
		int (*row)(void *data, const char *row, size_t len, struct deferred_error *err), void *data,
		int64_t *rows, struct deferred_error *err);

/* Results. Text columns are NUL-terminated in both formats. */
size_t pg_rows(const struct pg_result *res);
int pg_column(const struct pg_result *res, const char *name); /* -1: there is none */
bool pg_null(const struct pg_result *res, size_t row, int col);
const char *pg_text(const struct pg_result *res, size_t row, int col,
		    size_t *len);                                 /* len may be NULL; NULL value: "" */
int64_t pg_int(const struct pg_result *res, size_t row, int col); /* int2, int4, int8 in either format; NULL: 0 */
int64_t pg_tid(const struct pg_result *res, size_t row,
	       int col); /* place of a row, binary format only: page << 16 | line; NULL: 0 */
double pg_float(const struct pg_result *res, size_t row, int col);
bool pg_bool(const struct pg_result *res, size_t row, int col);
void pg_result_free(struct pg_result *res);

/* Pipeline. tag comes back with the result. After a failed statement the rest of its transaction and all
 * its effects are rolled back, and poll reports that failure when done. */
int pg_pipeline_add(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, int tag,
		    struct deferred_error *err);
/* The following statements are another transaction, which runs whatever happens to the first. At the end of each
 * transaction the callback gets one of these tags, and no result. */
enum { PG_COMMITTED = -1, PG_FAILED = -2 };
int pg_pipeline_commit(struct pg *pg, struct deferred_error *err);
int pg_pipeline_send(struct pg *pg, struct deferred_error *err);
int pg_pipeline_poll(struct pg *pg, void (*on_result)(void *data, int tag, const struct pg_result *res), void *data,
		     bool *done, struct deferred_error *err);

/* Wait for the pipeline to be done, at most limit_ms: then DEFERRED_ELOST. */
int pg_pipeline_wait(struct pg *pg, void (*on_result)(void *data, int tag, const struct pg_result *res), void *data,
		     int limit_ms, struct deferred_error *err);

#endif
