/* SPDX-License-Identifier: MIT */
/* Deferring calls: one, many, and flows. */
#include "api/context.h"
#include "api/defer_check.h"
#include "api/spool_call.h"
#include "port/params.h"
#include "store/enqueue/enqueue.h"
#include "store/flow.h"

#include <string.h>

/* ---- one call --------------------------------------------------------------------------------- */

struct one {
	struct deferred_call_spec call;
	int64_t *id;
	bool sent; /* it may be stored */
};

static int defer_one(struct pg *pg, void *arg, struct deferred_error *err)
{
	struct one *one = arg;
	int rc;

	one->sent = true;
	rc = store_enqueue(pg, &one->call, one->id, err);
	one->sent = rc != DEFERRED_EDB || error_class(err->sqlstate) == ERROR_CONNECTION;
	return rc;
}

/* A call that may be stored never goes into the spool: it could be stored twice. */
static int defer_or_spool(struct deferred *d, struct one *one, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc = context_store(d, defer_one, one, &why);

	if (rc < 0 && d->spool && !one->sent && context_is_away(&why))
		return spool_call(d->spool, d->conninfo, &one->call, d->spooled, &why, err);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

const char *deferred_spooled_id(const struct deferred *d)
{
	return d ? d->spooled : "";
}

int deferred_defer(struct deferred *d, const char *fn, const char *params, const struct deferred_opts *opts,
		   int64_t *id, struct deferred_error *err)
{
	struct one one = { .call = { .fn = fn, .params = params, .opts = opts }, .id = id };
	int rc;

	error_clear(err);
	if (!d)
		return context_missing("defer", err);
	rc = defer_check(&one.call, d->params_max_bytes, err);
	d->spooled[0] = '\0';
	return rc < 0 ? rc : defer_or_spool(d, &one, err);
}

int deferred_defer_conn(struct pg_conn *conn, const char *fn, const char *params, const struct deferred_opts *opts,
			int64_t *id, struct deferred_error *err)
{
	struct one one = { .call = { .fn = fn, .params = params, .opts = opts }, .id = id };
	int rc;

	error_clear(err);
	rc = defer_check(&one.call, 0, err);
	return rc < 0 ? rc : context_borrow(conn, defer_one, &one, err);
}

/* ---- a flow ----------------------------------------------------------------------------------- */

struct flow {
	int (*store)(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err);
	const char *flow;
	int64_t *id;
};

static int check_flow(const char *flow, struct deferred_error *err)
{
	int rc = flow ? params_check(flow, strlen(flow), err)
		      : error_set(err, DEFERRED_EINVAL, "flow", "the flow is missing\npass JSON text");

	if (rc < 0 && flow)
		error_prefix(err, "flow");
	return rc;
}

static int store_flow(struct pg *pg, void *arg, struct deferred_error *err)
{
	const struct flow *f = arg;

	return f->store(pg, f->flow, f->id, err);
}

static int flow_on_context(struct deferred *d, struct flow f, const char *where, struct deferred_error *err)
{
	int rc;

	error_clear(err);
	if (!d)
		return context_missing(where, err);
	rc = check_flow(f.flow, err);
	return rc < 0 ? rc : context_store(d, store_flow, &f, err);
}

static int flow_on_connection(struct pg_conn *conn, struct flow f, struct deferred_error *err)
{
	int rc;

	error_clear(err);
	rc = check_flow(f.flow, err);
	return rc < 0 ? rc : context_borrow(conn, store_flow, &f, err);
}

int deferred_defer_flow(struct deferred *d, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_context(d, (struct flow){ store_flow_add, flow, id }, "defer_flow", err);
}

int deferred_defer_flow_conn(struct pg_conn *conn, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_connection(conn, (struct flow){ store_flow_add, flow, id }, err);
}

int deferred_flow_open(struct deferred *d, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_context(d, (struct flow){ store_flow_open, flow, id }, "flow_open", err);
}

int deferred_flow_open_conn(struct pg_conn *conn, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_connection(conn, (struct flow){ store_flow_open, flow, id }, err);
}

static int close_flow(struct pg *pg, void *arg, struct deferred_error *err)
{
	bool closed;

	return store_flow_close(pg, *(const int64_t *)arg, &closed, err);
}

int deferred_flow_close(struct deferred *d, int64_t id, struct deferred_error *err)
{
	error_clear(err);
	return d ? context_store(d, close_flow, &id, err) : context_missing("flow_close", err);
}

int deferred_flow_close_conn(struct pg_conn *conn, int64_t id, struct deferred_error *err)
{
	error_clear(err);
	return context_borrow(conn, close_flow, &id, err);
}

/* ---- an event --------------------------------------------------------------------------------- */

static int check_event(const struct deferred_event *event, struct deferred_error *err)
{
	int rc = 0;

	if (!event || !event->name)
		return error_set(err, DEFERRED_EINVAL, "event", "the event is missing\nset its name");
	for (size_t i = 0; i < sizeof(event->reserved) / sizeof(event->reserved[0]); i++)
		if (event->reserved[i])
			return error_set(err, DEFERRED_EINVAL, "event",
					 "reserved[%zu] is not zero: the event was not initialised\nbegin with { 0 }",
					 i);
	if (event->payload)
		rc = params_check(event->payload, strlen(event->payload), err);
	if (rc < 0)
		error_prefix(err, "payload of event '%.100s'", event->name);
	return rc;
}

static int send_event(struct pg *pg, void *arg, struct deferred_error *err)
{
	return store_event_send(pg, arg, NULL, err);
}

int deferred_send_event(struct deferred *d, const struct deferred_event *event, struct deferred_error *err)
{
	int rc;

	error_clear(err);
	if (!d)
		return context_missing("send_event", err);
	rc = check_event(event, err);
	return rc < 0 ? rc : context_store(d, send_event, (void *)event, err);
}

int deferred_send_event_conn(struct pg_conn *conn, const struct deferred_event *event, struct deferred_error *err)
{
	int rc;

	error_clear(err);
	rc = check_event(event, err);
	return rc < 0 ? rc : context_borrow(conn, send_event, (void *)event, err);
}

/* ---- many calls ------------------------------------------------------------------------------- */

struct many {
	const struct deferred_call_spec *calls;
	size_t n;
	int64_t *ids;
	enum context_copy *may_copy; /* what the context knows; the server is asked once */
};

/* How many of the calls go into the next statement. It is bounded in number and, except for the last call, in bytes.
 * All its calls are of one flow or of none. A call that waits for jobs goes alone. */
static size_t statement_size(const struct deferred_call_spec *calls, size_t n)
{
	size_t bytes = 0, i;

	for (i = 0; i < n && i < STORE_MANY_MAX && bytes < STORE_MANY_BYTES && !store_is_alone(&calls[i]) &&
		    store_flow_of(&calls[i]) == store_flow_of(calls);
	     i++)
		bytes += calls[i].params ? strlen(calls[i].params) : 2;
	return i > 0 ? i : 1;
}

static int many_by_statements(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			      struct deferred_error *err)
{
	int rc = 0;

	for (size_t i = 0, len; i < n && rc == 0; i += len) {
		len = statement_size(calls + i, n - i);
		rc = store_is_alone(calls + i) ? store_enqueue(pg, calls + i, ids ? ids + i : NULL, err)
					       : store_enqueue_many(pg, calls + i, len, ids ? ids + i : NULL, err);
		if (rc == DEFERRED_EDB && len < n)
			error_prefix(err, "calls %zu to %zu", i, i + len - 1);
	}
	return rc;
}

static int many_by_copy(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			struct deferred_error *err)
{
	bool limited = false;
	int rc = 0;

	for (size_t i = 0, len; i < n && rc == 0 && !limited; i += len) {
		len = n - i < STORE_COPY_MAX ? n - i : STORE_COPY_MAX;
		rc = store_enqueue_copy(pg, calls + i, len, i, ids ? ids + i : NULL, &limited, err);
		if (limited)
			rc = many_by_statements(pg, calls + i, n - i, ids ? ids + i : NULL, err);
	}
	return rc;
}

static bool copy_takes_all(const struct deferred_call_spec *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!store_copy_takes(&calls[i]))
			return false;
	return true;
}

