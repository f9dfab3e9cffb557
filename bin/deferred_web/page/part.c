/* SPDX-License-Identifier: MIT */
#include "part.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LATE_S 300 /* a queue whose oldest job is ready for longer is late */

/* ---- values ----------------------------------------------------------------------------------- */

static bool is_number(enum cell cell)
{
	return cell >= CELL_INT;
}

static const void *member_of(const struct rows *rows, size_t i, int at)
{
	return (const char *)rows->list + i * rows->size + at;
}

static const char *text_of(const struct rows *rows, size_t i, int at)
{
	const char *text = rows->res ? pg_text(rows->res, i, at, NULL) : *(const char *const *)member_of(rows, i, at);

	return text ? text : "";
}

static int64_t number_of(const struct rows *rows, size_t i, int at)
{
	return rows->res ? pg_int(rows->res, i, at) : *(const int64_t *)member_of(rows, i, at);
}

static bool flag_of(const struct rows *rows, size_t i, int at)
{
	return rows->res ? pg_bool(rows->res, i, at) : *(const bool *)member_of(rows, i, at);
}

static bool is_null(const struct rows *rows, enum cell cell, size_t i, int at)
{
	if (rows->res)
		return pg_null(rows->res, i, at);
	if (cell == CELL_BOOL)
		return false;
	if (cell == CELL_REAL)
		return isnan(*(const double *)member_of(rows, i, at));
	return is_number(cell) ? number_of(rows, i, at) == PART_NONE : !*(const char *const *)member_of(rows, i, at);
}

/* ---- HTML ------------------------------------------------------------------------------------- */

/* n < 0: that long ago. */
static void show_until(struct buf *b, int64_t n)
{
	if (n == 0) {
		html_raw(b, "now");
		return;
	}
	html_text(b, n > 0 ? "in " : "");
	page_span_s(b, n < 0 ? -n : n);
	html_text(b, n < 0 ? " ago" : "");
}

static void show_link(struct web_request *r, const char *place, const char *text)
{
	if (*text)
		html_printf(&r->reply.body, "<a href=\"%s%s\"><bdi>%s</bdi></a>", place, page_url(r, text), text);
}

static void show_progress(struct buf *b, const struct rows *rows, size_t i, const struct column *c)
{
	int64_t done = number_of(rows, i, c->at), total = number_of(rows, i, c->also[0]);

	if (!is_null(rows, CELL_INT, i, c->at) && total > 0) {
		int64_t percent = done <= 0 ? 0 : done >= total ? 100 : (int64_t)((double)done * 100 / (double)total);

		html_printf(b,
			    "<progress max=\"100\" value=\"%" PRId64 "\" aria-label=\"Progress\">%" PRId64
			    " %%</progress> <span class=\"n\">%" PRId64 " of %" PRId64 "</span> ",
			    percent, percent, done, total);
	} else if (!is_null(rows, CELL_INT, i, c->at)) {
		html_printf(b, "<span class=\"n\">%" PRId64 " done</span> ", done);
	}
	if (!is_null(rows, CELL_INT, i, c->at) || !is_null(rows, CELL_TEXT, i, c->also[1]))
		html_printf(b, "<bdi>%s</bdi>", text_of(rows, i, c->also[1]));
}

static void show_queue_state(struct buf *b, const struct rows *rows, size_t i, const struct column *c)
{
	if (flag_of(rows, i, c->at))
		html_raw(b, "<span class=\"state is-paused\">paused</span>");
	else if (number_of(rows, i, c->also[0]) > LATE_S)
		html_raw(b, "<span class=\"state is-late\">late</span>");
	else if (flag_of(rows, i, c->also[1]))
		html_raw(b, "<span class=\"state\">limited</span>");
}

/* A job that is claimed or waits is not due. */
static void show_due(struct buf *b, const char *state, int64_t n)
{
	if (strcmp(state, "claimed") != 0 && strcmp(state, "waiting") != 0)
		show_until(b, n > 0 && strcmp(state, "delayed") != 0 ? 0 : n);
}

/* The session reads times in UTC. */
static void show_zoned(struct buf *b, const char *text)
{
	static const char zone[] = " +00:00";

	for (const char *end; (end = strstr(text, zone)); text = end + strlen(zone)) {
		html_text_n(b, text, (size_t)(end - text));
		html_raw(b, " UTC");
	}
	html_text(b, text);
}

