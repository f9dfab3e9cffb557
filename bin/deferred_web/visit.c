/* SPDX-License-Identifier: MIT */
#include "web.h"

#include "assets.h"
#include "base/clock.h"
#include "base/log.h"
#include "desk.h"
#include "http/text.h"
#include "page.h"
#include "pages.h"
#include "snapshot.h"
#include "store/migrate.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX 4096              /* of a form */
#define LONG_BODY_MAX (256 * 1024) /* of one with 64 KiB of params, three bytes for most of what is no letter */
#define POLICY \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action " \
	"'self'; base-uri 'none'; " \
	"frame-ancestors 'none'"

const char *visit_who(const struct visit *v)
{
	return v->user[0] ? v->user : v->me.role;
}

const char *visit_address(const struct visit *v)
{
	return v->address[0] ? v->address : NULL;
}

bool visit_may_act(const struct visit *v)
{
	return v->me.operator&& !v->web->read_only && v->web->auth != WEB_NONE;
}

/* ---- answers ---------------------------------------------------------------------------------- */

static void finish(struct visit *v)
{
	struct reply *reply = &v->reply;

	if (reply->body.failed || !budget_hold(&v->hold, BUDGET_ANSWERS, reply->body.len)) {
		buf_clear(&reply->body);
		reply->status = 503;
		reply->content_type = "text/plain";
	}
	if (reply->status == 503 || reply->status == 429)
		reply_header(reply, "Retry-After", "10");
	reply_header(reply, "Content-Type",
		     reply->content_type ? reply->content_type
		     : v->json           ? "application/json"
					 : "text/html; charset=utf-8");
	reply_header(reply, "Content-Security-Policy", POLICY);
	reply_header(reply, "X-Content-Type-Options", "nosniff");
	reply_header(reply, "Referrer-Policy", "same-origin");
	reply_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
	reply_header(reply, "Cross-Origin-Resource-Policy", "same-origin");
}

void visit_refuse(struct visit *v, int status, const char *text)
{
	char title[4];

	snprintf(title, sizeof(title), "%d", status);
	v->reply.content_type = NULL;
	buf_clear(&v->reply.body);
	v->holes_len = 0;
	v->reply.status = status;
	page_begin(v, NULL,
		   status == 401   ? "Log in"
		   : status == 404 ? "Not found"
		   : status == 403 ? "Not allowed"
				   : "Request failed");
	if (v->json) {
		html_raw(&v->reply.body, ",\"status\":");
		buf_text(&v->reply.body, title);
		html_raw(&v->reply.body, ",\"error\":");
		html_json(&v->reply.body, text);
	} else {
		html_raw(&v->reply.body, "<p class=\"trouble\" role=\"alert\"><bdi>");
		html_text(&v->reply.body, text);
		html_raw(&v->reply.body, "</bdi></p>");
	}
	page_end(v);
}

void visit_refuse_act(struct visit *v)
{
	visit_refuse(v, 403,
		     v->web->read_only || v->web->auth == WEB_NONE
			     ? "These pages are read-only."
			     : arena_printf(&v->arena,
					    "Your role may look but not act. An administrator can run: grant "
					    "deferred_operator to \"%s\"",
					    v->me.role));
}

static void refuse(struct visit *v, int status, const char *text)
{
	visit_refuse(v, status, text);
	if (status == 401)
		reply_header(&v->reply, "WWW-Authenticate",
			     "Basic realm=\"deferred: a login of the database\", charset=\"UTF-8\"");
	else if (status == 405)
		reply_header(&v->reply, "Allow", v->route && v->route->action ? "POST" : "GET, HEAD");
}

static enum served_step refused(struct visit *v, int status, const char *text)
{
	refuse(v, status, text);
	reply_header(&v->reply, "Cache-Control", "private, no-store");
	finish(v);
	return SERVED_ANSWER;
}

