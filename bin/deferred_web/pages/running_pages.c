/* SPDX-License-Identifier: MIT */
/* Claimed jobs, for how long they are claimed, and how long their functions usually run. */
#include "pages.h"

#include "rows/web.h"
#include "store/figures.h"

#include <inttypes.h>
#include <string.h>

#define RUNS_MIN 20 /* runs in a day; fewer say nothing of the usual run time */

struct usual {
	const char *fn;
	struct histogram run;
	int64_t p95_us; /* PART_NONE: it did not run often enough */
};

/* Of the functions of a result of web_running.sql. */
struct usual_list {
	struct usual *list;
	size_t n;
};

static struct usual *usual_find(const struct usual_list *u, const char *fn)
{
	for (size_t i = 0; i < u->n; i++)
		if (strcmp(u->list[i].fn, fn) == 0)
			return &u->list[i];
	return NULL;
}

static int usual_read(struct web_request *r, const struct pg_result *res, struct usual_list *u,
		      struct deferred_error *err)
{
	const char **fns = arena_alloc(&r->arena, (pg_rows(res) + 1) * sizeof(*fns));
	struct store_figures figures = { 0 };
	int rc;

	u->list = arena_alloc(&r->arena, (pg_rows(res) + 1) * sizeof(*u->list));
	for (size_t i = 0; i < pg_rows(res); i++) {
		const char *fn = web_running_row(res, i).fn;

		if (!usual_find(u, fn)) {
			fns[u->n] = fn;
			u->list[u->n++] = (struct usual){ .fn = fn, .p95_us = PART_NONE };
		}
	}
	rc = u->n > 0 ? store_figures_run(r->pg, fns, u->n, &figures, err) : 0;
	for (size_t i = 0; rc == 0 && i < figures.n; i++) {
		struct usual *one = figures.row[i].fn ? usual_find(u, figures.row[i].fn) : NULL;

		if (one)
			histogram_add(&one->run, &figures.row[i].run);
	}
	for (size_t i = 0; i < u->n; i++)
		if (histogram_count(&u->list[i].run) >= RUNS_MIN)
			u->list[i].p95_us = histogram_quantile_us(&u->list[i].run, 0.95);
	store_figures_clear(&figures);
	return rc;
}

static void show_claimed(struct web_request *r, const struct rows *rows, size_t i)
{
	struct web_running_row job = web_running_row(rows->res, i);
	int64_t p95_us = usual_find(rows->context, job.fn)->p95_us;

	page_span_s(&r->reply.body, job.held_s);
	/* Only whole seconds are known. */
	if (p95_us != PART_NONE && job.held_s > p95_us / 1000000 + 1)
		html_raw(&r->reply.body, " <span class=\"state is-late\">long</span>");
}

static void show_usual(struct web_request *r, const struct rows *rows, size_t i)
{
	int64_t p95_us = usual_find(rows->context, web_running_row(rows->res, i).fn)->p95_us;

	if (p95_us != PART_NONE)
		page_span_us(&r->reply.body, p95_us);
}

static bool is_usual(const struct rows *rows, size_t i)
{
	return ((const struct usual *)rows->list)[i].p95_us != PART_NONE;
}

int pages_running(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(web_running, id), CELL_JOB, "job", "Job" },
		{ AT(web_running, queue), CELL_QUEUE, "queue", "Queue" },
		{ AT(web_running, fn), CELL_FN, "fn", "Function" },
		{ AT(web_running, attempt), CELL_INT, "attempt", "Attempt" },
		{ AT(web_running, held_s), CELL_SPAN, "held_s", "Claimed for", .show = show_claimed },
		{ AT(web_running, held_s), CELL_US, NULL, "p95 run time", .show = show_usual },
		{ AT(web_running, done),
		  CELL_PROGRESS,
		  "progress",
		  "Progress",
		  { AT(web_running, total), AT(web_running, text) } },
		{ AT(web_running, worker), CELL_TEXT, "worker", "Worker" },
		{ AT(web_running, lease_s), CELL_IN, "lease_s", "Lease ends" },
	};
	static const struct column usual_columns[] = {
		{ offsetof(struct usual, fn), CELL_FN, "fn" },
		{ offsetof(struct usual, p95_us), CELL_US, "run_p95_us" },
	};
	static const struct part part = PART("running", NULL, "No jobs are running.", columns),
				 usual_part = PART("usual", NULL, NULL, usual_columns);
	struct usual_list usual = { 0 };
	struct pg_result *res = NULL;
	size_t hidden_len;
	const char **hidden = page_hidden_functions(r, &hidden_len);
	int rc = web_running_exec(r->pg, hidden, hidden_len, &res, err);

	if (rc == 0)
		rc = usual_read(r, res, &usual, err);
	if (rc == 0) {
		page_begin(r, NULL, "Running");
		if (!r->json)
			html_raw(&r->reply.body, "<p class=\"hint\">Claimed jobs, longest first. A worker may claim a "
						 "few jobs before it starts them. The mark \"long\" means: longer than "
						 "the p95 run time of the function in the last day.</p>");
		page_live(r, "running");
		part_write(r, &part, &(struct rows){ .res = res, .n = pg_rows(res), .context = &usual });
		if (r->json)
			part_write(r, &usual_part,
				   &(struct rows){ .list = usual.list,
						   .n = usual.n,
						   .size = sizeof(*usual.list),
						   .use = is_usual });
		page_live_end(r);
		page_end(r);
	}
	pg_result_free(res);
	return rc;
}
