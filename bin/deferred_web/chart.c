/* SPDX-License-Identifier: MIT */
#include "chart.h"

#include "base/histogram.h"
#include "base/job.h"
#include "pages.h"
#include "store/figures.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define WIDTH 480
#define HEIGHT 130
#define LEFT 44
#define TOP 8
#define BOTTOM 16
#define LINES 3
#define MARKS 50

/* One bar. */
struct point {
	int64_t at_s, ok, other, arrived;
	struct histogram wait, run;
};

static const struct range {
	const char *name, *title;
	bool days; /* times are told by days, not by minutes */
	int64_t width_s;
	size_t n;
	enum store_span span;
} ranges[] = {
	{ "1h", "1 hour", false, 60, 60, STORE_MINUTES },
	{ "24h", "24 hours", false, 600, 144, STORE_MINUTES },
	{ "7d", "7 days", false, 3600, 168, STORE_HOURS },
	{ "90d", "90 days", true, 86400, 90, STORE_HOURS },
	{ "400d", "400 days", true, 86400, 400, STORE_HOURS }, /* as long as hours are kept */
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
		p->other += f->attempts - f->outcome[JOB_OK];
		p->arrived += f->arrived;
		histogram_add(&p->wait, &f->wait);
		histogram_add(&p->run, &f->run);
	}
}

static const char *when(const struct chart *c, int64_t at_s, char text[32])
{
	time_t t = (time_t)at_s;
	struct tm tm;

	gmtime_r(&t, &tm);
	if (c->range->days)
		strftime(text, 32, "%Y-%m-%d", &tm);
	else
		strftime(text, 32, "%m-%d %H:%M", &tm);
	return text;
}

/* ---- drawing ---------------------------------------------------------------------------------- */

static double x_of(const struct chart *c, size_t i)
{
	return LEFT + (double)(WIDTH - LEFT) * (double)i / (double)c->n;
}

static double y_of(double value, double max)
{
	return HEIGHT - BOTTOM - (max > 0 ? value / max : 0) * (HEIGHT - BOTTOM - TOP);
}

/* A span that stands beside the top of an axis, where there is room for one unit and two digits. */
static void top_us(struct buf *b, int64_t us)
{
	double n = (double)us / 6e7;
	const char *unit = n < 60 ? "min" : n < 1440 ? "h" : "d";

	if (n < 1) {
		page_span_us(b, us);
		return;
	}
	n /= n < 60 ? 1 : n < 1440 ? 60 : 1440;
	buf_printf(b, "%.*f %s", n < 9.95, n, unit);
}

