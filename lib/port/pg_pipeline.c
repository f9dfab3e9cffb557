/* SPDX-License-Identifier: MIT */
#include "port/pg_state.h"

#include "base/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

static void add_expected(struct pg *pg, int tag, const struct sql_statement *stmt,
			 const struct sql_statement *preparing)
{
	pg->expected[pg->expected_len++] = (struct expected){ tag, preparing, stmt };
}

/* Room for a statement and its preparation, or for the end of a transaction. */
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

static bool is_in_pipeline(const struct pg *pg, const struct sql_statement *stmt)
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
		return pg_failed_result(pg, NULL, where, err);
	pg->expected_len = pg->expected_at = 0;
	error_clear(&pg->pipeline_err);
	pg->failed = false;
	return 0;
}

int pg_pipeline_add(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, int tag,
		    struct deferred_error *err)
{
	bool known, named;
	struct pg_wire w;
	int rc, sent;

	rc = pg_to_wire(&w, args, stmt->name, err);
	if (rc == 0)
		rc = enter_pipeline(pg, stmt->name, err);
	if (rc < 0)
		return rc;
	if (reserve_expected(pg) < 0)
		return error_set(err, DEFERRED_ENOMEM, stmt->name, "out of memory");
	known = pg_is_prepared(pg, stmt) || is_in_pipeline(pg, stmt);
	named = !pg->unnamed && (known || pg->prepared_len < PG_PREPARED_MAX);
	if (named && !known) {
		if (!PQsendPrepare(pg->conn, stmt->name, stmt->text, w.n, w.types))
			return pg_failed_result(pg, NULL, stmt->name, err);
		add_expected(pg, tag, stmt, stmt);
	}
	if (named)
		sent = PQsendQueryPrepared(pg->conn, stmt->name, w.n, w.values, w.lengths, w.formats, 1);
	else
		sent = PQsendQueryParams(pg->conn, stmt->text, w.n, w.types, w.values, w.lengths, w.formats, 1);
	if (!sent)
		return pg_failed_result(pg, NULL, stmt->name, err);
	add_expected(pg, tag, stmt, NULL);
	return 0;
}

int pg_pipeline_commit(struct pg *pg, struct deferred_error *err)
{
	if (reserve_expected(pg) < 0)
		return error_set(err, DEFERRED_ENOMEM, "pipeline", "out of memory");
	if (!PQpipelineSync(pg->conn))
		return pg_failed_result(pg, NULL, "pipeline", err);
	add_expected(pg, PG_COMMITTED, NULL, NULL);
	pg->syncs++;
	return 0;
}

int pg_pipeline_send(struct pg *pg, struct deferred_error *err)
{
	int rc = pg_pipeline_commit(pg, err);

	if (rc == 0 && PQflush(pg->conn) < 0)
		rc = pg_failed_result(pg, NULL, "pipeline", err);
	return rc;
}

/* The server skips the rest of its transaction. If several fail, the error of the first one is reported. */
static void note_failed_part(struct pg *pg, const PGresult *res, const char *where)
{
	struct deferred_error err = { 0 };

	pg->failed = true;
	if (PQresultStatus(res) == PGRES_PIPELINE_ABORTED)
		return;
	pg_failed_result(pg, res, where, &err);
	if (!pg->pipeline_err.code)
		pg->pipeline_err = err;
}

/* The reason why the server ended the session may have come with the end. */
static int lose_pipeline(struct pg *pg, struct deferred_error *err)
{
	for (size_t i = 0; i < 2 * pg->expected_len && !pg->last_word[0] && !PQisBusy(pg->conn); i++) {
		PGresult *res = PQgetResult(pg->conn);

		pg_note_last_word(pg, res);
		PQclear(res);
	}
	return pg_failed_result(pg, NULL, "pipeline", err);
}

int pg_pipeline_poll(struct pg *pg, void (*on_result)(void *data, int tag, const struct pg_result *res), void *data,
		     bool *done, struct deferred_error *err)
{
	bool sent = PQflush(pg->conn) >= 0, heard = PQconsumeInput(pg->conn);

	*done = false;
	if (!sent || !heard)
		return lose_pipeline(pg, err);
	while (pg->syncs > 0 && !PQisBusy(pg->conn)) {
		PGresult *res = PQgetResult(pg->conn);
		ExecStatusType status = PQresultStatus(res);
		size_t at = pg->expected_at;

		if (!res) /* separates the results of two statements */
			continue;
		if (status == PGRES_PIPELINE_SYNC) {
			pg->syncs--;
			pg->expected_at++;
			on_result(data, pg->failed ? PG_FAILED : PG_COMMITTED, NULL);
			pg->failed = false;
		} else if (at < pg->expected_len && !pg->expected[at].stmt) {
			/* A deferred constraint or the isolation level can refuse a commit. */
			note_failed_part(pg, res, "commit");
		} else if (at < pg->expected_len) {
			const struct sql_statement *preparing = pg->expected[at].preparing;

			pg->expected_at++;
			if (status == PGRES_COMMAND_OK && preparing)
				pg_set_prepared(pg, preparing);
			else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
				on_result(data, pg->expected[at].tag, (struct pg_result *)res);
			else
				note_failed_part(pg, res, pg->expected[at].stmt->name);
		}
		PQclear(res);
		if (PQstatus(pg->conn) != CONNECTION_OK)
			break;
	}
	if (PQstatus(pg->conn) != CONNECTION_OK) {
		/* The last words of the server ("terminating connection ...") say more than the broken pipe. */
		if (pg->pipeline_err.code) {
			if (err)
				*err = pg->pipeline_err;
			if (err)
				err->code = DEFERRED_ELOST;
			return DEFERRED_ELOST;
		}
		return pg_failed_result(pg, NULL, "pipeline", err);
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
	return pg_known_elsewhere(pg, "pipeline", err);
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
				 SHUT_RDWR); /* a late answer would be taken for that to another statement */
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
