/* SPDX-License-Identifier: MIT */
/*
 * running - functions that talk while they run: about their progress, and to the database about their own job.
 *
 *     steps            {"n": 5, "ms": 100, "text": "copying", "junk": 0}: reports 0 of n, sleeps, 1 of n, ...; ends
 *     with the last until_cancelled  {"file": PATH, "ms": 0}: appends "asked" to the file when the job is cancelled,
 *     and "left" ms later, then
 *                      returns ok
 *     deaf             never ends, whatever it is asked
 *     own              {"how": ..., "then": ..., "file": PATH, "warm_ms": 0}: after so long, in a transaction of its
 *     own adds a row to app.effect and finishes its job;
 *                      how: commit, rollback, or wait (until the file is there, between finish and commit); first_wait:
 *                      before the finish. then: ok, failed, segv (after), segv_before (the commit), hang, defer (one
 *                      more job over host->defer)
 *     turn             {"file": PATH, "fail": false}: appends "begin ID" and "end ID" to the file, the second one
 *                      "failed ID" if it is to fail; turn_together: the same for batches, where "fail" is not looked at
 *     tick             its result is the tick of its schedule, microseconds
 *     ticks            its result is the tick before and its own, {"from": ..., "to": ...}
 *     trace            its result is the trace context it was deferred in
 *     parents          its result is "call->parents"; {"of": NAME}: of one parent, as "RC OUTCOME RESULT"
 *     extend           {"lease_ms": N, "ms": M}: extends its lease, then works for M ms and reads no messages
 *     saved            {"n": 5, "ms": 0, "file": PATH}: saves n steps s1, s2, ... with the values 1, 2, ...
 *                      For each step that no attempt has saved, it appends the name to the file, works for
 *                      "ms", and saves. Its result is the steps that it was called with. In the first attempt:
 *                      {"die": I} kills its process between the work and the saving of step I
 *                      {"dead": I} fails for good after step I
 *                      {"fail": I} fails after step I
 *                      {"wait": I} waits before step I until the file PATH.go is there
 *                      In all attempts {"each": 1} fails after each new step, {"refuse": 1} at the end
 *     save             {"name": NAME, "text": JSON, "bytes": N}: saves once. Its result is that of host->step, and the
 *                      value of the step then. The saved text is padded with spaces to N bytes. {"own": 1}: saves in a
 *                      transaction of its own that has finished the job
 *
 * The connection string is the setting "settings.running.conninfo".
 */
#include <deferred.h>
#include <deferred_plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(int64_t ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static int64_t number(const struct deferred_call *call, const char *name, int64_t def)
{
	json_t *params = json_loads(call->params, 0, NULL), *v = json_object_get(params, name);
	int64_t value = json_is_integer(v) ? json_integer_value(v) : def;

	json_decref(params);
	return value;
}

static void text(const struct deferred_call *call, const char *name, char *value, size_t size)
{
	json_t *params = json_loads(call->params, 0, NULL);
	const char *v = json_string_value(json_object_get(params, name));

	snprintf(value, size, "%s", v ? v : "");
	json_decref(params);
}

static void append(const struct deferred_call *call, const char *line)
{
	char file[1024];
	int fd;

	text(call, "file", file, sizeof(file));
	fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		perror(file);
	if (fd >= 0)
		close(fd);
}

static int failed(const struct deferred_call *call, const char *why)
{
	call->host->error(call, why, strcspn(why, "\n"));
	return DEFERRED_FAILED;
}

static int steps(const struct deferred_call *call)
{
	int64_t n = number(call, "n", 5), ms = number(call, "ms", 100);
	char what[400 + 2];

	text(call, "text", what, sizeof(what) - 2);
	if (number(call, "junk", 0))
		strcat(what, "\xff");
	for (int64_t i = 0; i <= n; i++) {
		if (DEFERRED_HAS(call->host, progress))
			call->host->progress(call, i, n, what, strlen(what));
		pause_ms(ms);
	}
	return DEFERRED_OK;
}

static int until_cancelled(const struct deferred_call *call)
{
	append(call, "begun\n");
	while (!call->host->cancelled(call)) {
		if (call->host->stop_asked(call))
			append(call, "stop without cancel\n"); /* one flag is set by both */
		pause_ms(1);
	}
	append(call, call->host->stop_asked(call) ? "asked\n" : "not asked\n");
	pause_ms(number(call, "ms", 0));
	append(call, "left\n");
	return DEFERRED_OK;
}

static int deaf(const struct deferred_call *call)
{
	append(call, "begun\n");
	for (;;)
		pause_ms(1000);
	return DEFERRED_OK;
}

/* ---- about its own job ------------------------------------------------------------------------- */

static PGconn *connection(const struct deferred_call *call)
{
	const char *conninfo = call->host->setting(call, "settings.running.conninfo");

	return PQconnectdb(conninfo ? conninfo : "");
}

