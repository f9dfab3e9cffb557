/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "rows/web.h"

#include <string.h>

#define ENDS_MAX 2000 /* ends without success; for each, three rows are read, from disk if need be */

/* A job that was cancelled or expired has not failed. */
static void show_retry(struct web_request *r, const struct rows *rows, size_t i)
{
	struct web_errors_row e = web_errors_row(rows->res, i);

	if (strcmp(e.outcome, "cancelled") != 0 && strcmp(e.outcome, "expired") != 0)
		html_printf(
			&r->reply.body,
			"<a href=\"/jobs/all?verb=retry&amp;state=dead&amp;fn=%s&amp;error=%s\" aria-label=\"Retry all "
			"of %s, that said: %s\">Retry all</a>",
			page_url(r, e.fn), page_url(r, e.said), e.fn, e.said);
}

int pages_errors(struct web_request *r, const char *fn, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(web_errors, fn), CELL_FN, "fn", "Function" },
		{ AT(web_errors, outcome), CELL_STATE, "outcome", "Outcome" },
		{ AT(web_errors, said), CELL_TEXT, "error", "First line (numbers as #)" },
		{ AT(web_errors, jobs), CELL_INT, "jobs", "Jobs" },
		{ AT(web_errors, last_s), CELL_AGO, "last_s", "Last" },
		{ AT(web_errors, first_s), CELL_AGO, "first_s", "First" },
		{ AT(web_errors, job_id), CELL_JOB, "newest", "Newest job" },
		{ AT(web_errors, fn), CELL_FN, NULL, "Retry", .show = show_retry },
	};
	struct part part = PART("errors", "Errors", "No errors among the newest 2,000 failed jobs.", columns);
	struct pg_result *res = NULL;
	const char **hidden;
	size_t len;
	int rc;

	if (!r->me.reader)
		return 0;
	part.len -= !page_may_act(r);
	hidden = page_hidden_functions(r, &len);
	rc = web_errors_exec(r->pg, fn, ENDS_MAX, hidden, len, &res, err);
	if (rc == 0)
		part_result(r, &part, res);
	pg_result_free(res);
	return rc;
}

int pages_dead(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(web_dead, fn), CELL_FN, "fn", "Function" },
		{ AT(web_dead, queue), CELL_QUEUE, "queue", "Queue" },
		{ AT(web_dead, dead), CELL_INT, "dead", "Dead" },
		{ AT(web_dead, last_s), CELL_AGO, "last_s", "Last" },
		{ AT(web_dead, first_s), CELL_AGO, "first_s", "First" },
		{ AT(web_dead, outcome), CELL_STATE, "outcome", "Last outcome" },
		{ AT(web_dead, job_id), CELL_JOB, "newest", "Newest job" },
		{ AT(web_dead, more), CELL_TEXT, "more", "" },
	};
	static const struct part part = PART("dead", NULL, "No dead jobs.", columns);
	struct pg_result *res = NULL;
	int rc = web_dead_exec(r->pg, ENDS_MAX, &res, err);

	if (rc == 0) {
		page_begin(r, NULL, "Dead");
		if (!r->json)
			html_raw(&r->reply.body,
				 "<p class=\"hint\">Dead jobs among the newest 2,000 failed jobs. <a "
				 "href=\"/jobs?state=dead\">List them one by one</a>. "
				 "To retry all jobs of a function: <code>deferred retry --fn NAME</code></p>");
		page_live(r, "dead");
		part_result(r, &part, res);
		rc = pages_errors(r, NULL, err);
		page_live_end(r);
		page_end(r);
	}
	pg_result_free(res);
	return rc;
}
