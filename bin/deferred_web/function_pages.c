/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "base/job.h"
#include "chart.h"
#include "program/builds.h"

#include <inttypes.h>
#include <string.h>

#define BUILDS 40
#define BUILDS_BACK_S (7 * 86400)

static void builds_json(struct visit *v, const struct builds *builds)
{
	struct buf *o = &v->reply.body;
	struct histogram_ratio ratio;
	struct proportion_difference crashes;

	html_raw(o, ",\"builds\":[");
	for (size_t i = 0; i < builds->n; i++) {
		const struct build *b = &builds->list[i];

		html_text(o, i > 0 ? ",\n" : "");
		html_raw(o, "{\"plugin\":");
		html_json(o, b->plugin);
		buf_printf(o,
			   ",\"attempts\":%" PRId64 ",\"failed\":%" PRId64 ",\"crashed\":%" PRId64
			   ",\"timeout\":%" PRId64 ",\"dead\":%" PRId64 ",\"run_p50_us\":%" PRId64
			   ",\"run_p95_us\":%" PRId64 ",\"cpu_us\":%" PRId64 ",\"max_rss_kb\":%" PRId64
			   ",\"first\":%" PRId64 ",\"last\":%" PRId64,
			   b->attempts, b->failed, b->crashed, b->timeout, b->dead, histogram_quantile_us(&b->run, 0.5),
			   histogram_quantile_us(&b->run, 0.95), b->cpu_us, b->max_rss_kb, b->first_s, b->last_s);
		if (builds_slowdown(builds, b, &ratio))
			buf_printf(o, ",\"slowdown\":%.3f,\"slowdown_low\":%.3f,\"slowdown_high\":%.3f", ratio.times,
				   ratio.low, ratio.high);
		if (builds_crashes(builds, b, &crashes))
			buf_printf(o, ",\"more_crashes\":%.4f,\"more_crashes_low\":%.4f,\"more_crashes_high\":%.4f",
				   crashes.more, crashes.low, crashes.high);
		html_raw(o, "}");
	}
	html_raw(o, "]");
}

/* A number, and which share of all it is. */
static void number_of(struct buf *o, int64_t n, int64_t all)
{
	buf_printf(o, "%" PRId64, n);
	if (n > 0)
		buf_printf(o, " <span class=\"quiet\">%.1f %%</span>", 100.0 * (double)n / (double)all);
}

static void share(struct buf *o, int64_t n, int64_t all)
{
	html_raw(o, "<td class=\"n\">");
	number_of(o, n, all);
	html_raw(o, "</td>");
}

/* How often it crashed: with a word where that is more, or less, than before, and no chance. */
static void crashes(struct buf *o, const struct builds *builds, const struct build *b)
{
	struct proportion_difference than_before;

	html_raw(o, "<td class=\"n\">");
	if (builds_crashes(builds, b, &than_before) && (than_before.low > 0 || than_before.high < 0))
		buf_printf(o, "<strong>%s</strong> ", than_before.low > 0 ? "more" : "less");
	number_of(o, b->crashed, b->attempts);
	html_raw(o, "</td>");
}

static void span(struct buf *o, int64_t us)
{
	html_raw(o, "<td class=\"n\">");
	if (us >= 0)
		page_span_us(o, us);
	html_raw(o, "</td>");
}

/* How long it runs against the build before: in words where that is no chance. */
static void slowdown(struct buf *o, const struct builds *builds, const struct build *b)
{
	struct histogram_ratio ratio;

	html_raw(o, "<td class=\"n\">");
	if (builds_slowdown(builds, b, &ratio)) {
		if (ratio.low > BUILDS_SLOWER || ratio.high < 1 / BUILDS_SLOWER)
			buf_printf(o, "<strong>%s</strong> ", ratio.low > BUILDS_SLOWER ? "slower" : "faster");
		buf_printf(o, "%.2f\xc3\x97 <span class=\"quiet\">%.2f to %.2f</span>", ratio.times, ratio.low,
			   ratio.high);
	}
	html_raw(o, "</td>");
}

static void builds_table(struct visit *v, const struct builds *builds, int64_t now_s)
{
	struct buf *o = &v->reply.body;

	html_raw(o, "<section><h2>Builds in the last 7 days</h2>");
	if (builds->n == 0) {
		html_raw(o, "<p class=\"empty\">No attempts.</p></section>");
		return;
	}
	html_raw(o, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Builds\"><table><thead><tr><th "
		    "scope=\"col\">Plugin, version, build</th>"
		    "<th scope=\"col\" class=\"n\">Attempts</th><th scope=\"col\" class=\"n\">Failed</th><th "
		    "scope=\"col\" class=\"n\">Crashed</th>"
		    "<th scope=\"col\" class=\"n\">Timeouts</th><th scope=\"col\" class=\"n\">Dead</th><th "
		    "scope=\"col\" class=\"n\">p50</th>"
		    "<th scope=\"col\" class=\"n\">p95</th><th scope=\"col\" class=\"n\">p50 vs previous "
		    "build</th><th scope=\"col\" class=\"n\">CPU per attempt</th><th scope=\"col\" "
		    "class=\"n\">Peak memory</th>"
		    "<th scope=\"col\">First hour</th><th scope=\"col\">Last hour</th></tr></thead><tbody>");
	for (size_t i = 0; i < builds->n; i++) {
		const struct build *b = &builds->list[i];

		html_raw(o, "<tr><td><bdi>");
		html_text(o, *b->plugin ? b->plugin : "unknown");
		buf_printf(o, "</bdi></td><td class=\"n\">%" PRId64 "</td>", b->attempts);
		share(o, b->failed, b->attempts);
		crashes(o, builds, b);
		share(o, b->timeout, b->attempts);
		buf_printf(o, "<td class=\"n\">%" PRId64 "</td>", b->dead);
		span(o, histogram_quantile_us(&b->run, 0.5));
		span(o, histogram_quantile_us(&b->run, 0.95));
		slowdown(o, builds, b);
		span(o, b->cpu_us / b->attempts);
		buf_printf(o, "<td class=\"n\">%" PRId64 " MiB</td><td>", b->max_rss_kb / 1024);
		page_span_us(o, (now_s - b->first_s) * 1000000);
		html_raw(o, " ago</td><td>");
		page_span_us(o, (now_s - b->last_s) * 1000000);
		html_raw(o, " ago</td></tr>\n");
	}
	html_raw(o, "</tbody></table></div>");
	if (builds->more)
		html_raw(o, "<p class=\"hint\">Only the newest builds are shown.</p>");
	html_raw(o, "</section>");
}

