/* SPDX-License-Identifier: MIT */
#include "page.h"

#include "assets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the frame -------------------------------------------------------------------------------- */

/* Links in groups. A place with the same section as the one before it is a tab of that section. */
static const struct place {
	int group;
	const char *section, *path, *name;
	const char *one; /* where the page of a single one is, if it is not below path; NULL: it is */
} places[] = {
	{ 0, "Jobs", "/jobs", "All jobs", NULL },
	{ 0, "Jobs", "/running", "Running", NULL },
	{ 0, "Jobs", "/dead", "Dead", NULL },
	{ 0, "Queues", "/queues", NULL, NULL },
	{ 0, "Functions", "/functions", NULL, NULL },
	{ 0, "Recurring", "/recurring", NULL, "/schedule" },
	{ 0, "Flows", "/flows", NULL, "/flow/#" },
	{ 1, "Workers", "/workers", NULL, NULL },
	{ 1, "Doctor", "/doctor", NULL, NULL },
	{ 1, "Advice", "/advice", NULL, NULL },
	{ 1, "Audit", "/audit", NULL, NULL },
	{ 2, "Settings", "/rules", "Rules", NULL },
	{ 2, "Settings", "/accounts", "Accounts", NULL },
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static bool is_here(const struct visit *v, const struct place *p)
{
	const char *path = v->route ? v->route->path : "";
	size_t len = strlen(p->path);

	return (strncmp(path, p->path, len) == 0 && (path[len] == '\0' || path[len] == '/')) ||
	       (p->one && strncmp(path, p->one, strlen(p->one)) == 0);
}

static void navigation_link(struct buf *b, const struct place *p, const char *text, bool here)
{
	html_raw(b, "<li><a href=\"");
	html_text(b, p->path);
	html_raw(b, "\"");
	if (here)
		html_raw(b, " aria-current=\"page\"");
	html_raw(b, ">");
	html_text(b, text);
	html_raw(b, "</a></li>");
}

static void navigation(struct visit *v)
{
	struct buf *b = &v->reply.body;
	const char *section = NULL;

	for (size_t i = 0; i < PLACES; i++)
		if (is_here(v, &places[i]))
			section = places[i].section;
	html_raw(b, "<nav class=\"sections\" aria-label=\"Pages\"><ul>");
	for (size_t i = 0; i < PLACES; i++) {
		if (i > 0 && places[i].group != places[i - 1].group)
			html_raw(b, "</ul><ul>");
		if (i == 0 || strcmp(places[i].section, places[i - 1].section) != 0)
			navigation_link(b, &places[i], places[i].section,
					section && strcmp(section, places[i].section) == 0);
	}
	html_raw(b, "</ul></nav>");
}

/* The pages of the section that this page is in, if it has several. */
static void tabs(struct visit *v)
{
	struct buf *b = &v->reply.body;
	size_t i = 0;

	while (i < PLACES && !(places[i].name && is_here(v, &places[i])))
		i++;
	if (i == PLACES)
		return;
	html_raw(b, "<nav class=\"tabs\" aria-label=\"");
	html_text(b, places[i].section);
	html_raw(b, "\"><ul>");
	for (size_t k = 0; k < PLACES; k++)
		if (strcmp(places[k].section, places[i].section) == 0)
			navigation_link(b, &places[k], places[k].name, is_here(v, &places[k]));
	html_raw(b, "</ul></nav>");
}

/* What is written by text() is another's at another visit. */
static void hole(struct visit *v, int what, void (*text)(struct visit *v))
{
	size_t at = v->reply.body.len;

	text(v);
	if (v->holes_len < VISIT_HOLES_MAX)
		v->holes[v->holes_len] = (struct visit_hole){ .what = what, .at = at, .len = v->reply.body.len - at };
	v->holes_len++;
}

void page_user_text(struct visit *v)
{
	html_text(&v->reply.body, v->user[0] ? v->user : v->me.role);
}

static bool reloads(struct visit *v)
{
	return v->route && v->route->reloads && v->reply.status == 200 &&
	       !guard_field(&v->arena, v->query, strlen(v->query), "still");
}

void page_begin(struct visit *v, const char *kind, const char *title)
{
	struct buf *b = &v->reply.body;

	if (v->json) {
		html_raw(b, "{\"page\":");
		html_json(b, v->route ? v->route->name : "error");
		return;
	}
	html_raw(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
	html_text(b, title);
	html_raw(b, " \xc2\xb7 deferred</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
		    "<meta name=\"color-scheme\" content=\"light dark\">"
		    "<link rel=\"stylesheet\" href=\"" ASSET_style_css
		    "\"><link rel=\"icon\" type=\"image/svg+xml\" href=\"" ASSET_icon_svg "\">"
		    "<script src=\"" ASSET_page_js "\" defer></script>");
	if (reloads(v))
		html_raw(b, "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>");
	html_raw(b, "</head><body><a class=\"skip\" href=\"#main\">Skip to content</a><header>"
		    "<a class=\"brand\" href=\"/\"");
	if (v->route && strcmp(v->route->path, "/") == 0)
		html_raw(b, " aria-current=\"page\"");
	html_raw(b, ">deferred<span class=\"unseen\">: overview</span></a>");
	navigation(v);
	html_raw(b, "<form role=\"search\" action=\"/jobs\"><label class=\"unseen\" for=\"q\">Find jobs</label>"
		    "<input id=\"q\" name=\"q\" type=\"search\" placeholder=\"Find a job\" title=\"Job number or "
		    "label\" maxlength=\"1000\" "
		    "autocomplete=\"off\"></form>");
	if (v->me.role[0]) {
		html_raw(b, "<p class=\"who\"><bdi>");
		hole(v, HOLE_USER, page_user_text);
		html_raw(b, "</bdi> <span>");
		html_text(b, v->me.operator&& visit_may_act(v) ? "operator" : v->me.reader ? "reader" : "viewer");
		html_raw(b, "</span></p>");
	}
	html_raw(b, "</header>");
	tabs(v);
	html_raw(b, "<main id=\"main\" tabindex=\"-1\"><h1>");
	if (kind) {
		html_raw(b, "<span class=\"kind\">");
		html_text(b, kind);
		html_raw(b, "</span> ");
	}
	html_raw(b, "<bdi>");
	html_text(b, title);
	html_raw(b, "</bdi></h1>");
}

void page_end(struct visit *v)
{
	struct buf *b = &v->reply.body;

	if (v->json) {
		html_raw(b, "}\n");
		return;
	}
	html_raw(b, "</main><footer>");
	if (reloads(v)) {
		html_raw(b, "<noscript><p>This page reloads every 10 s. <a href=\"?");
		/* No browser writes anything else. */
		if (*v->query &&
		    !v->query[strspn(v->query,
				     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=&%+-_.~")]) {
			html_text(b, v->query);
			html_raw(b, "&amp;");
		}
		html_raw(b, "still=1\">Stop reloading</a></p></noscript>");
	}
	/* Without JavaScript there is no dialog; what it says the footer has too. */
	html_raw(b, "<p>Times are UTC. <kbd>/</kbd> find, <kbd>j</kbd> <kbd>k</kbd> rows, <kbd>Enter</kbd> open, "
		    "<kbd>?</kbd> keys. "
		    "For JSON, append <code>.json</code> to the path of a page.</p></footer>"
		    "<dialog id=\"keys\" aria-labelledby=\"keys-title\"><h2 id=\"keys-title\">Keys</h2><dl>"
		    "<div><dt><kbd>/</kbd></dt><dd>find jobs, by number or words</dd></div>"
		    "<div><dt><kbd>j</kbd></dt><dd>next row of a table</dd></div><div><dt><kbd>k</kbd></dt><dd>row "
		    "before it</dd></div>"
		    "<div><dt><kbd>Enter</kbd></dt><dd>open what the row is about</dd></div>"
		    "<div><dt><kbd>Esc</kbd></dt><dd>leave the row, or close this</dd></div>"
		    "<div><dt><kbd>?</kbd></dt><dd>this</dd></div></dl>"
		    "<form method=\"dialog\"><button>Close</button></form></dialog></body></html>\n");
}

/* ---- values ----------------------------------------------------------------------------------- */

static void two(struct buf *b, int64_t large, const char *large_unit, int64_t small, const char *small_unit)
{
	buf_printf(b, "%" PRId64 " %s", large, large_unit);
	if (small > 0)
		buf_printf(b, " %" PRId64 " %s", small, small_unit);
}

void page_span_us(struct buf *b, int64_t us)
{
	int64_t s = us / 1000000;

	if (us == 0)
		html_raw(b, "0 s");
	else if (us < 1000)
		buf_printf(b, "%" PRId64 " \xc2\xb5s", us);
	else if (us < 10000)
		buf_printf(b, "%.1f ms", (double)us / 1e3);
	else if (us < 1000000)
		buf_printf(b, "%" PRId64 " ms", us / 1000);
	else if (us < 10000000 && us % 1000000 != 0)
		buf_printf(b, "%.1f s", (double)us / 1e6);
	else if (s < 60)
		buf_printf(b, "%" PRId64 " s", s);
	else if (s < 3600)
		two(b, s / 60, "min", s % 60, "s");
	else if (s < 86400)
		two(b, s / 3600, "h", s % 3600 / 60, "min");
	else
		two(b, s / 86400, "d", s % 86400 / 3600, "h");
}

static void seconds(struct buf *b, int64_t s)
{
	page_span_us(b, s > INT64_MAX / 1000000 ? INT64_MAX : s * 1000000);
}

/* n < 0: that long ago. */
static void until(struct buf *b, int64_t n)
{
	if (n == 0) {
		html_raw(b, "now");
		return;
	}
	html_text(b, n > 0 ? "in " : "");
	seconds(b, n < 0 ? -n : n);
	html_text(b, n < 0 ? " ago" : "");
}

static void link_to(struct buf *b, const char *place, const char *text)
{
	if (!*text)
		return;
	html_raw(b, "<a href=\"");
	buf_text(b, place);
	html_url(b, text);
	html_raw(b, "\"><bdi>");
	html_text(b, text);
	html_raw(b, "</bdi></a>");
}

static void progress(struct buf *b, const struct pg_result *res, size_t row, int col)
{
	int64_t done = pg_int(res, row, col), total = pg_int(res, row, col + 1);

	if (pg_null(res, row, col) && pg_null(res, row, col + 2))
		return;
	if (!pg_null(res, row, col) && total > 0) {
		int64_t percent = done <= 0 ? 0 : done >= total ? 100 : (int64_t)((double)done * 100 / (double)total);

		buf_printf(b,
			   "<progress max=\"100\" value=\"%" PRId64 "\" aria-label=\"Progress\">%" PRId64
			   " %%</progress> <span class=\"n\">%" PRId64 " of %" PRId64 "</span> ",
			   percent, percent, done, total);
	} else if (!pg_null(res, row, col)) {
		buf_printf(b, "<span class=\"n\">%" PRId64 " done</span> ", done);
	}
	html_raw(b, "<bdi>");
	html_text(b, pg_text(res, row, col + 2, NULL));
	html_raw(b, "</bdi>");
}

/* Jobs that were cancelled or have expired say why, and did not fail. */
static void retry_link(struct buf *b, const struct pg_result *res, size_t row, int col)
{
	const char *outcome = pg_text(res, row, col + 1, NULL);

	if (strcmp(outcome, "cancelled") == 0 || strcmp(outcome, "expired") == 0)
		return;
	html_raw(b, "<a href=\"/jobs/all?verb=retry&amp;state=dead&amp;fn=");
	html_url(b, pg_text(res, row, col, NULL));
	html_raw(b, "&amp;error=");
	html_url(b, pg_text(res, row, col + 2, NULL));
	html_raw(b, "\" aria-label=\"Retry all of ");
	html_text(b, pg_text(res, row, col, NULL));
	html_raw(b, ", that said: ");
	html_text(b, pg_text(res, row, col + 2, NULL));
	html_raw(b, "\">Retry all</a>");
}

/* The seconds since the oldest job was ready, and whether there are limits, are as in admin_status_queues.sql. */
static void queue_state(struct buf *b, const struct pg_result *res, size_t row, int col)
{
	if (pg_bool(res, row, col))
		html_raw(b, "<span class=\"state is-paused\">paused</span>");
	else if (pg_int(res, row, 7) > 300)
		html_raw(b, "<span class=\"state is-late\">late</span>");
	else if (pg_bool(res, row, 8))
		html_raw(b, "<span class=\"state\">limited</span>");
}

void page_cell(struct visit *v, enum cell cell, const struct pg_result *res, size_t row, int col)
{
	struct buf *b = &v->reply.body;
	const char *text = pg_text(res, row, col, NULL);
	int64_t n = cell >= CELL_AGO && cell <= CELL_KIB ? pg_int(res, row, col) : 0;

	if (cell == CELL_PROGRESS) {
		progress(b, res, row, col);
		return;
	}
	if (pg_null(res, row, col))
		return;
	if (cell == CELL_RETRY) {
		retry_link(b, res, row, col);
		return;
	}
	switch (cell) {
	case CELL_TEXT:
		html_raw(b, "<bdi>");
		html_text(b, text);
		html_raw(b, "</bdi>");
		break;
	case CELL_TIME:
		html_text(b, text);
		html_raw(b, " UTC");
		break;
	case CELL_CODE:
		html_raw(b, "<code>");
		html_text(b, text);
		html_raw(b, "</code>");
		break;
	case CELL_BOOL:
		html_text(b, pg_bool(res, row, col) ? "yes" : "no");
		break;
	case CELL_STATE:
		html_raw(b, "<span class=\"state is-");
		html_text(b, text);
		html_raw(b, "\">");
		html_text(b, text);
		html_raw(b, "</span>");
		break;
	case CELL_PAUSED:
		queue_state(b, res, row, col);
		break;
	case CELL_JOB:
		link_to(b, "/jobs/", text);
		break;
	case CELL_FLOW:
		link_to(b, "/flow/", text);
		break;
	case CELL_QUEUE:
		link_to(b, "/queues/", text);
		break;
	case CELL_FN:
		link_to(b, "/functions/", text);
		break;
	case CELL_SCHEDULE:
		link_to(b, "/recurring/", text);
		break;
	case CELL_AGO:
		seconds(b, n < 0 ? 0 : n);
		html_raw(b, " ago");
		break;
	case CELL_IN:
		until(b, n);
		break;
	case CELL_DUE:
		if (strcmp(pg_text(res, row, 1, NULL), "claimed") != 0 &&
		    strcmp(pg_text(res, row, 1, NULL), "waiting") != 0)
			until(b, n > 0 && strcmp(pg_text(res, row, 1, NULL), "delayed") != 0 ? 0 : n);
		break;
	case CELL_SPAN:
		seconds(b, n);
		break;
	case CELL_US:
		page_span_us(b, n);
		break;
	case CELL_KIB:
		if (n < 10240)
			buf_printf(b, "%" PRId64 " KiB", n);
		else
			buf_printf(b, "%" PRId64 " MiB", n / 1024);
		break;
	default:
		html_text(b, text);
	}
}

/* ---- parts ------------------------------------------------------------------------------------ */

static bool is_number(enum cell cell)
{
	return cell == CELL_INT || cell == CELL_JOB || cell == CELL_FLOW || (cell >= CELL_AGO && cell <= CELL_KIB);
}

static void json_value(struct buf *b, enum cell cell, const struct pg_result *res, size_t row, int col)
{
	if (pg_null(res, row, col))
		html_raw(b, "null");
	else if (cell == CELL_BOOL)
		html_text(b, pg_bool(res, row, col) ? "true" : "false");
	else if (is_number(cell))
		buf_text(b, pg_text(res, row, col, NULL));
	else
		html_json(b, pg_text(res, row, col, NULL));
}

static void json_row(struct buf *b, const struct part *part, const struct pg_result *res, size_t row)
{
	bool first = true;

	for (size_t i = 0; i < part->len; i++)
		if (part->columns[i].cell == CELL_WHOLE) {
			buf_text(b, pg_text(res, row, part->columns[i].at, NULL));
			return;
		}
	html_raw(b, "{");
	for (size_t i = 0; i < part->len; i++) {
		const struct column *c = &part->columns[i];

		if (!first)
			html_raw(b, ",");
		first = false;
		html_json(b, c->key);
		html_raw(b, ":");
		if (c->cell == CELL_PROGRESS) {
			html_raw(b, "{\"done\":");
			json_value(b, CELL_INT, res, row, c->at);
			html_raw(b, ",\"total\":");
			json_value(b, CELL_INT, res, row, c->at + 1);
			html_raw(b, ",\"text\":");
			json_value(b, CELL_TEXT, res, row, c->at + 2);
			html_raw(b, "}");
		} else {
			json_value(b, c->cell, res, row, c->at);
		}
	}
	html_raw(b, "}");
}

static size_t json_part(struct buf *b, const struct part *part, const struct pg_result *res,
			bool (*use)(const struct pg_result *res, size_t row))
{
	size_t n = 0;

	html_raw(b, ",");
	html_json(b, part->key);
	html_raw(b, ":[");
	for (size_t row = 0; row < pg_rows(res); row++) {
		if (use && !use(res, row))
			continue;
		if (n++ > 0)
			html_raw(b, ",\n");
		json_row(b, part, res, row);
	}
	html_raw(b, "]");
	return n;
}

static bool is_shown(const struct column *c)
{
	return c->cell != CELL_HIDDEN && c->cell != CELL_WHOLE;
}

static void head_row(struct buf *b, const struct part *part)
{
	html_raw(b, "<thead><tr>");
	for (size_t i = 0; i < part->len; i++) {
		if (!is_shown(&part->columns[i]) || !part->columns[i].title)
			continue;
		if (is_number(part->columns[i].cell))
			html_raw(b, "<th scope=\"col\" class=\"n\">");
		else
			html_raw(b, "<th scope=\"col\">");
		html_text(b, part->columns[i].title);
		html_raw(b, "</th>");
	}
	html_raw(b, "</tr></thead><tbody>");
}

size_t page_part(struct visit *v, const struct part *part, const struct pg_result *res,
		 bool (*use)(const struct pg_result *res, size_t row))
{
	struct buf *b = &v->reply.body;
	size_t n = 0;

	if (v->json)
		return json_part(b, part, res, use);
	html_raw(b, "<section>");
	if (part->title) {
		html_raw(b, "<h2>");
		html_text(b, part->title);
		html_raw(b, "</h2>");
	}
	for (size_t row = 0; row < pg_rows(res); row++) {
		if (use && !use(res, row))
			continue;
		if (n++ == 0) {
			html_raw(b, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
			html_text(b, part->title ? part->title : part->key);
			html_raw(b, "\"><table>");
			head_row(b, part);
		}
		html_raw(b, "<tr>");
		for (size_t i = 0; i < part->len; i++) {
			const struct column *c = &part->columns[i];
			bool shared = i + 1 < part->len && is_shown(c + 1) && !c[1].title;

			if (!is_shown(c))
				continue;
			if (c->title)
				buf_text(b, is_number(c->cell)     ? "<td class=\"n\">"
					    : c->cell == CELL_TEXT ? "<td class=\"clip\">"
								   : "<td>");
			if ((shared || !c->title) && !pg_null(res, row, c->at))
				buf_printf(b, " <span class=\"quiet\">%s</span> ", c->key);
			page_cell(v, c->cell, res, row, c->at);
			if (c->more && pg_bool(res, row, c->more) && pg_int(res, row, c->at) > 0)
				html_raw(b, "+");
			buf_text(b, shared ? "" : "</td>");
		}
		html_raw(b, "</tr>\n");
	}
	if (n > 0) {
		html_raw(b, "</tbody></table></div>");
	} else {
		html_raw(b, "<p class=\"empty\">");
		html_text(b, part->empty);
		html_raw(b, "</p>");
	}
	html_raw(b, "</section>");
	return n;
}

void page_facts(struct visit *v, const struct part *part, const struct pg_result *res)
{
	if (v->json) {
		json_part(&v->reply.body, part, res, NULL);
		return;
	}
	html_raw(&v->reply.body, "<dl class=\"facts\">");
	for (size_t i = 0; i < part->len; i++)
		if (part->columns[i].title)
			page_fact_cell(v, part->columns[i].title, part->columns[i].cell, res, part->columns[i].at);
	html_raw(&v->reply.body, "</dl>");
}

void page_next(struct visit *v, const char *place, const char *label, int64_t after)
{
	struct buf *b = &v->reply.body;

	if (v->json)
		buf_printf(b, ",\"after\":%" PRId64, after);
	else
		buf_printf(b, "<p class=\"pager\"><a href=\"%s%" PRId64 "\" rel=\"next\">%s</a></p>", place, after,
			   label);
}

/* Commands of a remedy that are pages too. */
static const struct {
	const char *command, *link;
} remedy_pages[] = { { "deferred advise", "<a href=\"/advice\">" }, { "deferred doctor", "<a href=\"/doctor\">" } };
#define REMEDY_PAGES (sizeof(remedy_pages) / sizeof(remedy_pages[0]))

/* How long the part at the beginning of a remedy is: a command, or words up to the next one. */
static size_t remedy_part(const char *text, bool *command, const char **link)
{
	static const char *const commands[] = { "deferred ", "check_deferred", "select ", "grant " };
	const char *at = text;

	*command = false;
	*link = NULL;
	for (size_t i = 0; i < REMEDY_PAGES; i++)
		if (strncmp(text, remedy_pages[i].command, strlen(remedy_pages[i].command)) == 0) {
			*command = true;
			*link = remedy_pages[i].link;
			return strlen(remedy_pages[i].command);
		}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		*command |= strncmp(text, commands[i], strlen(commands[i])) == 0;
	for (; *at; at++)
		if (at[1] == ' ' && (*at == ';' || *at == (*command ? ',' : ':')))
			return (size_t)(at - text) + (*command ? 0 : 2);
	return (size_t)(at - text);
}

void page_remedy(struct buf *b, const char *text)
{
	const char *link;
	bool command;

	for (size_t len; (len = remedy_part(text, &command, &link)) > 0; text += len) {
		buf_text(b, command ? "<code>" : "<bdi>");
		buf_text(b, link ? link : "");
		html_text_n(b, text, len);
		buf_text(b, link ? "</a>" : "");
		buf_text(b, command ? "</code>" : "</bdi>");
	}
}

void page_fact(struct visit *v, const char *name, const char *value)
{
	struct buf *b = &v->reply.body;

	if (v->json || !value || !*value)
		return;
	html_raw(b, "<div><dt>");
	html_text(b, name);
	html_raw(b, "</dt><dd><bdi>");
	html_text(b, value);
	html_raw(b, "</bdi></dd></div>");
}

void page_fact_cell(struct visit *v, const char *name, enum cell cell, const struct pg_result *res, int col)
{
	struct buf *b = &v->reply.body;

	if (pg_null(res, 0, col) || !*pg_text(res, 0, col, NULL))
		return;
	html_raw(b, "<div><dt>");
	html_text(b, name);
	html_raw(b, "</dt><dd>");
	page_cell(v, cell, res, 0, col);
	html_raw(b, "</dd></div>");
}

void page_token_text(struct visit *v)
{
	char token[GUARD_TOKEN_SIZE];

	guard_token(v->web->key, v->user, v->began_us / 1000000 / 3600, token);
	html_text(&v->reply.body, token);
}

void page_token(struct visit *v)
{
	html_raw(&v->reply.body, "<input type=\"hidden\" name=\"token\" value=\"");
	hole(v, HOLE_TOKEN, page_token_text);
	html_raw(&v->reply.body, "\">");
}

void page_button(struct visit *v, const char *path, const char *label, const char *confirm)
{
	struct buf *b = &v->reply.body;

	if (v->json || !visit_may_act(v))
		return;
	html_raw(b, "<form class=\"act\" method=\"post\" action=\"");
	html_text(b, path);
	html_raw(b, "\">");
	page_token(v);
	html_raw(b, "<button");
	if (confirm) {
		html_raw(b, " class=\"careful\" data-confirm=\"");
		html_text(b, confirm);
		html_raw(b, "\"");
	}
	html_raw(b, ">");
	html_text(b, label);
	html_raw(b, "</button></form>");
}

void page_live(struct visit *v, const char *id)
{
	struct buf *b = &v->reply.body;

	if (v->json)
		return;
	html_raw(b, "<div data-live id=\"");
	html_text(b, id);
	html_raw(b, "\">");
}

void page_live_end(struct visit *v)
{
	if (!v->json)
		html_raw(&v->reply.body, "</div>");
}