/* *copy: COPY stores these calls, and the role may use it. */
static int may_copy_all(struct pg *pg, const struct many *m, bool *copy, struct deferred_error *err)
{
	int rc = 0;

	*copy = false;
	if (m->n <= STORE_MANY_MAX || !copy_takes_all(m->calls, m->n))
		return 0;
	if (!m->may_copy)
		return store_enqueue_may_copy(pg, copy, err);
	if (*m->may_copy == CONTEXT_COPY_UNKNOWN) {
		rc = store_enqueue_may_copy(pg, copy, err);
		if (rc == 0)
			*m->may_copy = *copy ? CONTEXT_COPY_YES : CONTEXT_COPY_NO;
	}
	*copy = *m->may_copy == CONTEXT_COPY_YES;
	return rc;
}

static int defer_many(struct pg *pg, void *arg, struct deferred_error *err)
{
	const struct many *m = arg;
	bool copy, own_transaction = !pg_in_transaction(pg);
	int rc;

	if (m->n <= STORE_MANY_MAX && statement_size(m->calls, m->n) == m->n && !store_is_alone(m->calls))
		return store_enqueue_many(pg, m->calls, m->n, m->ids, err);
	rc = may_copy_all(pg, m, &copy, err);
	if (rc == 0 && own_transaction)
		rc = pg_begin(pg, "", err);
	if (rc < 0)
		return rc;
	rc = copy ? many_by_copy(pg, m->calls, m->n, m->ids, err) : many_by_statements(pg, m->calls, m->n, m->ids, err);
	if (!own_transaction)
		return rc;
	if (rc == 0)
		return pg_command(pg, "commit", err);
	pg_command(pg, "rollback", NULL);
	return rc;
}

int deferred_defer_many(struct deferred *d, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			struct deferred_error *err)
{
	struct many m = { .calls = calls, .n = n, .ids = ids };
	int rc;

	error_clear(err);
	if (!d)
		return context_missing("defer_many", err);
	m.may_copy = &d->may_copy;
	rc = defer_check_many(calls, n, d->params_max_bytes, err);
	return rc < 0 || n == 0 ? rc : context_store(d, defer_many, &m, err);
}

int deferred_defer_many_conn(struct pg_conn *conn, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			     struct deferred_error *err)
{
	struct many m = { .calls = calls, .n = n, .ids = ids };
	int rc;

	error_clear(err);
	rc = defer_check_many(calls, n, 0, err);
	return rc < 0 || n == 0 ? rc : context_borrow(conn, defer_many, &m, err);
}
