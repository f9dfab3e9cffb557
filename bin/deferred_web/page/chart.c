/* SPDX-License-Identifier: MIT */
#include "chart.h"

#include "base/advice/histogram.h"
#include "base/job.h"
#include "store/figures.h"
#include "part.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define SERIES 3
#define MARKS 50

/* One bar. */
struct point {
	int64_t at_s, ok, failed, deferred;
	struct histogram wait, run;
};

static const struct range {
	const char *name, *title, *bar;
	int64_t width_s;
	size_t n;
	enum store_span span;
} ranges[] = {
	{ "1h", "1 hour", "minute", 60, 60, STORE_MINUTES },
	{ "24h", "24 hours", "10 minutes", 600, 144, STORE_MINUTES },
	{ "7d", "7 days", "hour", 3600, 168, STORE_HOURS },
	{ "90d", "90 days", "day", 86400, 90, STORE_HOURS },
	{ "400d", "400 days", "day", 86400, 400, STORE_HOURS },       /* as long as hours are kept */
};
#define RANGES (sizeof(ranges) / sizeof(ranges[0]))

struct chart {
	const struct range *range;
	struct point *point;
	size_t n;
	const struct pg_result *marks; /* rows of figures_marks.sql; NULL: none */
};

static const struct range *asked_range(struct web_request *r)
{
	const char *name = page_query(r, "range");

	for (size_t i = 0; name && i < RANGES; i++)
		if (strcmp(name, ranges[i].name) == 0)
			return &ranges[i];
	return name ? NULL : &ranges[0];
}

bool chart_is_asked(struct web_request *r)
{
	if (asked_range(r))
		return true;
	page_refuse_value(r, "range", page_query(r, "range"), "Use one of: 1h, 24h, 7d, 90d, 400d.");
	return false;
}

static void chart_gather(struct web_request *r, struct chart *c, const struct store_figures *figures)
{
	int64_t w = c->range->width_s, from = figures->now_s / w * w - (int64_t)(c->range->n - 1) * w;

	c->n = c->range->n;
	c->point = arena_alloc(&r->arena, c->n * sizeof(*c->point));
	for (size_t i = 0; i < c->n; i++)
		c->point[i].at_s = from + (int64_t)i * w;
	for (size_t i = 0; i < figures->n; i++) {
		const struct store_figure *f = &figures->row[i];
		int64_t at = (f->at_s - from) / w;
		struct point *p;

		if (f->at_s < from || at >= (int64_t)c->n)
			continue;
		p = &c->point[at];
		p->ok += f->outcome[JOB_OK];
		p->failed += f->attempts - f->outcome[JOB_OK];
		p->deferred += f->arrived;
		histogram_add(&p->wait, &f->wait);
		histogram_add(&p->run, &f->run);
	}
}

static const char *chart_time(const struct chart *c, int64_t at_s, char text[32])
{
	time_t t = (time_t)at_s;
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(text, 32,
		 c->range->width_s >= 86400 ? "%Y-%m-%d"
		 : c->range->width_s > 60   ? "%m-%d %H:%M"
					    : "%H:%M",
		 &tm);
	return text;
}

/* ---- drawing ---------------------------------------------------------------------------------- */

/* One drawing: bars on top of each other, and for counts a line. */
struct figure {
	const char *id, *title, *series[SERIES];
	bool is_time; /* values are microseconds, less than 0: none; else they are counts */
	int64_t (*value)(const struct point *p, int series);
};

static int64_t count_value(const struct point *p, int series)
{
	return series == 0 ? p->ok : series == 1 ? p->failed : p->deferred;
}

static const double quantiles[SERIES] = { 0.5, 0.95, 0.99 };
static const char *const quantile_names[SERIES] = { "p50", "p95", "p99" };

static int64_t wait_value(const struct point *p, int series)
{
	return histogram_quantile_us(&p->wait, quantiles[series]);
}

static int64_t run_value(const struct point *p, int series)
{
	return histogram_quantile_us(&p->run, quantiles[series]);
}

