/* SPDX-License-Identifier: MIT */
#include "port/pg_state.h"

#include "rows/admin.h"

#include <stdio.h>
#include <string.h>

bool pg_is_prepared(const struct pg *pg, const struct sql_statement *stmt)
{
	for (int i = 0; i < pg->prepared_len; i++)
		if (pg->prepared[i] == stmt)
			return true;
	return false;
}

/* Preparing takes a round trip, which pays from the second use on. */
static bool is_worth_preparing(struct pg *pg, const struct sql_statement *stmt)
{
	if (pg->unnamed || pg_is_prepared(pg, stmt) || pg->prepared_len == PG_PREPARED_MAX)
		return false;
	for (int i = 0; i < pg->sent_once_len; i++)
		if (pg->sent_once[i] == stmt)
			return true;
	if (pg->sent_once_len < PG_PREPARED_MAX)
		pg->sent_once[pg->sent_once_len++] = stmt;
	return false;
}

void pg_set_prepared(struct pg *pg, const struct sql_statement *stmt)
{
	if (!pg_is_prepared(pg, stmt) && pg->prepared_len < PG_PREPARED_MAX)
		pg->prepared[pg->prepared_len++] = stmt;
}

static int prepare_statement(struct pg *pg, const struct sql_statement *stmt, const struct pg_wire *w,
			     struct deferred_error *err)
{
	PGresult *res;
	int rc = pg_take_answer(pg, PQsendPrepare(pg->conn, stmt->name, stmt->text, w->n, w->types), false, stmt->name,
				&res, err);

	PQclear(res);
	if (rc == 0)
		pg_set_prepared(pg, stmt);
	return rc;
}

static int send_statement(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum pg_format format,
			  struct pg_result **out, struct deferred_error *err)
{
	bool commits = !pg_in_transaction(pg);
	PGresult *res;
	struct pg_wire w;
	int rc, sent;

	*out = NULL;
	rc = pg_to_wire(&w, args, stmt->name, err);
	if (rc == 0 && is_worth_preparing(pg, stmt))
		rc = prepare_statement(pg, stmt, &w, err);
	if (rc < 0)
		return rc;
	if (!pg->unnamed && pg_is_prepared(pg, stmt))
		sent = PQsendQueryPrepared(pg->conn, stmt->name, w.n, w.values, w.lengths, w.formats, (int)format);
	else
		sent = PQsendQueryParams(pg->conn, stmt->text, w.n, w.types, w.values, w.lengths, w.formats,
					 (int)format);
	rc = pg_take_answer(pg, sent, commits, stmt->name, &res, err);
	*out = (struct pg_result *)res;
	return rc;
}

int pg_exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum pg_format format,
	    struct pg_result **out, struct deferred_error *err)
{
	int rc;

	if ((!pg->transactions && !pg->lock_ms) || pg_in_transaction(pg))
		return send_statement(pg, stmt, args, format, out, err);
	*out = NULL;
	rc = pg_begin(pg, "", err);
	if (rc == 0)
		rc = send_statement(pg, stmt, args, format, out, err);
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
	int rc = pg_take_answer(pg, PQsendQuery(pg->conn, sql), commits, "command", &res, err);

	PQclear(res);
	return rc;
}

/* *shared: a pooler is in between. It gives its clients a number of its own, not that of the server process. */
static int pin_session(struct pg *pg, bool *shared, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, pg_server_pid(pg));
	rc = send_statement(pg, &sql_session_pin, &args, PG_TEXT, &res, err);
	pg_args_clear(&args);
	*shared = rc < 0 || session_pin_row(res, 0).shared;
	pg_result_free(res);
	return rc;
}

int pg_pin(struct pg *pg, struct deferred_error *err)
{
	bool shared;
	int rc = pin_session(pg, &shared, err);

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
	bool pins = !pg->pinned && !pg->borrowed, shared;
	char limit[64] = "", sql[384];
	int rc = pins ? pg_command(pg, begin, err) : 0;

	if (rc == 0 && pins)
		rc = pin_session(pg, &shared, err);
	if (pg->lock_ms)
		snprintf(limit, sizeof(limit), "set local lock_timeout = %d;", pg->lock_ms);
	snprintf(sql, sizeof(sql), "%s%s%s", pins ? "" : begin, limit, more);
	return rc == 0 && *sql ? pg_command(pg, sql, err) : rc;
}