static int command(const struct deferred_call *call, PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	int rc = PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK
			 ? 0
			 : failed(call, PQerrorMessage(conn));

	PQclear(res);
	return rc;
}

static void wait_for_file(const struct deferred_call *call)
{
	char file[1024];

	text(call, "file", file, sizeof(file));
	append(call, "");
	strcat(file, ".go");
	for (int64_t i = 0; access(file, F_OK) < 0; i++) {
		call->host->progress(call, i, -1, "waiting", 7);
		pause_ms(2);
	}
}

static int then(const struct deferred_call *call, const char *what)
{
	if (strcmp(what, "segv") == 0)
		raise(SIGKILL);
	if (strcmp(what, "failed") == 0)
		return failed(call, "it says it has failed");
	while (strcmp(what, "hang") == 0)
		pause_ms(1000);
	return DEFERRED_OK;
}

static int own(const struct deferred_call *call)
{
	char how[32], after[32], sql[200];
	struct deferred_error err;
	PGconn *conn = connection(call);
	int rc;

	text(call, "how", how, sizeof(how));
	text(call, "then", after, sizeof(after));
	if (number(call, "warm_ms", 0) > 0)
		call->host->progress(call, 0, -1, "warming up", 10);
	pause_ms(number(call, "warm_ms", 0));
	snprintf(sql, sizeof(sql), "insert into app.effect (job, attempt) values (%" PRId64 ", %d)", call->id,
		 call->attempt);
	rc = PQstatus(conn) == CONNECTION_OK ? 0 : failed(call, PQerrorMessage(conn));
	if (rc == 0)
		rc = command(call, conn, "begin");
	if (rc == 0)
		rc = command(call, conn, sql);
	if (rc == 0 && strcmp(how, "first_wait") == 0)
		wait_for_file(call);
	if (rc == 0 && strcmp(after, "defer") == 0)
		call->host->defer(call, "noop", "{}", NULL);
	if (rc == 0 && deferred_finish_conn(conn, call->id, call->receipt, "by itself", &err) < 0) {
		snprintf(sql, sizeof(sql), "code %d: %.150s\n", err.code, err.message);
		append(call, sql);
		rc = failed(call, sql);
	}
	if (rc == 0 && strcmp(how, "wait") == 0)
		wait_for_file(call);
	if (rc == 0 && strcmp(after, "segv_before") == 0)
		raise(SIGKILL);
	/* After a failed finish it tries to commit all the same: that must not work. */
	if (command(call, conn, strcmp(how, "rollback") == 0 ? "rollback" : "commit") != 0)
		rc = DEFERRED_FAILED;
	PQfinish(conn);
	return rc == 0 ? then(call, after) : rc;
}

static int extend(const struct deferred_call *call)
{
	struct deferred_error err;
	PGconn *conn = connection(call);
	int rc = deferred_extend_conn(conn, call->id, call->receipt, number(call, "lease_ms", 60000), &err);

	PQfinish(conn);
	if (rc < 0)
		return failed(call, err.message);
	append(call, "begun\n");
	pause_ms(number(call, "ms", 0));
	return DEFERRED_OK;
}

static int tick(const struct deferred_call *call)
{
	char us[24] = "none";

	if (DEFERRED_HAS(call, tick))
		snprintf(us, sizeof(us), "%" PRId64, call->tick);
	call->host->result(call, us, strlen(us));
	return DEFERRED_OK;
}

static int ticks(const struct deferred_call *call)
{
	char text[80] = "an older header";

	if (DEFERRED_HAS(call, previous_tick))
		snprintf(text, sizeof(text), "{\"from\": %" PRId64 ", \"to\": %" PRId64 "}", call->previous_tick,
			 call->tick);
	call->host->result(call, text, strlen(text));
	return DEFERRED_OK;
}

static int parents(const struct deferred_call *call)
{
	char name[128], line[8192];
	const char *outcome, *result;
	int n, rc;

	if (!DEFERRED_HAS(call, parents_len) || !DEFERRED_HAS(call->host, parent))
		return failed(call, "an older header");
	text(call, "of", name, sizeof(name));
	if (!name[0] && strlen(call->parents) != call->parents_len)
		return failed(call, "its length is another one");
	if (!name[0]) {
		call->host->result(call, call->parents, call->parents_len);
		return DEFERRED_OK;
	}
	rc = call->host->parent(call, name, &outcome, NULL);
	if (call->host->parent(call, name, NULL, &result) != rc)
		return failed(call, "two answers");
	n = snprintf(line, sizeof(line), "%d %s %s", rc, outcome ? outcome : "NULL", result ? result : "NULL");
	call->host->result(call, line, (size_t)n);
	return DEFERRED_OK;
}

static int trace(const struct deferred_call *call)
{
	const char *text = DEFERRED_HAS(call, traceparent) ? call->traceparent : "an older header";

	call->host->result(call, text, strlen(text));
	return DEFERRED_OK;
}