static const struct figure figures_drawn[] = {
	{ "attempts", "Attempts", { "ok", "failed", "deferred" }, false, count_value },
	{ "wait", "Wait time", { "p50", "p95", "p99" }, true, wait_value },
	{ "run", "Run time", { "p50", "p95", "p99" }, true, run_value },
};

static bool is_line_series(const struct figure *f, int series)
{
	return !f->is_time && series == 2;
}

/* The upper end of a bar. Bars of failed attempts stand on those of successful ones. */
static double top_of(const struct figure *f, const struct point *p, int series)
{
	return (double)f->value(p, series) + (!f->is_time && series == 1 ? (double)f->value(p, 0) : 0);
}

static bool has_values(const struct figure *f, const struct point *p)
{
	for (int s = 0; s < SERIES; s++)
		if (f->value(p, s) > 0 || (f->is_time && f->value(p, s) == 0))
			return true;
	return false;
}

/* The end of an axis. Its middle is a whole number of the unit in which it is written. */
static double axis_end(double max, bool is_time)
{
	static const struct {
		double beyond, unit;
	} units[] = { { 1e6, 1e6 }, { 60e6, 60e6 }, { 3600e6, 3600e6 }, { 72000e6, 86400e6 } };
	static const double steps[] = { 2, 4, 6, 10 };
	double unit = 1;

	for (size_t i = 0; is_time && i < sizeof(units) / sizeof(units[0]); i++)
		if (max > units[i].beyond)
			unit = units[i].unit;
	for (;; unit *= 10)
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
			if (steps[i] * unit >= max)
				return steps[i] * unit;
}

static void value_text(struct buf *b, const struct figure *f, int64_t value)
{
	if (f->is_time && value != 0)
		page_span_us(b, value);
	else
		html_printf(b, "%" PRId64, value);
}

static double y_of_value(double value, double end)
{
	return 100 - value / end * 100;
}

/* One unit of x is a bar; y goes to 100. A bar without a value is a gap. */
static void draw_series(struct buf *b, const struct chart *c, const struct figure *f, int series, double end)
{
	html_printf(b, "<path class=\"%s\" d=\"", f->series[series]);
	for (size_t i = 0; i < c->n; i++) {
		const struct point *p = &c->point[i];
		double top = top_of(f, p, series), bottom = series > 0 ? top_of(f, p, series - 1) : 0;

		if (is_line_series(f, series))
			html_printf(b, "%s%zu %.1fH%zu", i == 0 ? "M" : "L", i, y_of_value(top, end), i + 1);
		else if (top > bottom)
			html_printf(b, "M%zu.1 %.1fV%.1fh.8V%.1fz", i, y_of_value(bottom, end), y_of_value(top, end),
				    y_of_value(bottom, end));
	}
	html_raw(b, "\"/>");
}

/* The bar in which a build came; false: it came before the first one. */
static bool mark_bar(const struct chart *c, size_t row, size_t *bar)
{
	int64_t at = figures_marks_row(c->marks, row).at - c->point[0].at_s;

	*bar = at < 0 ? 0 : (size_t)(at / c->range->width_s);
	return at >= 0 && *bar < c->n;
}

static bool is_marked(const struct rows *rows, size_t row)
{
	size_t bar;

	return mark_bar(rows->context, row, &bar);
}

/* Newest first. */
static void list_marks(struct web_request *r, const struct chart *c)
{
	static const struct column columns[] = {
		{ AT(figures_marks, at), CELL_INT, "at" },
		{ AT(figures_marks, fn), CELL_FN, "fn" },
		{ AT(figures_marks, plugin), CELL_TEXT, "plugin" },
	};
	static const struct part part = PART("new_builds", NULL, NULL, columns);
	const struct rows rows = { .res = c->marks, .n = pg_rows(c->marks), .use = is_marked, .context = c };
	struct buf *b = &r->reply.body;
	bool any = false;
	char text[32];
	size_t bar;

	if (r->json && c->marks)
		part_write(r, &part, &rows);
	for (size_t row = 0; !r->json && row < rows.n; row++) {
		struct figures_marks_row mark = figures_marks_row(c->marks, row);

		if (!mark_bar(c, row, &bar))
			continue;
		html_printf(b, "%-s%s ", any ? "<li>" : "<h3>New builds</h3><ul class=\"marks\"><li>",
			    chart_time(c, mark.at, text));
		part_cell(r, CELL_FN, c->marks, row, AT(figures_marks, fn));
		html_printf(b, " <bdi>%s</bdi></li>", mark.plugin);
		any = true;
	}
	if (any)
		html_raw(b, "</ul>");
}

