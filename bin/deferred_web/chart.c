/* SPDX-License-Identifier: MIT */
#include "chart.h"

#include "base/advice/histogram.h"
#include "base/job.h"
#include "pages.h"
#include "store/figures.h"

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
	const struct pg_result *marks; /* figures_marks.sql; NULL: none */
};

static const struct range *asked_range(struct visit *v)
{
	const char *name = pages_text(v, "range");

	for (size_t i = 0; name && i < RANGES; i++)
		if (strcmp(name, ranges[i].name) == 0)
			return &ranges[i];
	return &ranges[0];
}

static void gather(struct visit *v, struct chart *c, const struct store_figures *figures)
{
	int64_t w = c->range->width_s, from = figures->now_s / w * w - (int64_t)(c->range->n - 1) * w;

	c->n = c->range->n;
	c->point = arena_alloc(&v->arena, c->n * sizeof(*c->point));
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

static const char *when(const struct chart *c, int64_t at_s, char text[32])
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

/* One drawing: bars that lie on each other, and for counts a line. */
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

static bool is_line(const struct figure *f, int series)
{
	return !f->is_time && series == 2;
}

/* The upper end of a bar: failed attempts lie on those that are ok, a quantile ends where it is. */
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

/* The end of an axis that has a whole number in its middle, with the unit in which it is written. */
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
		buf_printf(b, "%" PRId64, value);
}

static double y_of(double value, double end)
{
	return 100 - value / end * 100;
}

/* As long as the range in x, a bar each; 100 in y. Where a bar has no value there is a gap. */
static void draw_series(struct buf *b, const struct chart *c, const struct figure *f, int series, double end)
{
	buf_printf(b, "<path class=\"%s\" d=\"", f->series[series]);
	for (size_t i = 0; i < c->n; i++) {
		const struct point *p = &c->point[i];
		double top = top_of(f, p, series), bottom = series > 0 ? top_of(f, p, series - 1) : 0;

		if (is_line(f, series))
			buf_printf(b, "%c%zu %.1fH%zu", i == 0 ? 'M' : 'L', i, y_of(top, end), i + 1);
		else if (top > bottom)
			buf_printf(b, "M%zu.1 %.1fV%.1fh.8V%.1fz", i, y_of(bottom, end), y_of(top, end),
				   y_of(bottom, end));
	}
	html_raw(b, "\"/>");
}

/* The bar in which a build came; false: it came before the first one. */
static bool mark_at(const struct chart *c, size_t row, size_t *i)
{
	int64_t at = pg_int(c->marks, row, 0) - c->point[0].at_s;

	*i = at < 0 ? 0 : (size_t)(at / c->range->width_s);
	return at >= 0 && *i < c->n;
}

static void draw_marks(struct buf *b, const struct chart *c)
{
	size_t i;

	for (size_t row = 0; row < pg_rows(c->marks); row++)
		if (mark_at(c, row, &i))
			buf_printf(b, "<path class=\"mark\" d=\"M%zu 0V100\"/>", i);
}

/* The same for who does not see them: in the order of the result, newest first. */
static void tell_marks(struct visit *v, const struct chart *c)
{
	struct buf *b = &v->reply.body;
	bool any = false;
	char text[32];
	size_t i;

	for (size_t row = 0; row < pg_rows(c->marks); row++) {
		if (!mark_at(c, row, &i))
			continue;
		if (v->json) {
			buf_printf(b, "%s{\"at\":%" PRId64 ",\"fn\":", any ? ",\n" : "", pg_int(c->marks, row, 0));
			html_json(b, pg_text(c->marks, row, 1, NULL));
			html_raw(b, ",\"plugin\":");
			html_json(b, pg_text(c->marks, row, 2, NULL));
			html_raw(b, "}");
		} else {
			buf_text(b, any ? "<li>" : "<h3>New builds</h3><ul class=\"marks\"><li>");
			html_text(b, when(c, pg_int(c->marks, row, 0), text));
			html_raw(b, " ");
			page_cell(v, CELL_FN, c->marks, row, 1);
			html_raw(b, " <bdi>");
			html_text(b, pg_text(c->marks, row, 2, NULL));
			html_raw(b, "</bdi></li>");
		}
		any = true;
	}
	if (any && !v->json)
		html_raw(b, "</ul>");
}

