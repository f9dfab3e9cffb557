/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "page/chart.h"
#include "program/builds.h"
#include "rows/queue.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define BUILDS 40
#define BUILDS_BACK_S (7 * 86400)

static const struct column offer_columns[] = {
	{ AT(admin_functions, fn), CELL_FN, "fn", "Function" },
	{ AT(admin_functions, plugin), CELL_TEXT, "plugin", "Plugin" },
	{ AT(admin_functions, version), CELL_TEXT, "version", "Version" },
	{ AT(admin_functions, timeout_ms), CELL_INT, "timeout_ms", "Timeout (ms)" },
	{ AT(admin_functions, max_attempts), CELL_INT, "max_attempts", "Max attempts" },
	{ AT(admin_functions, max_running), CELL_INT, "max_running", "Max running" },
	{ AT(admin_functions, rate), CELL_INT, "rate", "Rate limit (per second)" },
	{ AT(admin_functions, hosts), CELL_INT, "hosts", "Hosts" },
	{ AT(admin_functions, some_hosts), CELL_TEXT, "some_hosts", "Examples" },
	{ AT(admin_functions, seen_s), CELL_AGO, "seen_s", "Reported" },
	{ AT(admin_functions, json), CELL_WHOLE },
};

int pages_functions(struct web_request *r, struct deferred_error *err)
{
	static const struct part part =
		PART("functions", NULL, "No worker has reported its functions yet.", offer_columns);
	struct pg_result *res = NULL;
	int rc = admin_functions_exec(r->pg, NULL, &res, err);

	return pages_list(r, &part, page_may_act(r) ? "<p><a href=\"/defer\">Defer a job</a></p>" : "", res, rc);
}

/* ---- builds ----------------------------------------------------------------------------------- */

/* A build, and how it compares with the one before it. A figure that is not known is NAN or PART_NONE. */
struct build_row {
	struct build b;
	int64_t p50_us, p95_us, cpu_each_us, first_ago_s, last_ago_s;
	double slowdown, slowdown_low, slowdown_high, crashes, crashes_low, crashes_high;
};

static const struct build_row *build_at(const struct rows *rows, size_t i)
{
	return (const struct build_row *)rows->list + i;
}

static void show_plugin(struct web_request *r, const struct rows *rows, size_t i)
{
	const char *plugin = build_at(rows, i)->b.plugin;

	html_printf(&r->reply.body, "<bdi>%s</bdi>", *plugin ? plugin : "unknown");
}

/* A number, and its share of all attempts. */
static void show_share(struct web_request *r, int64_t n, int64_t attempts)
{
	html_printf(&r->reply.body, "%" PRId64, n);
	if (n > 0)
		html_printf(&r->reply.body, " <span class=\"quiet\">%.1f %%</span>",
			    100.0 * (double)n / (double)attempts);
}

static void show_failed(struct web_request *r, const struct rows *rows, size_t i)
{
	show_share(r, build_at(rows, i)->b.failed, build_at(rows, i)->b.attempts);
}

static void show_timeouts(struct web_request *r, const struct rows *rows, size_t i)
{
	show_share(r, build_at(rows, i)->b.timeout, build_at(rows, i)->b.attempts);
}

/* With a word where it crashed more, or less, than before, and chance does not explain that. */
static void show_crashed(struct web_request *r, const struct rows *rows, size_t i)
{
	const struct build_row *b = build_at(rows, i);

	if (b->crashes_low > 0 || b->crashes_high < 0)
		html_printf(&r->reply.body, "<strong>%s</strong> ", b->crashes_low > 0 ? "more" : "less");
	show_share(r, b->b.crashed, b->b.attempts);
}

/* With a word where chance does not explain the difference. */
static void show_slowdown(struct web_request *r, const struct rows *rows, size_t i)
{
	const struct build_row *b = build_at(rows, i);

	if (isnan(b->slowdown))
		return;
	if (b->slowdown_low > BUILDS_SLOWER || b->slowdown_high < 1 / BUILDS_SLOWER)
		html_printf(&r->reply.body, "<strong>%s</strong> ",
			    b->slowdown_low > BUILDS_SLOWER ? "slower" : "faster");
	html_printf(&r->reply.body, "%.2f\xc3\x97 <span class=\"quiet\">%.2f to %.2f</span>", b->slowdown,
		    b->slowdown_low, b->slowdown_high);
}

#define BUILD(member) offsetof(struct build_row, member)
static const struct column build_columns[] = {
	{ BUILD(b.plugin), CELL_WORD, "plugin", "Plugin, version, build", .show = show_plugin },
	{ BUILD(b.attempts), CELL_INT, "attempts", "Attempts" },
	{ BUILD(b.failed), CELL_INT, "failed", "Failed", .show = show_failed },
	{ BUILD(b.crashed), CELL_INT, "crashed", "Crashed", .show = show_crashed },
	{ BUILD(b.timeout), CELL_INT, "timeout", "Timeouts", .show = show_timeouts },
	{ BUILD(b.dead), CELL_INT, "dead", "Dead" },
	{ BUILD(p50_us), CELL_US, "run_p50_us", "p50" },
	{ BUILD(p95_us), CELL_US, "run_p95_us", "p95" },
	{ BUILD(slowdown), CELL_REAL, "slowdown", "p50 vs previous build", .show = show_slowdown },
	{ BUILD(slowdown_low), CELL_REAL, "slowdown_low", "" },
	{ BUILD(slowdown_high), CELL_REAL, "slowdown_high", "" },
	{ BUILD(crashes), CELL_REAL, "more_crashes", "" },
	{ BUILD(crashes_low), CELL_REAL, "more_crashes_low", "" },
	{ BUILD(crashes_high), CELL_REAL, "more_crashes_high", "" },
	{ BUILD(b.cpu_us), CELL_US, "cpu_us", "" },
	{ BUILD(cpu_each_us), CELL_US, NULL, "CPU per attempt" },
	{ BUILD(b.max_rss_kb), CELL_KIB, "max_rss_kb", "Peak memory" },
	{ BUILD(b.first_s), CELL_INT, "first", "" },
	{ BUILD(b.last_s), CELL_INT, "last", "" },
	{ BUILD(first_ago_s), CELL_AGO, NULL, "First hour" },
	{ BUILD(last_ago_s), CELL_AGO, NULL, "Last hour" },
};
static const struct part build_part = PART("builds", "Builds in the last 7 days", "No attempts.", build_columns);

