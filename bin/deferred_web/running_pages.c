/* SPDX-License-Identifier: MIT */
/* What workers hold, and for how long: beside it, how long its function takes as a rule. */
#include "pages.h"

#include "store/figures.h"

#include <inttypes.h>
#include <string.h>

#define FEW 20 /* runs in a day, of which nothing can be said */

struct usual {
	const char *fn;
	struct histogram run;
};

static struct usual *find(struct usual *list, size_t n, const char *fn)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].fn, fn) == 0)
			return &list[i];
	return NULL;
}

/* -1: it did not run often enough. */
static int64_t p95_us(const struct usual *u)
{
	return histogram_count(&u->run) < FEW ? -1 : histogram_quantile_us(&u->run, 0.95);
}

static int gather(struct visit *v, const struct pg_result *res, struct usual **list, size_t *n,
		  struct store_figures *figures, struct deferred_error *err)
{
	const char **fns = arena_alloc(&v->arena, (pg_rows(res) + 1) * sizeof(*fns));
	int rc;

	*list = arena_alloc(&v->arena, (pg_rows(res) + 1) * sizeof(**list));
	*n = 0;
	for (size_t row = 0; row < pg_rows(res); row++) {
		const char *fn = pg_text(res, row, 2, NULL);

		if (!find(*list, *n, fn)) {
			fns[*n] = fn;
			(*list)[(*n)++].fn = fn;
		}
	}
	rc = *n > 0 ? store_figures_run(v->pg, fns, *n, figures, err) : 0;
	for (size_t i = 0; rc == 0 && i < figures->n; i++) {
		struct usual *u = figures->row[i].fn ? find(*list, *n, figures->row[i].fn) : NULL;

		if (u)
			histogram_add(&u->run, &figures->row[i].run);
	}
	return rc;
}

static void held(struct visit *v, const struct pg_result *res, size_t row, int64_t usual_us)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<td class=\"n\">");
	page_cell(v, CELL_SPAN, res, row, 5);
	/* Seconds are what is known. */
	if (usual_us >= 0 && pg_int(res, row, 5) > usual_us / 1000000 + 1)
		html_raw(b, " <span class=\"state is-late\">long</span>");
	html_raw(b, "</td><td class=\"n\">");
	if (usual_us >= 0)
		page_span_us(b, usual_us);
	html_raw(b, "</td>");
}

static void table(struct visit *v, const struct pg_result *res, struct usual *list, size_t n)
{
	static const struct {
		enum cell cell;
		int at;
	} before[] = { { CELL_JOB, 0 }, { CELL_QUEUE, 1 }, { CELL_FN, 2 }, { CELL_INT, 3 } },
	  after[] = { { CELL_PROGRESS, 7 }, { CELL_TEXT, 4 }, { CELL_IN, 6 } };
	struct buf *b = &v->reply.body;

	html_raw(b, "<section><div class=\"scroll\" role=\"region\" tabindex=\"0\" "
		    "aria-label=\"Running\"><table><thead><tr><th scope=\"col\" class=\"n\">Job</th>"
		    "<th scope=\"col\">Queue</th><th scope=\"col\">Function</th><th scope=\"col\" "
		    "class=\"n\">Attempt</th><th scope=\"col\" class=\"n\">Claimed for</th>"
		    "<th scope=\"col\" class=\"n\">p95 run time</th><th scope=\"col\">Progress</th><th "
		    "scope=\"col\">Worker</th><th scope=\"col\" class=\"n\">Lease ends</th>"
		    "</tr></thead><tbody>");
	for (size_t row = 0; row < pg_rows(res); row++) {
		html_raw(b, "<tr>");
		for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
			buf_text(b, before[i].cell == CELL_JOB || before[i].cell == CELL_INT ? "<td class=\"n\">"
											     : "<td>");
			page_cell(v, before[i].cell, res, row, before[i].at);
			html_raw(b, "</td>");
		}
		held(v, res, row, p95_us(find(list, n, pg_text(res, row, 2, NULL))));
		for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
			buf_text(b, after[i].cell == CELL_IN     ? "<td class=\"n\">"
				    : after[i].cell == CELL_TEXT ? "<td class=\"clip\">"
								 : "<td>");
			page_cell(v, after[i].cell, res, row, after[i].at);
			html_raw(b, "</td>");
		}
		html_raw(b, "</tr>\n");
	}
	html_raw(b, "</tbody></table></div></section>");
}

static void usual_json(struct visit *v, const struct usual *list, size_t n)
{
	struct buf *b = &v->reply.body;
	bool any = false;

	html_raw(b, ",\"usual\":[");
	for (size_t i = 0; i < n; i++) {
		if (p95_us(&list[i]) < 0)
			continue;
		buf_text(b, any ? ",{\"fn\":" : "{\"fn\":");
		html_json(b, list[i].fn);
		buf_printf(b, ",\"run_p95_us\":%" PRId64 "}", p95_us(&list[i]));
		any = true;
	}
	html_raw(b, "]");
}

int page_running(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_JOB, "job", "Job" },
		{ 1, CELL_QUEUE, "queue", "Queue" },
		{ 2, CELL_FN, "fn", "Function" },
		{ 3, CELL_INT, "attempt", "Attempt" },
		{ 5, CELL_SPAN, "held_s", "Claimed for" },
		{ 7, CELL_PROGRESS, "progress", "Progress" },
		{ 4, CELL_TEXT, "worker", "Worker" },
		{ 6, CELL_IN, "lease_s", "Lease ends" },
	};
	static const struct part part = PART("running", NULL, "No jobs are running.", columns);
	struct store_figures figures = { 0 };
	struct pg_result *res = NULL;
	struct usual *list = NULL;
	size_t n = 0, hidden_len;
	const char **hidden = hidden_functions(v, &hidden_len);
	int rc = web_running_exec(v->pg, hidden, hidden_len, &res, err);

	if (rc == 0)
		rc = gather(v, res, &list, &n, &figures, err);
	if (rc == 0) {
		page_begin(v, NULL, "Running");
		if (!v->json)
			html_raw(&v->reply.body, "<p class=\"hint\">Claimed jobs, longest first. A worker may claim a "
						 "few jobs before it starts them. The mark \"long\" means: longer than "
						 "the p95 run time of the function in the last day.</p>");
		page_live(v, "running");
		if (v->json || pg_rows(res) == 0)
			page_part(v, &part, res, NULL);
		else
			table(v, res, list, n);
		if (v->json)
			usual_json(v, list, n);
		page_live_end(v);
		page_end(v);
	}
	store_figures_clear(&figures);
	pg_result_free(res);
	return rc;
}