/* The time until which attempts are counted. */
static void counted_until(struct web_request *r, const struct store_figures *figures)
{
	time_t t = (time_t)figures->folded_s;
	struct tm tm;
	char text[32];

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), figures->now_s - figures->folded_s < 86400 ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S",
		 &tm);
	html_printf(&r->reply.body,
		    "<p class=\"hint\">As of %s UTC. Attempts that ended later are not counted yet.</p>", text);
}

static void figure_table(struct buf *b, const struct chart *c, const struct figure *f)
{
	char text[32];

	html_printf(b,
		    "<details><summary>Table</summary>"
		    "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\"><table><thead><tr>"
		    "<th scope=\"col\">From</th>",
		    f->title);
	for (int s = 0; s < SERIES; s++)
		html_printf(b, "<th scope=\"col\" class=\"n\">%s</th>", f->series[s]);
	html_raw(b, "</tr></thead><tbody>");
	for (size_t i = 0; i < c->n; i++) {
		if (!has_values(f, &c->point[i]))
			continue;
		html_printf(b, "<tr data-at=\"%zu\"><td>%s</td>", i, chart_time(c, c->point[i].at_s, text));
		for (int s = 0; s < SERIES; s++) {
			html_raw(b, "<td class=\"n\">");
			value_text(b, f, f->value(&c->point[i], s));
			html_raw(b, "</td>");
		}
		html_raw(b, "</tr>");
	}
	html_raw(b, "</tbody></table></div></details>");
}

static void figure_legend(struct buf *b, const struct chart *c, const struct figure *f)
{
	bool marked = false;
	size_t bar;

	html_raw(b, "<ul class=\"legend\">");
	for (int s = 0; s < SERIES; s++)
		html_printf(b, "<li class=\"%s\">%s</li>", f->series[s], f->series[s]);
	for (size_t row = 0; row < pg_rows(c->marks); row++)
		marked |= mark_bar(c, row, &bar);
	html_printf(b, "%-s</ul>", marked ? "<li class=\"mark\">new build</li>" : "");
}

/* The labels of both axes are outside of the drawing, which takes the remaining room. */
static void figure_drawing(struct buf *b, const struct chart *c, const struct figure *f, double max)
{
	double end = axis_end(max, f->is_time);
	char first[32], middle[32], last[32];
	size_t bar;

	html_raw(b, "<div class=\"axes\"><div class=\"y\">");
	for (int half = 2; half >= 0; half--) {
		html_raw(b, "<span>");
		value_text(b, f, (int64_t)(end * half / 2));
		html_raw(b, "</span>");
	}
	html_printf(b,
		    "</div><div class=\"plot\" data-bars=\"%zu\" data-from=\"%" PRId64 "\" data-width=\"%" PRId64 "\">"
		    "<svg viewBox=\"0 0 %zu 100\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"t-%s\">"
		    "<title id=\"t-%s\">%s per %s, %s, maximum ",
		    c->n, c->point[0].at_s, c->range->width_s, c->n, f->id, f->id, f->title, c->range->bar,
		    c->range->title);
	value_text(b, f, (int64_t)max);
	html_printf(b, "</title><path class=\"grid\" d=\"M0 0H%zuM0 50H%zuM0 100H%zu\"/>", c->n, c->n, c->n);
	/* A line is the last of the series. It is drawn first, because it would cover narrow bars. */
	for (int s = SERIES - 1; s >= 0; s--)
		draw_series(b, c, f, s, end);
	for (size_t row = 0; row < pg_rows(c->marks); row++)
		if (mark_bar(c, row, &bar))
			html_printf(b, "<path class=\"mark\" d=\"M%zu 0V100\"/>", bar);
	html_printf(b,
		    "</svg></div><div class=\"x\"><span>%s</span><span>%s</span><span>%s</span></div>"
		    "<p>Time (UTC)</p></div>",
		    chart_time(c, c->point[0].at_s, first), chart_time(c, c->point[c->n / 2].at_s, middle),
		    chart_time(c, c->point[c->n - 1].at_s + c->range->width_s, last));
}

