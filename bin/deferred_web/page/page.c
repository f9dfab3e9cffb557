/* SPDX-License-Identifier: MIT */
#include "page.h"

#include "server/assets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Places of a page that differ between visitors with equal rights. No text has these bytes: html_text() replaces them.
 * */
#define PLACE_USER "\1"
#define PLACE_TOKEN "\2"

/* ---- what the request asks for ---------------------------------------------------------------- */

const char *page_query(struct web_request *r, const char *name)
{
	const char *value = guard_field(&r->arena, r->query, strlen(r->query), name);

	return value && *value ? value : NULL;
}

const char *page_field(struct web_request *r, const char *name)
{
	const char *value = guard_field(&r->arena, r->http.body, r->http.body_len, name);

	return value && *value ? value : NULL;
}

bool page_has_field(struct web_request *r, const char *name)
{
	return guard_field(&r->arena, r->http.body, r->http.body_len, name) != NULL;
}

static bool read_number(const char *text, int64_t *number)
{
	bool is_number = !text || (strlen(text) <= 18 && !text[strspn(text, "0123456789")]);

	*number = text && is_number ? strtoll(text, NULL, 10) : 0;
	return is_number;
}

bool page_query_number(struct web_request *r, const char *name, int64_t *number)
{
	const char *text = page_query(r, name);
	bool is_number = read_number(text, number);

	if (!is_number)
		page_refuse_value(r, name, text,
				  "It is the number of a row. Leave it out to begin with the first row.");
	return is_number;
}

int64_t page_field_number(struct web_request *r, const char *name)
{
	int64_t number;

	read_number(page_field(r, name), &number);
	return number;
}

const char *page_url(struct web_request *r, const char *text)
{
	return html_url(&r->arena, text);
}

const char *page_take(struct web_request *r, struct buf *b)
{
	const char *text = arena_copy(&r->arena, b->p ? b->p : "", b->len);

	buf_clear(b);
	return text;
}

/* ---- what the visitor may do ------------------------------------------------------------------ */

const char *page_actor(const struct web_request *r)
{
	return r->user[0] ? r->user : r->me.role;
}

const char *page_address(const struct web_request *r)
{
	return r->address[0] ? r->address : NULL;
}

bool page_may_act(const struct web_request *r)
{
	return r->me.operator&& !r->web->read_only && r->web->auth != WEB_NONE;
}

const char **page_hidden_functions(struct web_request *r, size_t *len)
{
	const char *list = r->me.operator|| !r->web->hide_params ? "" : r->web->hide_params;
	const char **names = arena_alloc(&r->arena, (strlen(list) / 2 + 1) * sizeof(*names));

	for (*len = 0; *(list += strspn(list, ", \t")); list += strcspn(list, ", \t"))
		names[(*len)++] = arena_copy(&r->arena, list, strcspn(list, ", \t"));
	return names;
}

bool page_hides(struct web_request *r)
{
	size_t len;

	page_hidden_functions(r, &len);
	return len > 0;
}

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
	{ 2, "Settings", "/tokens", "Tokens", NULL },
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static bool is_here(const struct web_request *r, const struct place *p)
{
	const char *path = r->route ? r->route->path : "";
	size_t len = strlen(p->path);

	return (strncmp(path, p->path, len) == 0 && (path[len] == '\0' || path[len] == '/')) ||
	       (p->one && strncmp(path, p->one, strlen(p->one)) == 0);
}

static void navigation_link(struct buf *b, const struct place *p, const char *text, bool here)
{
	html_printf(b, "<li><a href=\"%s\"%-s>%s</a></li>", p->path, here ? " aria-current=\"page\"" : "", text);
}