static int64_t quantile_us(const struct histogram *h, double quantile)
{
	int64_t us = histogram_quantile_us(h, quantile);

	return us < 0 ? PART_NONE : us;
}

static void show_builds(struct web_request *r, const struct builds *builds, int64_t now_s)
{
	struct build_row *rows = arena_alloc(&r->arena, (builds->n + 1) * sizeof(*rows));

	for (size_t i = 0; i < builds->n; i++) {
		const struct build *b = &builds->list[i];
		struct histogram_ratio slower;
		struct proportion_difference crashes;

		if (!builds_slowdown(builds, b, &slower))
			slower = (struct histogram_ratio){ NAN, NAN, NAN };
		if (!builds_crashes(builds, b, &crashes))
			crashes = (struct proportion_difference){ NAN, NAN, NAN };
		rows[i] = (struct build_row){
			.b = *b,
			.p50_us = quantile_us(&b->run, 0.5),
			.p95_us = quantile_us(&b->run, 0.95),
			.cpu_each_us = b->cpu_us / b->attempts,
			.first_ago_s = now_s - b->first_s,
			.last_ago_s = now_s - b->last_s,
			.slowdown = slower.times,
			.slowdown_low = slower.low,
			.slowdown_high = slower.high,
			.crashes = crashes.more,
			.crashes_low = crashes.low,
			.crashes_high = crashes.high,
		};
	}
	part_write(r, &build_part, &(struct rows){ .list = rows, .n = builds->n, .size = sizeof(*rows) });
	if (!r->json && builds->more)
		html_raw(&r->reply.body, "<p class=\"hint\">Only the newest builds are shown.</p>");
}

/* ---- one function ----------------------------------------------------------------------------- */

static void show_links(struct web_request *r)
{
	const char *fn = page_url(r, r->name);

	html_printf(&r->reply.body, "<p><a href=\"/jobs?fn=%s\">Jobs of this function</a>", fn);
	if (page_may_act(r))
		html_printf(&r->reply.body, " \xc2\xb7 <a href=\"/defer?fn=%s\">Defer a job</a>", fn);
	html_raw(&r->reply.body, "</p>");
}

static int show_function(struct web_request *r, const struct pg_result *offers, const struct pg_result *limits,
			 const struct builds *builds, int64_t now_s, struct deferred_error *err)
{
	/* The function, and its limits, are shown elsewhere on the page. */
	struct column columns[sizeof(offer_columns) / sizeof(offer_columns[0])];
	const struct part part = PART("offers", "Workers that offer it", "No worker offers this function.", columns);
	struct admin_function_ls_row limit = { 0 };
	int rc;

	memcpy(columns, offer_columns, sizeof(columns));
	for (size_t i = 0; i < part.len; i++)
		if (columns[i].at == AT(admin_functions, fn) || columns[i].at == AT(admin_functions, max_running) ||
		    columns[i].at == AT(admin_functions, rate))
			columns[i].title = "";
	if (pg_rows(limits) > 0)
		limit = admin_function_ls_row(limits, 0);
	pages_outcome(r);
	if (!r->json)
		show_links(r);
	page_live(r, "builds");
	rc = pages_limit_used(r, NULL, r->name, limit.has_max_running, limit.max_running, err);
	if (rc < 0)
		return rc;
	show_builds(r, builds, now_s);
	page_live_end(r);
	rc = chart_figures(r, NULL, r->name, err);
	if (rc == 0)
		rc = pages_errors(r, r->name, err);
	if (rc < 0)
		return rc;
	part_result(r, &part, offers);
	pages_function_settings(r, limits);
	return pages_actions(r, &(struct pages_target){ .fn = r->name }, err);
}

int pages_function(struct web_request *r, struct deferred_error *err)
{
	const struct store_figures_query query = {
		.span = STORE_HOURS, .by = STORE_BY_BUILD, .fn = r->name, .back_s = BUILDS_BACK_S
	};
	struct store_figures figures = { 0 };
	struct builds builds = { .list = arena_alloc(&r->arena, BUILDS * sizeof(struct build)), .max = BUILDS };
	struct pg_result *offers = NULL, *limits = NULL;
	int rc;

	if (!chart_is_asked(r))
		return 0;
	rc = admin_functions_exec(r->pg, r->name, &offers, err);
	if (rc == 0)
		rc = admin_function_ls_exec(r->pg, r->name, &limits, err);
	if (rc == 0)
		rc = store_figures(r->pg, &query, &figures, err);
	if (rc == 0)
		builds_gather(&builds, &figures);
	if (rc == 0 && pg_rows(offers) == 0 && pg_rows(limits) == 0 && builds.n == 0) {
		page_refuse(r, 404,
			    "No such function: no worker offers it, it has no limits, and it did not run in the last "
			    "7 days.");
	} else if (rc == 0) {
		page_begin(r, "Function", r->name);
		rc = show_function(r, offers, limits, &builds, figures.now_s, err);
		page_end(r);
	}
	store_figures_clear(&figures);
	pg_result_free(limits);
	pg_result_free(offers);
	return rc;
}
