/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "rows/web.h"

int pages_actions_read(struct web_request *r, const struct pages_target *target, int64_t before, struct pg_result **res,
		       struct deferred_error *err)
{
	return web_actions_exec(r->pg, pages_optional(&target->job), pages_optional(&before), target->queue, target->fn,
				target->schedule, pages_optional(&target->flow), page_hides(r) ? "true" : "false", res,
				err);
}

int pages_actions(struct web_request *r, const struct pages_target *target, struct deferred_error *err)
{
	/* All of them are on the object of the page. */
	static const struct column columns[] = {
		{ AT(web_actions, at), CELL_TIME, "at", "Time" },
		{ AT(web_actions, who), CELL_TEXT, "who", "Actor" },
		{ AT(web_actions, verb), CELL_TEXT, "verb", "Action" },
		{ AT(web_actions, refused), CELL_PROSE, "refused", "Refused because" },
		{ AT(web_actions, settings), CELL_CODE, "settings", "Settings" },
		{ AT(web_actions, jobs), CELL_INT, "jobs", "Jobs" },
		{ AT(web_actions, role), CELL_TEXT, "role", "Role" },
		{ AT(web_actions, login), CELL_TEXT, "login", "Login" },
		{ AT(web_actions, address), CELL_TEXT, "address", "Address" },
	};
	static const struct part part = PART("actions", "Actions", "No actions recorded.", columns);
	struct pg_result *res = NULL;
	int rc = pages_actions_read(r, target, 0, &res, err);

	if (rc == 0)
		part_result(r, &part, res);
	pg_result_free(res);
	return rc;
}

int pages_audit(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(web_actions, id), CELL_TEXT, "id", "" },
		{ AT(web_actions, at), CELL_TIME, "at", "Time" },
		{ AT(web_actions, who), CELL_TEXT, "who", "Actor" },
		{ AT(web_actions, verb), CELL_TEXT, "verb", "Action" },
		{ AT(web_actions, queue), CELL_QUEUE, "queue", "On" },
		{ AT(web_actions, job_id), CELL_JOB, "job" },
		{ AT(web_actions, flow), CELL_FLOW, "flow" },
		{ AT(web_actions, schedule), CELL_SCHEDULE, "schedule" },
		{ AT(web_actions, fn), CELL_FN, "fn" },
		{ AT(web_actions, refused), CELL_PROSE, "refused", "Refused because" },
		{ AT(web_actions, settings), CELL_CODE, "settings", "Settings" },
		{ AT(web_actions, filter), CELL_CODE, "filter", "Filter" },
		{ AT(web_actions, jobs), CELL_INT, "jobs", "Jobs" },
		{ AT(web_actions, role), CELL_TEXT, "role", "Role" },
		{ AT(web_actions, login), CELL_TEXT, "login", "Login" },
		{ AT(web_actions, address), CELL_TEXT, "address", "Address" },
	};
	static const struct part part = PART("actions", "Actions", "No actions recorded.", columns);
	struct pg_result *res = NULL;
	int64_t after;
	size_t n;
	int rc;

	if (!page_query_number(r, "after", &after))
		return 0;
	rc = pages_actions_read(r, &(struct pages_target){ 0 }, after, &res, err);
	n = pg_rows(res);
	if (rc == 0) {
		page_begin(r, NULL, "Audit");
		part_result(r, &part, res);
		if (n == STORE_WEB_ROWS && !r->json)
			page_next(r, "/audit?after=", "Older", web_actions_row(res, n - 1).id);
		page_end(r);
	}
	pg_result_free(res);
	return rc;
}