static void navigation(struct web_request *r)
{
	struct buf *b = &r->reply.body;
	const char *section = NULL;

	for (size_t i = 0; i < PLACES; i++)
		if (is_here(r, &places[i]))
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
static void navigation_tabs(struct web_request *r)
{
	struct buf *b = &r->reply.body;
	size_t i = 0;

	while (i < PLACES && !(places[i].name && is_here(r, &places[i])))
		i++;
	if (i == PLACES)
		return;
	html_printf(b, "<nav class=\"tabs\" aria-label=\"%s\"><ul>", places[i].section);
	for (size_t k = 0; k < PLACES; k++)
		if (strcmp(places[k].section, places[i].section) == 0)
			navigation_link(b, &places[k], places[k].name, is_here(r, &places[k]));
	html_raw(b, "</ul></nav>");
}

void page_fill(struct web_request *r)
{
	struct buf filled = { 0 }, *b = &r->reply.body;
	char token[GUARD_TOKEN_SIZE];
	size_t len = b->p ? strcspn(b->p, PLACE_USER PLACE_TOKEN) : 0, at = 0;

	if (len == b->len || r->json || r->reply.content_type)
		return;
	guard_token(r->web->key, r->user, r->began_us / 1000000 / 3600, token);
	for (; at < b->len; at += len + 1) {
		len = strcspn(b->p + at, PLACE_USER PLACE_TOKEN);
		buf_add(&filled, b->p + at, len);
		if (at + len < b->len)
			html_text(&filled, b->p[at + len] == PLACE_USER[0] ? page_actor(r) : token);
	}
	buf_clear(b);
	*b = filled;
}

static bool reloads(struct web_request *r)
{
	return r->route && r->route->reloads && r->reply.status == 200 &&
	       !guard_field(&r->arena, r->query, strlen(r->query), "still");
}

void page_begin(struct web_request *r, const char *kind, const char *title)
{
	struct buf *b = &r->reply.body;

	if (r->json) {
		html_printf(b, "{\"page\":%.s", r->route ? r->route->name : "error");
		return;
	}
	html_printf(
		b,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s \xc2\xb7 deferred</title>"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
		"<meta name=\"color-scheme\" content=\"light dark\">"
		"<link rel=\"stylesheet\" href=\"" ASSET_style_css
		"\"><link rel=\"icon\" type=\"image/svg+xml\" href=\"" ASSET_icon_svg "\">"
		"<script src=\"" ASSET_page_js "\" defer></script>",
		title);
	if (reloads(r))
		html_raw(b, "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>");
	html_printf(b,
		    "</head><body><a class=\"skip\" href=\"#main\">Skip to content</a><header>"
		    "<a class=\"brand\" href=\"/\"%-s>deferred<span class=\"unseen\">: overview</span></a>",
		    r->route && strcmp(r->route->path, "/") == 0 ? " aria-current=\"page\"" : "");
	navigation(r);
	html_raw(b, "<form role=\"search\" action=\"/jobs\"><label class=\"unseen\" for=\"q\">Find jobs</label>"
		    "<input id=\"q\" name=\"q\" type=\"search\" placeholder=\"Find a job\" title=\"Job number or "
		    "label\" maxlength=\"1000\" autocomplete=\"off\"></form>");
	if (r->me.role[0])
		html_printf(b, "<p class=\"who\"><bdi>" PLACE_USER "</bdi> <span>%s</span></p>",
			    page_may_act(r) ? "operator"
			    : r->me.reader  ? "reader"
					    : "viewer");
	html_raw(b, "</header>");
	navigation_tabs(r);
	html_raw(b, "<main id=\"main\" tabindex=\"-1\"><h1>");
	if (kind)
		html_printf(b, "<span class=\"kind\">%s</span> ", kind);
	html_printf(b, "<bdi>%s</bdi></h1>", title);
}

void page_end(struct web_request *r)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=&%+-_.~";
	struct buf *b = &r->reply.body;

	if (r->json) {
		html_raw(b, "}\n");
		return;
	}
	html_raw(b, "</main><footer>");
	if (reloads(r)) {
		/* No browser writes anything else in a query. */
		bool is_plain = *r->query && !r->query[strspn(r->query, plain)];

		html_printf(
			b,
			"<noscript><p>This page reloads every 10 s. <a href=\"?%s%-sstill=1\">Stop reloading</a></p>"
			"</noscript>",
			is_plain ? r->query : "", is_plain ? "&amp;" : "");
	}
	/* Without JavaScript there is no dialog. The footer says the same. */
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

/* ---- refusals --------------------------------------------------------------------------------- */

void page_refuse(struct web_request *r, int status, const char *text)
{
	struct buf *b = &r->reply.body;

	r->reply.content_type = NULL;
	buf_clear(b);
	r->reply.status = status;
	page_begin(r, NULL,
		   status == 401   ? "Log in"
		   : status == 404 ? "Not found"
		   : status == 403 ? "Not allowed"
				   : "Request failed");
	if (r->json)
		html_printf(b, ",\"status\":%d,\"error\":%.s", status, text);
	page_trouble(r, text);
	page_end(r);
	page_fill(r);
}

void page_refuse_act(struct web_request *r)
{
	page_refuse(r, 403,
		    r->web->read_only || r->web->auth == WEB_NONE
			    ? "These pages are read-only."
			    : arena_printf(&r->arena,
					   "Your role may look but not act. An administrator can run: grant "
					   "deferred_operator to \"%s\"",
					   r->me.role));
}

void page_refuse_value(struct web_request *r, const char *name, const char *value, const char *remedy)
{
	page_refuse(r, 400, arena_printf(&r->arena, "The value '%.200s' of %s is not valid. %s", value, name, remedy));
}

void page_trouble(struct web_request *r, const char *text)
{
	if (text && !r->json)
		html_printf(&r->reply.body, "<p class=\"trouble\" role=\"alert\"><bdi>%s</bdi></p>", text);
}

bool page_is_below(const struct web_request *r, const char *place)
{
	return strncmp(r->route->path, place, strlen(place)) == 0;
}

void page_redirect(struct web_request *r, const char *place)
{
	r->reply.status = 303;
	reply_header(&r->reply, "Location", place);
}

void page_redirect_back(struct web_request *r, const char *verb, bool refused)
{
	const char *how = refused ? "refused" : "done";

	if (r->name)
		page_redirect(r, arena_printf(&r->arena, "/%s/%s?%s=%s",
					      page_is_below(r, "/queues/")      ? "queues"
					      : page_is_below(r, "/functions/") ? "functions"
										: "recurring",
					      page_url(r, r->name), how, page_url(r, verb)));
	else
		page_redirect(r, arena_printf(&r->arena, "/%s/%" PRId64 "?%s=%s",
					      page_is_below(r, "/flow/") ? "flow" : "jobs", r->number, how,
					      page_url(r, verb)));
}

/* ---- pieces ----------------------------------------------------------------------------------- */

static void add_two(struct buf *b, int64_t large, const char *large_unit, int64_t small, const char *small_unit)
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
		add_two(b, s / 60, "min", s % 60, "s");
	else if (s < 86400)
		add_two(b, s / 3600, "h", s % 3600 / 60, "min");
	else
		add_two(b, s / 86400, "d", s % 86400 / 3600, "h");
}