/* Figure, drawing and axes; what is drawn comes behind. max_text: escaped here. */
static void begin(struct visit *v, const struct chart *c, const char *id, const char *title, const char *keys, const char *max_text)
{
	struct buf *b = &v->reply.body;
	char text[32];

	html_raw(b, "<figure class=\"chart\"><figcaption>");
	html_text(b, title);
	html_raw(b, " <span class=\"hint\">");
	buf_text(b, keys);
	buf_printf(b, "</span></figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"t-%s\"><title id=\"t-%s\">", WIDTH, HEIGHT, id, id);
	html_text(b, title);
	html_text(b, ", ");
	html_text(b, c->range->title);
	html_text(b, ", most: ");
	html_text(b, max_text);
	buf_printf(b, "</title><path class=\"axis\" d=\"M%d %dH%d\"/><text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT, HEIGHT - BOTTOM, WIDTH, LEFT - 4, TOP + 8);
	html_text(b, max_text);
	buf_printf(b, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text><text x=\"%d\" y=\"%d\">", LEFT - 4, HEIGHT - BOTTOM, LEFT, HEIGHT - 4);
	html_text(b, when(c, c->point[0].at_s, text));
	buf_printf(b, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH, HEIGHT - 4);
	html_text(b, when(c, c->point[c->n - 1].at_s, text));
	html_raw(b, "</text>");
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
			buf_printf(b, "<path class=\"mark\" d=\"M%.1f %dV%d\"/>", x_of(c, i), TOP, HEIGHT - BOTTOM);
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
			buf_text(b, any ? "<li>" : "<h3>New builds, at the upright lines</h3><ul class=\"marks\"><li>");
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
	strftime(text, sizeof(text), figures->now_s - figures->folded_s < 86400 ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	html_raw(&v->reply.body, "<p class=\"hint\">As of ");
	html_text(&v->reply.body, text);
	html_raw(&v->reply.body, ": what ended later is not in these figures yet.</p>");
}

static void table_head(struct buf *b, const char *const *titles, size_t n)
{
	html_raw(b, "</svg><details><summary>Numbers</summary><div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Numbers\"><table><thead><tr><th scope=\"col\">From</th>");
	for (size_t i = 0; i < n; i++) {
		html_raw(b, "<th scope=\"col\" class=\"n\">");
		html_text(b, titles[i]);
		html_raw(b, "</th>");
	}
	html_raw(b, "</tr></thead><tbody>");
}

static void bar(struct buf *b, const struct chart *c, size_t i, double low, double high, double max, const char *class)
{
	if (high > low)
		buf_printf(b, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", class, x_of(c, i), y_of(high, max),
			   (double)(WIDTH - LEFT) / (double)c->n * 0.86, y_of(low, max) - y_of(high, max));
}

static void draw_ended(struct visit *v, const struct chart *c)
{
	static const char *const titles[] = { "Ended well", "Otherwise", "Deferred" };
	struct buf *b = &v->reply.body;
	int64_t max = 0, any = 0;
	char text[32];

	for (size_t i = 0; i < c->n; i++) {
		any += c->point[i].ok + c->point[i].other + c->point[i].arrived;
		max = c->point[i].ok + c->point[i].other > max ? c->point[i].ok + c->point[i].other : max;
		max = c->point[i].arrived > max ? c->point[i].arrived : max;
	}
	begin(v, c, "ended", "Attempts ended", "green: well, red above: otherwise; line: jobs deferred", arena_printf(&v->arena, "%" PRId64, max));
	for (size_t i = 0; i < c->n; i++) {
		bar(b, c, i, 0, (double)c->point[i].ok, (double)max, "s1");
		bar(b, c, i, (double)c->point[i].ok, (double)(c->point[i].ok + c->point[i].other), (double)max, "s2");
	}
	html_raw(b, "<path class=\"l1\" d=\"");
	for (size_t i = 0; any > 0 && i < c->n; i++)
		buf_printf(b, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x_of(c, i), y_of((double)c->point[i].arrived, (double)max));
	html_raw(b, "\"/>");
	draw_marks(b, c);
	table_head(b, titles, 3);
	for (size_t i = 0; i < c->n; i++)
		if (c->point[i].ok + c->point[i].other + c->point[i].arrived > 0)
			buf_printf(b, "<tr><td>%s</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%" PRId64 "</td></tr>",
				   when(c, c->point[i].at_s, text), c->point[i].ok, c->point[i].other, c->point[i].arrived);
	html_raw(b, "</tbody></table></div></details></figure>");
}

static const double quantiles[LINES] = { 0.5, 0.95, 0.99 };

static void draw_times(struct visit *v, const struct chart *c, const char *id, const char *title, bool run)
{
	static const char *const titles[] = { "half within", "95 % within", "99 % within" };
	struct buf *b = &v->reply.body, most = { 0 };
	int64_t max = 0;
	char text[32];

	for (size_t i = 0; i < c->n; i++) {
		int64_t us = histogram_quantile_us(run ? &c->point[i].run : &c->point[i].wait, quantiles[LINES - 1]);

		max = us > max ? us : max;
	}
	top_us(&most, max);
	begin(v, c, id, title, "line: half within; dashed: 95 %; dotted: 99 %", most.p ? arena_copy(&v->arena, most.p, most.len) : "");
	buf_clear(&most);
	for (int q = 0; q < LINES; q++) {
		bool pen = false;

		buf_printf(b, "<path class=\"l%d\" d=\"", q + 1);
		for (size_t i = 0; i < c->n; i++) {
			int64_t us = histogram_quantile_us(run ? &c->point[i].run : &c->point[i].wait, quantiles[q]);

			/* One alone is a short stroke. */
			if (us >= 0)
				buf_printf(b, "%c%.1f %.1fh2", pen ? 'L' : 'M', x_of(c, i), y_of((double)us, (double)max));
			pen = us >= 0;
		}
		html_raw(b, "\"/>");
	}
	draw_marks(b, c);
	table_head(b, titles, LINES);
	for (size_t i = 0; i < c->n; i++) {
		const struct histogram *h = run ? &c->point[i].run : &c->point[i].wait;

		if (histogram_count(h) == 0)
			continue;
		buf_printf(b, "<tr><td>%s</td>", when(c, c->point[i].at_s, text));
		for (int q = 0; q < LINES; q++) {
			html_raw(b, "<td class=\"n\">");
			page_span_us(b, histogram_quantile_us(h, quantiles[q]));
			html_raw(b, "</td>");
		}
		html_raw(b, "</tr>");
	}
	html_raw(b, "</tbody></table></div></details></figure>");
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

		buf_printf(b, "%s{\"at\":%" PRId64 ",\"ok\":%" PRId64 ",\"otherwise\":%" PRId64 ",\"deferred\":%" PRId64, i > 0 ? ",\n" : "", p->at_s, p->ok, p->other, p->arrived);
		for (int q = 0; q < LINES && histogram_count(&p->wait) > 0; q++)
			buf_printf(b, ",\"wait_p%d_us\":%" PRId64 ",\"run_p%d_us\":%" PRId64, (int)(quantiles[q] * 100 + 0.5), histogram_quantile_us(&p->wait, quantiles[q]),
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
	struct store_figures_query query = { .span = c.range->span, .by = queue ? STORE_BY_QUEUE : fn ? STORE_BY_FUNCTION : STORE_BY_NOTHING, .queue = queue,
					     .fn = fn, .back_s = (int64_t)c.range->n * c.range->width_s };
	struct store_figures figures = { 0 };
	struct pg_result *marks = NULL;
	int rc = store_figures(v->pg, &query, &figures, err);

	/* A queue has no build. */
	if (rc == 0 && !queue)
		rc = store_figures_marks(v->pg, fn, query.back_s, MARKS, &marks, err);

	if (rc == 0) {
		c.marks = marks;
		gather(v, &c, &figures);
		if (v->json) {
			json(v, &c, &figures);
		} else {
			html_raw(&v->reply.body, "<section><h2>Lately</h2>");
			range_links(v, c.range);
			as_of(v, &figures);
			html_raw(&v->reply.body, "<div class=\"charts\">");
			draw_ended(v, &c);
			draw_times(v, &c, "wait", "Waited", false);
			draw_times(v, &c, "run", "Ran", true);
			html_raw(&v->reply.body, "</div>");
			tell_marks(v, &c);
			html_raw(&v->reply.body, "</section>");
		}
	}
	pg_result_free(marks);
	store_figures_clear(&figures);
	return rc;
}