/* Where the figures end. */
static void as_of(struct visit *v, const struct store_figures *figures)
{
	time_t t = (time_t)figures->folded_s;
	struct tm tm;
	char text[32];

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), figures->now_s - figures->folded_s < 86400 ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S",
		 &tm);
	html_raw(&v->reply.body, "<p class=\"hint\">As of ");
	html_text(&v->reply.body, text);
	html_raw(&v->reply.body, " UTC. Attempts that ended later are not counted yet.</p>");
}

static void table(struct buf *b, const struct chart *c, const struct figure *f)
{
	char text[32];

	html_raw(b, "<details><summary>Table</summary>"
		    "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
	html_text(b, f->title);
	html_raw(b, "\"><table><thead><tr><th scope=\"col\">From</th>");
	for (int s = 0; s < SERIES; s++)
		buf_printf(b, "<th scope=\"col\" class=\"n\">%s</th>", f->series[s]);
	html_raw(b, "</tr></thead><tbody>");
	for (size_t i = 0; i < c->n; i++) {
		if (!has_values(f, &c->point[i]))
			continue;
		buf_printf(b, "<tr data-at=\"%zu\"><td>%s</td>", i, when(c, c->point[i].at_s, text));
		for (int s = 0; s < SERIES; s++) {
			html_raw(b, "<td class=\"n\">");
			value_text(b, f, f->value(&c->point[i], s));
			html_raw(b, "</td>");
		}
		html_raw(b, "</tr>");
	}
	html_raw(b, "</tbody></table></div></details>");
}

static void legend(struct buf *b, const struct chart *c, const struct figure *f)
{
	bool marked = false;
	size_t at;

	html_raw(b, "<ul class=\"legend\">");
	for (int s = 0; s < SERIES; s++)
		buf_printf(b, "<li class=\"%s\">%s</li>", f->series[s], f->series[s]);
	for (size_t row = 0; row < pg_rows(c->marks); row++)
		marked |= mark_at(c, row, &at);
	if (marked)
		html_raw(b, "<li class=\"mark\">new build</li>");
	html_raw(b, "</ul>");
}

/* Both axes have their labels outside of the drawing. The drawing takes the remaining room. */
static void axes(struct buf *b, const struct chart *c, const struct figure *f, double max)
{
	double end = axis_end(max, f->is_time);
	char text[32];

	html_raw(b, "<div class=\"axes\"><div class=\"y\">");
	for (int half = 2; half >= 0; half--) {
		html_raw(b, "<span>");
		value_text(b, f, (int64_t)(end * half / 2));
		html_raw(b, "</span>");
	}
	buf_printf(b,
		   "</div><div class=\"plot\" data-bars=\"%zu\" data-from=\"%" PRId64 "\" data-width=\"%" PRId64 "\">",
		   c->n, c->point[0].at_s, c->range->width_s);
	buf_printf(b,
		   "<svg viewBox=\"0 0 %zu 100\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"t-%s\">"
		   "<title id=\"t-%s\">%s per %s, %s, maximum ",
		   c->n, f->id, f->id, f->title, c->range->bar, c->range->title);
	value_text(b, f, (int64_t)max);
	buf_printf(b, "</title><path class=\"grid\" d=\"M0 0H%zuM0 50H%zuM0 100H%zu\"/>", c->n, c->n, c->n);
	/* A line comes last of the series, and is drawn first: it would cover narrow bars. */
	for (int s = SERIES - 1; s >= 0; s--)
		draw_series(b, c, f, s, end);
	draw_marks(b, c);
	buf_printf(b, "</svg></div><div class=\"x\"><span>%s</span>", when(c, c->point[0].at_s, text));
	buf_printf(b, "<span>%s</span>", when(c, c->point[c->n / 2].at_s, text));
	buf_printf(b, "<span>%s</span></div><p>Time (UTC)</p></div>",
		   when(c, c->point[c->n - 1].at_s + c->range->width_s, text));
}

static void draw(struct buf *b, const struct chart *c, const struct figure *f)
{
	double max = 0;
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		any |= has_values(f, &c->point[i]);
		for (int s = 0; s < SERIES; s++)
			max = top_of(f, &c->point[i], s) > max ? top_of(f, &c->point[i], s) : max;
	}
	buf_printf(b, "<figure class=\"chart\"><figcaption>%s per %s</figcaption>", f->title, c->range->bar);
	if (any) {
		legend(b, c, f);
		axes(b, c, f, max);
		table(b, c, f);
	} else {
		html_raw(b, "<p class=\"hint\">No attempts in this time.</p>");
	}
	html_raw(b, "</figure>");
}