/* What became of the database, told to who asked: who has a login there could ask it as well. */
static void refuse_database(struct visit *v, const struct deferred_error *err)
{
	const char *message = err->message;
	int status = 503;

	if (strcmp(err->sqlstate, "57014") == 0)
		message = "The database took longer than a page may wait. It may be busy, or the search too wide.";
	else if (strcmp(err->sqlstate, "42501") == 0)
		status = 403;
	else if (strncmp(err->sqlstate, "22", 2) == 0)
		status = 400;
	else if (err->code != DEFERRED_EDB)
		log_line(LOG_L_ERROR, "web: %s", err->message);
	if (status == 403 && v->me.role[0] && !v->me.viewer)
		message = arena_printf(
			&v->arena,
			"Your role may not see jobs. An administrator can run: grant deferred_viewer to \"%s\"",
			v->me.role);
	else if (err->code == DEFERRED_ESCHEMA)
		message = arena_printf(
			&v->arena,
			"This database lacks the schema of this program. An administrator can run: deferred migrate "
			"(%s)",
			err->message);
	else if (err->hint[0] && err->code == DEFERRED_EDB)
		message = arena_printf(&v->arena, "%s; hint: %s", message, err->hint);
	else if (err->code != DEFERRED_EDB && status == 503)
		message = "The database cannot be reached now.";
	visit_refuse(v, status, message);
}

/* ---- by a thread of the desk ------------------------------------------------------------------ */

/* A name for what is in the body: if it is the one that the browser has, the body stays here. */
static void tag(struct visit *v)
{
	const char *known = request_value(&v->request, "if-none-match");
	uint64_t hash = 14695981039346656037u;
	char *tag_text;

	for (size_t i = 0; i < v->reply.body.len; i++)
		hash = (hash ^ (unsigned char)v->reply.body.p[i]) * 1099511628211u;
	tag_text = arena_printf(&v->arena, "\"%016" PRIx64 "\"", hash);
	reply_header(&v->reply, "ETag", tag_text);
	if (known && strcmp(known, tag_text) == 0) {
		v->reply.status = 304;
		buf_clear(&v->reply.body);
	}
}

static int in_transaction(struct visit *v, struct deferred_error *err)
{
	int rc = store_web_begin(v->pg, v->role, !v->route->action, err);

	if (rc == 0)
		rc = store_web_me(v->pg, &v->me, err);
	v->me_ns = rc == 0 ? clock_ns() : 0;
	if (rc == 0 && !v->me.viewer)
		rc = error_set(err, DEFERRED_EDB, "web", "no viewer");
	if (rc < 0) {
		if (err->code == DEFERRED_EDB && !v->me.viewer)
			strcpy(err->sqlstate, "42501");
		return rc;
	}
	if (v->route->action && !visit_may_act(v)) {
		visit_refuse_act(v);
		return 0;
	}
	return v->route->run(v, err);
}

/* With a session of its own: the page, or the action. */
static void run(struct visit *v)
{
	struct deferred_error err = { 0 }, ignored = { 0 };
	int rc;

	rc = v->role ? web_role_exec(v->pg, v->role, &err) : 0;
	if (rc == 0 && v->route->before) {
		v->route->before(v);
		/* Whatever stopped it, the page comes without what it would have brought. */
		if (!pg_broken(v->pg) && pg_in_transaction(v->pg))
			store_web_end(v->pg, false, &ignored);
	}
	if (rc == 0)
		rc = in_transaction(v, &err);
	if (rc == 0)
		rc = store_web_end(v->pg, v->route->action && v->reply.status < 400, &err);
	if (rc == 0 && v->route->after && v->reply.status < 400)
		v->route->after(v);
	if (rc < 0) {
		refuse_database(v, &err);
		if (!pg_broken(v->pg))
			store_web_end(v->pg, false, &ignored);
	}
	if (v->route->action)
		snapshots_drop(v->web->snapshots);
}

/* Was it made for this visit? Else it is what another was answered a moment ago. */
static bool make(struct visit *v)
{
	struct deferred_error err = { 0 };
	enum desk_outcome outcome;
	bool made;

	/* Who acts as a role that was said needs no session to be told what others of that role were. */
	if (v->role && snapshot_wanted(v) && snapshot_get(v->web->snapshots, v))
		return false;
	outcome = desk_open(v->web->desk, v, &err);
	if (outcome != DESK_OK) {
		if (outcome == DESK_AWAY)
			refuse_database(v, &err);
		else
			refuse(v, 401, "The database refused that name and password.");
		if (outcome == DESK_REFUSED)
			log_line(LOG_L_WARNING, "web: login refused, from %s: %s",
				 v->address[0] ? v->address : "a local socket", err.message);
		return true;
	}
	made = v->role || !snapshot_wanted(v) || !snapshot_get(v->web->snapshots, v);
	if (made)
		run(v);
	desk_close(v->web->desk, v);
	return made;
}

void visit_run(struct visit *v)
{
	if (make(v))
		snapshot_made(v->web->snapshots, v);
	if (v->reply.status == 200 && !v->route->action)
		tag(v);
}

