/* SPDX-License-Identifier: MIT */
#include "store/flow.h"

#include "rows/flow.h"
#include "store/admin.h"

#include <inttypes.h>
#include <string.h>

int store_flow_add(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err)
{
	struct flow_add_row r;
	int rc = flow_add_one(pg, flow, &r, err);

	if (rc == 0 && id)
		*id = r.flow;
	return rc;
}

int store_flow_open(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err)
{
	struct admin_flow_open_row r;
	int rc = admin_flow_open_one(pg, flow, &r, err);

	if (rc == 0 && id)
		*id = r.flow;
	return rc;
}

int store_flow_ls(struct pg *pg, int most, int64_t before, struct pg_result **res, struct deferred_error *err)
{
	return flow_ls_exec(pg, most, before > 0 ? &before : NULL, res, err);
}

int store_flow_cancel(struct pg *pg, int64_t flow, int64_t *cancelled, struct deferred_error *err)
{
	struct admin_flow_cancel_row r = { 0 };
	int rc;

	*cancelled = 0;
	do {
		int64_t before = r.next;

		rc = admin_flow_cancel_one(pg, flow, before > 0 ? &before : NULL, store_admin_user(), &r, err);
		*cancelled += r.cancelled;
	} while (rc == 0 && r.next > 0);
	return rc;
}

int store_flow_close(struct pg *pg, int64_t flow, bool *closed, struct deferred_error *err)
{
	struct admin_flow_close_row r;
	int rc = admin_flow_close_one(pg, flow, &r, err);

	*closed = r.closed;
	return rc;
}

int store_flow_retry(struct pg *pg, int64_t flow, bool *noted, struct deferred_error *err)
{
	struct admin_flow_retry_row r;
	int rc = admin_flow_retry_one(pg, flow, store_admin_user(), &r, err);

	*noted = r.noted;
	return rc;
}

int store_flow_release(struct pg *pg, int64_t job, struct deferred_error *err)
{
	struct admin_flow_release_row r;
	int rc = admin_flow_release_one(pg, job, &r, err);

	return rc == 0 && !r.released ? error_not_there(err, "job", job) : rc;
}

int store_event_send(struct pg *pg, const struct deferred_event *event, const char *who, struct deferred_error *err)
{
	int64_t keep_ms = event->keep_ms > 0 ? event->keep_ms : 0;

	return event_send_exec(pg, event->name, event->payload, event->keep_ms ? &keep_ms : NULL, event->role, who,
			       err);
}