void page_span_s(struct buf *b, int64_t s)
{
	page_span_us(b, s > INT64_MAX / 1000000 ? INT64_MAX : s * 1000000);
}

/* Commands of a remedy that are pages too. */
static const struct {
	const char *command, *link;
} remedy_pages[] = { { "deferred advise", "<a href=\"/advice\">" }, { "deferred doctor", "<a href=\"/doctor\">" } };
#define REMEDY_PAGES (sizeof(remedy_pages) / sizeof(remedy_pages[0]))

/* The length of the first part of a remedy: a command, or words up to the next one. */
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

void page_next(struct web_request *r, const char *place, const char *label, int64_t after)
{
	if (r->json)
		html_printf(&r->reply.body, ",\"after\":%" PRId64, after);
	else
		html_printf(&r->reply.body, "<p class=\"pager\"><a href=\"%s%" PRId64 "\" rel=\"next\">%s</a></p>",
			    place, after, label);
}

void page_fact(struct web_request *r, const char *name, const char *value)
{
	if (!r->json && value && *value)
		html_printf(&r->reply.body, "<div><dt>%s</dt><dd><bdi>%s</bdi></dd></div>", name, value);
}

void page_token(struct web_request *r)
{
	html_raw(&r->reply.body, "<input type=\"hidden\" name=\"token\" value=\"" PLACE_TOKEN "\">");
}

void page_button(struct web_request *r, const char *path, const char *label, const char *confirm)
{
	struct buf *b = &r->reply.body;

	if (r->json || !page_may_act(r))
		return;
	html_printf(b, "<form class=\"act\" method=\"post\" action=\"%s\">", path);
	page_token(r);
	if (confirm)
		html_printf(b, "<button class=\"careful\" data-confirm=\"%s\">%s</button></form>", confirm, label);
	else
		html_printf(b, "<button>%s</button></form>", label);
}

void page_live(struct web_request *r, const char *id)
{
	if (!r->json)
		html_printf(&r->reply.body, "<div data-live id=\"%s\">", id);
}

void page_live_end(struct web_request *r)
{
	if (!r->json)
		html_raw(&r->reply.body, "</div>");
}