int errors_of(struct visit *v, const char *fn, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_FN, "fn", "Function" },
		{ 1, CELL_STATE, "outcome", "Outcome" },
		{ 2, CELL_TEXT, "error", "First line (numbers as #)" },
		{ 3, CELL_INT, "jobs", "Jobs" },
		{ 5, CELL_AGO, "last_s", "Last" },
		{ 4, CELL_AGO, "first_s", "First" },
		{ 6, CELL_JOB, "newest", "Newest job" },
		{ 0, CELL_RETRY, NULL, "Retry" },
	};
	static const struct part all =
		PART("errors", "Errors", "No errors among the newest 2,000 failed jobs.", columns);
	struct pg_result *res = NULL;
	struct part part = all;
	const char **hidden;
	size_t len;
	int rc;

	if (!v->me.reader)
		return 0;
	part.len -= v->json || !visit_may_act(v);
	hidden = hidden_functions(v, &len);
	rc = web_errors_exec(v->pg, fn, STORE_WEB_ENDS, hidden, len, &res, err);
	if (rc == 0)
		page_part(v, &part, res, NULL);
	pg_result_free(res);
	return rc;
}

int page_function(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 1, CELL_TEXT, "plugin", "Plugin" },
		{ 2, CELL_TEXT, "version", "Version" },
		{ 3, CELL_INT, "timeout_ms", "Timeout (ms)" },
		{ 4, CELL_INT, "max_attempts", "Max attempts" },
		{ 7, CELL_INT, "hosts", "Hosts" },
		{ 8, CELL_TEXT, "some_hosts", "Examples" },
		{ 9, CELL_AGO, "seen_s", "Reported" },
		{ 10, CELL_WHOLE, NULL, NULL },
	};
	static const struct part part =
		PART("offers", "Workers that offer it", "No worker offers this function.", columns);
	struct store_figures_query query = {
		.span = STORE_HOURS, .by = STORE_BY_BUILD, .fn = v->name, .back_s = BUILDS_BACK_S
	};
	struct store_figures figures = { 0 };
	struct builds builds = { .list = arena_alloc(&v->arena, BUILDS * sizeof(struct build)), .max = BUILDS };
	struct pg_result *offers = NULL, *limits = NULL;
	struct buf *b = &v->reply.body;
	int rc = admin_functions_exec(v->pg, v->name, &offers, err);

	if (rc == 0)
		rc = admin_function_ls_exec(v->pg, v->name, &limits, err);
	if (rc == 0)
		rc = store_figures(v->pg, &query, &figures, err);
	if (rc < 0)
		goto done;
	builds_gather(&builds, &figures);
	if (pg_rows(offers) == 0 && pg_rows(limits) == 0 && builds.n == 0) {
		visit_refuse(v, 404,
			     "No such function: no worker offers it, it has no limits, and it did not run in the last "
			     "7 days.");
		goto done;
	}
	page_begin(v, "Function", v->name);
	action_said(v);
	if (!v->json) {
		html_raw(b, "<p><a href=\"/jobs?fn=");
		html_url(b, v->name);
		html_raw(b, "\">Jobs of this function</a>");
		if (visit_may_act(v)) {
			html_raw(b, " \xc2\xb7 <a href=\"/defer?fn=");
			html_url(b, v->name);
			html_raw(b, "\">Defer a job</a>");
		}
		html_raw(b, "</p>");
	}
	page_live(v, "builds");
	rc = limit_used(v, NULL, v->name, limits, err);
	if (rc < 0)
		goto done;
	if (v->json)
		builds_json(v, &builds);
	else
		builds_table(v, &builds, figures.now_s);
	page_live_end(v);
	rc = chart_figures(v, NULL, v->name, err);
	if (rc == 0)
		rc = errors_of(v, v->name, err);
	if (rc < 0)
		goto done;
	page_part(v, &part, offers, NULL);
	function_settings(v, limits);
	rc = actions_of(v, &(struct store_web_target){ .fn = v->name }, err);
	page_end(v);
done:
	store_figures_clear(&figures);
	pg_result_free(limits);
	pg_result_free(offers);
	return rc;
}