void visit_late(struct visit *v, bool often)
{
	if (often)
		refuse(v, 429, "Too many login attempts. Try again in ten seconds.");
	else
		refuse(v, 503, "Too many requests. Try again in ten seconds.");
}

/* ---- what it wants ---------------------------------------------------------------------------- */

/* "/jobs/#/retry" against "/jobs/17/retry". */
static bool matches(struct visit *v, const char *pattern, const char *path, size_t len)
{
	const char *end = path + len;

	for (; *pattern; pattern++) {
		size_t n = strcspn(path, "/");

		if (*pattern != '#' && *pattern != '*') {
			if (path >= end || *path++ != *pattern)
				return false;
			continue;
		}
		if (n > (size_t)(end - path))
			n = (size_t)(end - path);
		if (*pattern == '#') {
			if (n == 0 || n > 18 || strspn(path, "0123456789") < n)
				return false;
			v->number = strtoll(path, NULL, 10);
		} else {
			char *name = arena_copy(&v->arena, path, n);
			long decoded = text_percent_decode(name, n);

			if (decoded <= 0)
				return false;
			name[decoded] = '\0';
			v->name = name;
		}
		path += n;
	}
	return path == end;
}

static const struct route *find_route(struct visit *v)
{
	const char *path = v->request.raw_path;
	size_t len = strlen(path);

	/* The page of a queue that is named "a.json" is at "/queues/a%2Ejson", which is how we write it. */
	v->json = len > 5 && strcmp(path + len - 5, ".json") == 0;
	if (v->json)
		len -= 5;
	if (v->web->only) {
		v->json = true;
		len = strcmp(path, v->web->only) == 0 ? len : 0;
	}
	for (const struct route *r = routes; r->path; r++)
		if (matches(v, r->path, path, len))
			return r;
	return NULL;
}

static bool is_get(const struct request *r)
{
	return r->verb == VERB_GET || r->verb == VERB_HEAD;
}

static enum served_step serve_asset(struct visit *v, const struct asset *asset)
{
	struct reply *reply = &v->reply;

	buf_add(&reply->body, (const char *)asset->bytes, (size_t)(asset->end - asset->bytes));
	reply->content_type = asset->type;
	reply_header(reply, "Content-Encoding", "gzip");
	reply_header(reply, "Cache-Control", "public, max-age=31536000, immutable");
	finish(v);
	return SERVED_ANSWER;
}

static bool is_mapped(struct visit *v, const char *user)
{
	v->role = guard_role(v->web->users, user);
	return v->role;
}

/* The user of this machine at the other end of a Unix socket: the kernel says who that is. */
static bool known_user(struct visit *v)
{
	struct passwd entry, *found = NULL;
	char text[4096];

	if (v->request.peer_uid == 0 ||
	    getpwuid_r((uid_t)(v->request.peer_uid - 1), &entry, text, sizeof(text), &found) != 0 || !found ||
	    strlen(found->pw_name) >= sizeof(v->user))
		return false;
	memcpy(v->user, found->pw_name, strlen(found->pw_name) + 1);
	return true;
}

/* Who it is, as far as can be told without asking the database. 0: go on. */
static int identify(struct visit *v)
{
	const char *said = request_value(&v->request, "x-forwarded-user");

	switch (v->web->auth) {
	case WEB_NONE:
		v->role = "deferred_viewer";
		return 0;
	case WEB_POSTGRES:
		return guard_basic(&v->request, v->user, &v->password) ? 0 : 401;
	case WEB_PEER:
		return known_user(v) && is_mapped(v, v->user) ? 0 : 403;
	case WEB_PROXY:
		break;
	}
	if (!said || !guard_peer(&v->request, v->web->proxies))
		return 403;
	if (!is_mapped(v, said) || strlen(said) >= sizeof(v->user))
		return 403;
	memcpy(v->user, said, strlen(said) + 1);
	return 0;
}

static enum served_step judge(struct visit *v)
{
	struct request *r = &v->request;
	const struct asset *asset;
	int status;