/* ---- steps ------------------------------------------------------------------------------------- */

static bool first(const struct deferred_call *call, const char *what, int64_t i)
{
	return call->attempt == 1 && number(call, what, 0) == i;
}

static void wait_for_go(const struct deferred_call *call)
{
	char file[1024 + 3];

	text(call, "file", file, sizeof(file) - 3);
	strcat(file, ".go");
	while (access(file, F_OK) < 0)
		pause_ms(1);
}

static int saved(const struct deferred_call *call)
{
	int64_t n = number(call, "n", 5);

	for (int64_t i = 1; i <= n; i++) {
		char name[40], value[64];
		int rc;

		snprintf(name, sizeof(name), "s%" PRId64, i);
		snprintf(value, sizeof(value), "%" PRId64, i);
		if (call->host->step_get(call, name)) {
			if (strcmp(call->host->step_get(call, name), value) != 0)
				return failed(call, "another value");
			continue;
		}
		strcat(name, "\n");
		append(call, name);
		pause_ms(number(call, "ms", 0));
		if (first(call, "wait", i))
			wait_for_go(call);
		if (first(call, "die", i))
			kill(getpid(), SIGKILL);
		name[strlen(name) - 1] = '\0';
		rc = call->host->step(call, name, value);
		if (rc != DEFERRED_STEP_SAVED) {
			snprintf(value, sizeof(value), "step %s: %d", name, rc);
			return failed(call, value);
		}
		if (first(call, "dead", i))
			return DEFERRED_DEAD;
		if (first(call, "fail", i) || number(call, "each", 0))
			return failed(call, "as asked");
	}
	if (number(call, "refuse", 0))
		return failed(call, "as asked");
	call->host->result(call, call->steps, call->steps_len);
	return DEFERRED_OK;
}

static int save(const struct deferred_call *call)
{
	static char value[100000], said[200];
	char name[400];
	const char *known;
	size_t bytes = (size_t)number(call, "bytes", 0);
	PGconn *conn = NULL;
	int rc;

	text(call, "name", name, sizeof(name));
	text(call, "text", value, sizeof(value));
	for (size_t n = strlen(value); n < bytes; n++)
		value[n] = ' ';
	if (number(call, "own", 0)) {
		char sql[200];

		conn = connection(call);
		snprintf(sql, sizeof(sql), "select deferred.finish(%" PRId64 ", %" PRId64 ")", call->id, call->receipt);
		if (command(call, conn, "begin") != 0 || command(call, conn, sql) != 0)
			return DEFERRED_FAILED;
	}
	rc = call->host->step(call, name, value);
	PQfinish(conn);
	known = call->host->step_get(call, name);
	snprintf(said, sizeof(said), "%d %.100s", rc, known ? known : "NULL");
	call->host->result(call, said, strlen(said));
	return DEFERRED_OK;
}

static void append_turn(const struct deferred_call *call, const char *what)
{
	char line[64];

	snprintf(line, sizeof(line), "%s %" PRId64 "\n", what, call->id);
	append(call, line);
}

static int turn(const struct deferred_call *call)
{
	bool fails = strstr(call->params, "\"fail\": true") != NULL;

	append_turn(call, "begin");
	append_turn(call, fails ? "failed" : "end");
	return fails ? DEFERRED_FAILED : DEFERRED_OK;
}

static int turn_together(const struct deferred_call *const *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		append_turn(calls[i], "begin");
	for (size_t i = 0; i < n; i++)
		append_turn(calls[i], "end");
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = {
	{ .name = "steps", .run = steps },
	{ .name = "steps_apart", .run = steps, .flags = DEFERRED_ISOLATE_JOB },
	{ .name = "until_cancelled", .run = until_cancelled },
	{ .name = "until_cancelled_apart", .run = until_cancelled, .flags = DEFERRED_ISOLATE_JOB },
	{ .name = "deaf", .run = deaf },
	{ .name = "own", .run = own },
	{ .name = "extend", .run = extend },
	{ .name = "turn", .run = turn },
	{ .name = "turn_together", .run_many = turn_together },
	{ .name = "tick", .run = tick },
	{ .name = "ticks", .run = ticks },
	{ .name = "parents", .run = parents },
	{ .name = "parents_apart", .run = parents, .flags = DEFERRED_ISOLATE_JOB },
	{ .name = "saved", .run = saved },
	{ .name = "saved_apart", .run = saved, .flags = DEFERRED_ISOLATE_JOB },
	{ .name = "saved_resets", .run = saved, .flags = DEFERRED_PROGRESS_RESETS },
	{ .name = "save", .run = save },
	{ .name = "save_apart", .run = save, .flags = DEFERRED_ISOLATE_JOB },
	{ .name = "trace", .run = trace },
	{ .name = "trace_apart", .run = trace, .flags = DEFERRED_ISOLATE_JOB },
};

DEFERRED_PLUGIN("running", "1.0", functions);