static void figure_markup(struct buf *b, const struct chart *c, const struct figure *f)
{
	double max = 0;
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		any |= has_values(f, &c->point[i]);
		for (int s = 0; s < SERIES; s++)
			max = top_of(f, &c->point[i], s) > max ? top_of(f, &c->point[i], s) : max;
	}
	html_printf(b, "<figure class=\"chart\"><figcaption>%s per %s</figcaption>", f->title, c->range->bar);
	if (any) {
		figure_legend(b, c, f);
		figure_drawing(b, c, f, max);
		figure_table(b, c, f);
	} else {
		html_raw(b, "<p class=\"hint\">No attempts in this time.</p>");
	}
	html_raw(b, "</figure>");
}

static void chart_html(struct web_request *r, const struct chart *c, const struct store_figures *figures)
{
	struct buf *b = &r->reply.body;

	html_raw(b, "<section><h2>History</h2><ul class=\"ranges\">");
	for (size_t i = 0; i < RANGES; i++)
		html_printf(b, "<li><a href=\"?range=%s\"%-s>%s</a></li>", ranges[i].name,
			    &ranges[i] == c->range ? " aria-current=\"true\"" : "", ranges[i].title);
	html_raw(b, "</ul>");
	counted_until(r, figures);
	html_raw(b, "<div class=\"charts\">");
	for (size_t i = 0; i < sizeof(figures_drawn) / sizeof(figures_drawn[0]); i++)
		figure_markup(b, c, &figures_drawn[i]);
	html_raw(b, "</div>");
	list_marks(r, c);
	html_raw(b, "</section>");
}

static void chart_json(struct web_request *r, const struct chart *c, const struct store_figures *figures)
{
	struct buf *b = &r->reply.body;

	html_raw(b, ",\"figures\":[");
	for (size_t i = 0; i < c->n; i++) {
		const struct point *p = &c->point[i];

		html_printf(b, "%-s{\"at\":%" PRId64 ",\"ok\":%" PRId64 ",\"failed\":%" PRId64 ",\"deferred\":%" PRId64,
			    i > 0 ? ",\n" : "", p->at_s, p->ok, p->failed, p->deferred);
		for (int q = 0; q < SERIES && histogram_count(&p->wait) > 0; q++)
			html_printf(b, ",\"wait_%s_us\":%" PRId64 ",\"run_%s_us\":%" PRId64, quantile_names[q],
				    wait_value(p, q), quantile_names[q], run_value(p, q));
		html_raw(b, "}");
	}
	html_printf(b, "],\"as_of\":%" PRId64, figures->folded_s);
	list_marks(r, c);
}

int chart_figures(struct web_request *r, const char *queue, const char *fn, struct deferred_error *err)
{
	struct chart c = { .range = asked_range(r) };
	struct store_figures_query query = { .by = queue ? STORE_BY_QUEUE
						   : fn  ? STORE_BY_FUNCTION
							 : STORE_BY_NOTHING,
					     .queue = queue,
					     .fn = fn };
	struct store_figures figures = { 0 };
	struct pg_result *marks = NULL;
	int rc;

	query.span = c.range->span;
	query.back_s = (int64_t)c.range->n * c.range->width_s;
	rc = store_figures(r->pg, &query, &figures, err);
	/* A queue has no build. */
	if (rc == 0 && !queue)
		rc = figures_marks_exec(r->pg, fn, query.back_s, MARKS, &marks, err);
	if (rc == 0) {
		c.marks = marks;
		chart_gather(r, &c, &figures);
		if (r->json)
			chart_json(r, &c, &figures);
		else
			chart_html(r, &c, &figures);
	}
	pg_result_free(marks);
	store_figures_clear(&figures);
	return rc;
}