static void show_text(struct web_request *r, enum cell cell, const char *text)
{
	struct buf *b = &r->reply.body;

	switch (cell) {
	case CELL_TEXT:
	case CELL_PROSE:
		html_printf(b, "<bdi>%s</bdi>", text);
		break;
	case CELL_TIME:
		html_printf(b, "%s UTC", text);
		break;
	case CELL_ZONED:
		show_zoned(b, text);
		break;
	case CELL_CODE:
		html_printf(b, "<code>%s</code>", text);
		break;
	case CELL_STATE:
		html_printf(b, "<span class=\"state is-%s\">%s</span>", text, text);
		break;
	case CELL_JOB:
		show_link(r, "/jobs/", text);
		break;
	case CELL_FLOW:
		show_link(r, "/flow/", text);
		break;
	case CELL_QUEUE:
		show_link(r, "/queues/", text);
		break;
	case CELL_FN:
		show_link(r, "/functions/", text);
		break;
	case CELL_SCHEDULE:
		show_link(r, "/recurring/", text);
		break;
	default:
		html_text(b, text);
	}
}

static void show_cell(struct web_request *r, const struct rows *rows, size_t i, const struct column *c)
{
	struct buf *b = &r->reply.body;
	int64_t n;

	if (c->show)
		c->show(r, rows, i);
	else if (c->cell == CELL_PROGRESS)
		show_progress(b, rows, i, c);
	if (c->show || c->cell == CELL_PROGRESS || is_null(rows, c->cell, i, c->at))
		return;
	n = c->cell >= CELL_AGO && c->cell <= CELL_KIB ? number_of(rows, i, c->at) : 0;
	switch (c->cell) {
	case CELL_BOOL:
		html_text(b, flag_of(rows, i, c->at) ? "yes" : "no");
		break;
	case CELL_PAUSED:
		show_queue_state(b, rows, i, c);
		break;
	case CELL_AGO:
		page_span_s(b, n < 0 ? 0 : n);
		html_raw(b, " ago");
		break;
	case CELL_IN:
		show_until(b, n);
		break;
	case CELL_DUE:
		show_due(b, text_of(rows, i, c->also[0]), n);
		break;
	case CELL_SPAN:
		page_span_s(b, n);
		break;
	case CELL_US:
		page_span_us(b, n);
		break;
	case CELL_KIB:
		html_printf(b, "%" PRId64 " %s", n < 10240 ? n : n / 1024, n < 10240 ? "KiB" : "MiB");
		break;
	case CELL_INT:
		if (!rows->res) {
			html_printf(b, "%" PRId64, number_of(rows, i, c->at));
			break;
		}
		/* fall through */
	default:
		show_text(r, c->cell, text_of(rows, i, c->at));
	}
	if (c->cell == CELL_INT && c->also[0] && flag_of(rows, i, c->also[0]) && number_of(rows, i, c->at) > 0)
		html_raw(b, "+");
}

void part_cell(struct web_request *r, enum cell cell, const struct pg_result *res, size_t i, int at)
{
	show_cell(r, &(struct rows){ .res = res }, i, &(struct column){ .at = at, .cell = cell });
}

static bool is_shown(const struct column *c)
{
	return c->cell != CELL_WHOLE && (!c->title || *c->title);
}

static void table_head(struct buf *b, const struct part *part)
{
	html_printf(b, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\"><table><thead><tr>",
		    part->title ? part->title : part->key);
	for (const struct column *c = part->columns; c < part->columns + part->len; c++)
		if (is_shown(c) && c->title)
			html_printf(b, "<th scope=\"col\"%-s>%s</th>", is_number(c->cell) ? " class=\"n\"" : "",
				    c->title);
	html_raw(b, "</tr></thead><tbody>");
}

static void table_row(struct web_request *r, const struct part *part, const struct rows *rows, size_t i)
{
	struct buf *b = &r->reply.body;

	html_raw(b, "<tr>");
	for (const struct column *c = part->columns, *end = c + part->len; c < end; c++) {
		bool shared = c + 1 < end && is_shown(c + 1) && !c[1].title;

		if (!is_shown(c))
			continue;
		if (c->title)
			buf_text(b, is_number(c->cell)      ? "<td class=\"n\">"
				    : c->cell == CELL_TEXT  ? "<td class=\"clip\">"
				    : c->cell == CELL_PROSE ? "<td class=\"told\">"
							    : "<td>");
		if ((shared || !c->title) && !is_null(rows, c->cell, i, c->at))
			html_printf(b, " <span class=\"quiet\">%s</span> ", c->key);
		show_cell(r, rows, i, c);
		buf_text(b, shared ? "" : "</td>");
	}
	html_raw(b, "</tr>\n");
}