	if (r->broken || r->fault != FAULT_NONE)
		return refused(v, 400, "The request cannot be read.");
	if (!guard_host(r, v->web->hosts))
		return refused(v, 421, "This host name is not served. The setting web.hosts lists the names that are.");
	if (is_get(r) && !v->web->only && (asset = asset_find(r->raw_path)))
		return serve_asset(v, asset);
	v->route = find_route(v);
	status = identify(v);
	if (status == 401)
		return refused(v, 401, "Log in with a name and password of the database.");
	if (status != 0)
		return refused(v, status,
			       v->web->auth == WEB_PEER
				       ? "Only users of this machine that web.users lists may see this."
				       : "The proxy did not name you, or web.users does not list you.");
	if (!v->route)
		return refused(v, 404, "There is no such page.");
	if (v->route->action ? r->verb != VERB_POST : !is_get(r))
		return refused(v, 405,
			       v->route->action ? "This address accepts only POST, from a button."
						: "This address accepts only GET.");
	if (!v->route->action)
		return SERVED_WAIT;
	if (!guard_same_origin(r))
		return refused(v, 403, "This request did not come from a page of this server.");
	return v->awaits_body ? SERVED_BODY : refused(v, 403, "The page you came from is too old. Load it again.");
}

static enum served_step act(struct visit *v)
{
	const struct request *r = &v->request;
	bool too_long = r->body_too_large || r->body_len > (v->route->long_form ? LONG_BODY_MAX : BODY_MAX);
	const char *token = too_long ? NULL : guard_field(&v->arena, r->body ? r->body : "", r->body_len, "token");

	if (too_long && v->route->long_form)
		return refused(v, 413, "The form is too large. For larger params, use: deferred add");
	if (!guard_token_ok(v->web->key, v->user, v->began_us / 1000000 / 3600, token))
		return refused(v, 403, "The page you came from is too old. Load it again.");
	return SERVED_WAIT;
}

/* ---- of the server ---------------------------------------------------------------------------- */

static void app_begin(void *exchange, void *data, struct served *parts)
{
	struct visit *v = exchange;

	v->web = data;
	v->began_us = text_now_us();
	v->began_ns = clock_ns();
	v->query = "";
	crypto_guid(v->id);
	reply_init(&v->reply, &v->arena);
	*parts = (struct served){ &v->arena, &v->request, &v->reply, &v->hold, &v->awaits_body };
}

static void app_headers(void *exchange)
{
	struct visit *v = exchange;
	struct request *r = &v->request;
	const struct sockaddr_storage *peer = &r->peer;

	v->query = r->params_len > 0 ? r->params[0].value : "";
	request_end(r);
	if (peer->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, v->address, sizeof(v->address));
	else if (peer->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)peer)->sin6_addr, v->address, sizeof(v->address));
}

/* Called when the headers are there; where there is a body, when that is; and when the desk is done with it. */
static enum served_step app_step(void *exchange)
{
	struct visit *v = exchange;
	enum served_step step;

	if (v->wake) {
		if (v->reply.status != 304)
			reply_header(&v->reply, "Cache-Control", "private, no-store");
		finish(v);
		return SERVED_ANSWER;
	}
	step = v->judged ? act(v) : judge(v);
	v->judged = true;
	return step;
}

static void app_wait(void *exchange, void (*wake)(void *data), void *data)
{
	struct visit *v = exchange;

	v->wake = wake;
	v->wake_data = data;
	desk_submit(v->web->desk, v);
}

static bool app_takes_body(const void *exchange)
{
	(void)exchange;
	return true;
}

static void app_refuse(void *exchange, enum fault fault)
{
	refused(exchange, fault_info(fault)->status, fault_info(fault)->message);
}

static void app_log(void *exchange, size_t bytes_out, bool cut)
{
	struct visit *v = exchange;
	struct access_entry entry = {
		.request = &v->request,
		.id = v->id,
		.began_us = v->began_us,
		.began_ns = v->began_ns,
		.op = v->route ? v->route->name : NULL,
		.account = v->user[0] ? v->user : NULL,
		.auth = v->me.role[0] ? v->me.role : NULL,
		.status = v->reply.status,
		.bytes_out = bytes_out,
		.cut = cut,
	};

	if (v->web->log)
		access_log_write(v->web->log, &entry);
}

static void app_end(void *exchange)
{
	struct visit *v = exchange;

	if (v->password)
		explicit_bzero((char *)v->password, strlen(v->password));
	reply_clear(&v->reply);
	pg_result_free(v->queues);
	arena_clear(&v->arena);
	budget_release(&v->hold);
}

const struct server_app visit_app = {
	.exchange_bytes = sizeof(struct visit),
	.begin = app_begin,
	.headers = app_headers,
	.step = app_step,
	.wait = app_wait,
	.takes_body = app_takes_body,
	.refuse = app_refuse,
	.log = app_log,
	.end = app_end,
};