static void range_links(struct visit *v, const struct range *here)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<ul class=\"ranges\">");
	for (size_t i = 0; i < RANGES; i++) {
		html_raw(b, "<li><a href=\"?range=");
		html_text(b, ranges[i].name);
		html_raw(b, "\"");
		if (&ranges[i] == here)
			html_raw(b, " aria-current=\"true\"");
		html_raw(b, ">");
		html_text(b, ranges[i].title);
		html_raw(b, "</a></li>");
	}
	html_raw(b, "</ul>");
}

static void json(struct visit *v, const struct chart *c, const struct store_figures *figures)
{
	struct buf *b = &v->reply.body;

	html_raw(b, ",\"figures\":[");
	for (size_t i = 0; i < c->n; i++) {
		const struct point *p = &c->point[i];

		buf_printf(b, "%s{\"at\":%" PRId64 ",\"ok\":%" PRId64 ",\"failed\":%" PRId64 ",\"deferred\":%" PRId64,
			   i > 0 ? ",\n" : "", p->at_s, p->ok, p->failed, p->deferred);
		for (int q = 0; q < SERIES && histogram_count(&p->wait) > 0; q++)
			buf_printf(b, ",\"wait_p%d_us\":%" PRId64 ",\"run_p%d_us\":%" PRId64,
				   (int)(quantiles[q] * 100 + 0.5), histogram_quantile_us(&p->wait, quantiles[q]),
				   (int)(quantiles[q] * 100 + 0.5), histogram_quantile_us(&p->run, quantiles[q]));
		html_raw(b, "}");
	}
	buf_printf(b, "],\"as_of\":%" PRId64, figures->folded_s);
	if (c->marks) {
		html_raw(b, ",\"new_builds\":[");
		tell_marks(v, c);
		html_raw(b, "]");
	}
}

int chart_figures(struct visit *v, const char *queue, const char *fn, struct deferred_error *err)
{
	struct chart c = { .range = asked_range(v) };
	struct store_figures_query query = { .span = c.range->span,
					     .by = queue ? STORE_BY_QUEUE
						   : fn  ? STORE_BY_FUNCTION
							 : STORE_BY_NOTHING,
					     .queue = queue,
					     .fn = fn,
					     .back_s = (int64_t)c.range->n * c.range->width_s };
	struct store_figures figures = { 0 };
	struct pg_result *marks = NULL;
	int rc = store_figures(v->pg, &query, &figures, err);

	/* A queue has no build. */
	if (rc == 0 && !queue)
		rc = figures_marks_exec(v->pg, fn, query.back_s, MARKS, &marks, err);

	if (rc == 0) {
		c.marks = marks;
		gather(v, &c, &figures);
		if (v->json) {
			json(v, &c, &figures);
		} else {
			html_raw(&v->reply.body, "<section><h2>History</h2>");
			range_links(v, c.range);
			as_of(v, &figures);
			html_raw(&v->reply.body, "<div class=\"charts\">");
			for (size_t i = 0; i < sizeof(figures_drawn) / sizeof(figures_drawn[0]); i++)
				draw(&v->reply.body, &c, &figures_drawn[i]);
			html_raw(&v->reply.body, "</div>");
			tell_marks(v, &c);
			html_raw(&v->reply.body, "</section>");
		}
	}
	pg_result_free(marks);
	store_figures_clear(&figures);
	return rc;
}