static size_t table_html(struct web_request *r, const struct part *part, const struct rows *rows)
{
	struct buf *b = &r->reply.body;
	size_t n = 0;

	html_raw(b, "<section>");
	if (part->title)
		html_printf(b, "<h2>%s</h2>", part->title);
	for (size_t i = 0; i < rows->n; i++) {
		if (rows->use && !rows->use(rows, i))
			continue;
		if (n++ == 0)
			table_head(b, part);
		table_row(r, part, rows, i);
	}
	if (n > 0)
		html_raw(b, "</tbody></table></div></section>");
	else
		html_printf(b, "<p class=\"empty\">%s</p></section>", part->empty);
	return n;
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void json_value(struct buf *b, enum cell cell, const struct rows *rows, size_t i, int at)
{
	if (is_null(rows, cell, i, at))
		html_raw(b, "null");
	else if (cell == CELL_BOOL)
		html_text(b, flag_of(rows, i, at) ? "true" : "false");
	else if (cell == CELL_REAL)
		html_printf(b, "%.4f", *(const double *)member_of(rows, i, at));
	else if (is_number(cell) && rows->res)
		buf_text(b, text_of(rows, i, at));
	else if (is_number(cell))
		html_printf(b, "%" PRId64, number_of(rows, i, at));
	else
		html_json(b, text_of(rows, i, at));
}

static void json_row(struct buf *b, const struct part *part, const struct rows *rows, size_t i)
{
	const char *comma = "{";

	for (const struct column *c = part->columns; c < part->columns + part->len; c++)
		if (c->cell == CELL_WHOLE) {
			buf_text(b, text_of(rows, i, c->at));
			return;
		}
	for (const struct column *c = part->columns; c < part->columns + part->len; c++) {
		if (!c->key || (!rows->res && is_null(rows, c->cell, i, c->at)))
			continue;
		html_printf(b, "%s%.s:", comma, c->key);
		comma = ",";
		if (c->cell != CELL_PROGRESS) {
			json_value(b, c->cell, rows, i, c->at);
			continue;
		}
		html_raw(b, "{\"done\":");
		json_value(b, CELL_INT, rows, i, c->at);
		html_raw(b, ",\"total\":");
		json_value(b, CELL_INT, rows, i, c->also[0]);
		html_raw(b, ",\"text\":");
		json_value(b, CELL_TEXT, rows, i, c->also[1]);
		html_raw(b, "}");
	}
	html_raw(b, "}");
}

static size_t table_json(struct buf *b, const struct part *part, const struct rows *rows)
{
	size_t n = 0;

	html_printf(b, ",%.s:[", part->key);
	for (size_t i = 0; i < rows->n; i++) {
		if (rows->use && !rows->use(rows, i))
			continue;
		if (n++ > 0)
			html_raw(b, ",\n");
		json_row(b, part, rows, i);
	}
	html_raw(b, "]");
	return n;
}

/* ---- both ------------------------------------------------------------------------------------- */

size_t part_write(struct web_request *r, const struct part *part, const struct rows *rows)
{
	return r->json ? table_json(&r->reply.body, part, rows) : table_html(r, part, rows);
}

size_t part_result(struct web_request *r, const struct part *part, const struct pg_result *res)
{
	return part_write(r, part, &(struct rows){ .res = res, .n = pg_rows(res) });
}

static bool has_value(const struct rows *rows, const struct column *c)
{
	return *text_of(rows, 0, c->at) || (c->cell == CELL_PROGRESS && *text_of(rows, 0, c->also[1]));
}

void part_facts_open(struct web_request *r, const struct part *part, const struct pg_result *res)
{
	const struct rows rows = { .res = res };

	if (r->json) {
		part_result(r, part, res);
		return;
	}
	html_raw(&r->reply.body, "<dl class=\"facts\">");
	for (const struct column *c = part->columns; c < part->columns + part->len; c++) {
		if (!c->title || !*c->title || !has_value(&rows, c))
			continue;
		html_printf(&r->reply.body, "<div><dt>%s</dt><dd>", c->title);
		show_cell(r, &rows, 0, c);
		html_raw(&r->reply.body, "</dd></div>");
	}
}

void part_fact(struct web_request *r, const char *name, enum cell cell, const char *value)
{
	if (r->json)
		return;
	html_printf(&r->reply.body, "<div><dt>%s</dt><dd>",
		    arena_printf(&r->arena, "%c%s", toupper((unsigned char)*name), name + 1));
	show_text(r, cell, value);
	html_raw(&r->reply.body, "</dd></div>");
}

void part_facts_close(struct web_request *r)
{
	if (!r->json)
		html_raw(&r->reply.body, "</dl>");
}

void part_facts(struct web_request *r, const struct part *part, const struct pg_result *res)
{
	part_facts_open(r, part, res);
	part_facts_close(r);
}
