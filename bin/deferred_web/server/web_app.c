/* SPDX-License-Identifier: MIT */
#include "web_app.h"

#include "assets.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/text.h"
#include "page/page.h"
#include "pages/routes.h"
#include "rows/web.h"
#include "store/migrate.h"
#include "web_cache.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX 4096 /* of a form */
#define LONG_BODY_MAX \
	(256 * 1024) /* of one with 64 KiB of params, which take three bytes for most special characters */
#define CACHED_BODY_MAX (256u * 1024)
#define CACHED_WAIT_MS 300 /* a page that takes longer is made by each who wants it */
/* Rights of a login are read that often where only what has changed is wanted. */
#define RIGHTS_NS (60 * NS_PER_S)
#define POLICY \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action " \
	"'self'; base-uri 'none'; " \
	"frame-ancestors 'none'"

/* ---- answers ---------------------------------------------------------------------------------- */

static void finish_answer(struct web_request *r)
{
	struct reply *reply = &r->reply;

	if (reply->body.failed || !budget_hold(&r->hold, BUDGET_ANSWERS, reply->body.len)) {
		buf_clear(&reply->body);
		reply->status = 503;
		reply->content_type = "text/plain";
	}
	if (reply->status == 503 || reply->status == 429)
		reply_header(reply, "Retry-After", "10");
	reply_header(reply, "Content-Type",
		     reply->content_type ? reply->content_type
		     : r->json           ? "application/json"
					 : "text/html; charset=utf-8");
	reply_header(reply, "Content-Security-Policy", POLICY);
	reply_header(reply, "X-Content-Type-Options", "nosniff");
	reply_header(reply, "Referrer-Policy", "same-origin");
	reply_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
	reply_header(reply, "Cross-Origin-Resource-Policy", "same-origin");
}

static void refuse_page(struct web_request *r, int status, const char *text)
{
	page_refuse(r, status, text);
	if (status == 401)
		reply_header(&r->reply, "WWW-Authenticate",
			     "Basic realm=\"deferred: a login of the database\", charset=\"UTF-8\"");
	else if (status == 405)
		reply_header(&r->reply, "Allow", r->route && r->route->action ? "POST" : "GET, HEAD");
}

static enum served_step refuse_now(struct web_request *r, int status, const char *text)
{
	refuse_page(r, status, text);
	reply_header(&r->reply, "Cache-Control", "private, no-store");
	finish_answer(r);
	return SERVED_ANSWER;
}

/* The visitor reads what the database said, because with a login there anybody could ask it too. */
static void refuse_database(struct web_request *r, const struct deferred_error *err)
{
	bool is_late = strcmp(err->sqlstate, "57014") == 0;
	const char *message = err->message;
	int status = 503;

	if (strcmp(err->sqlstate, "42501") == 0)
		status = 403;
	else if (strncmp(err->sqlstate, "22", 2) == 0)
		status = 400;
	else if (err->code != DEFERRED_EDB)
		log_error(LOG_L_ERROR, err, "web");
	if (is_late)
		message = "The database took longer than a page may wait. It may be busy, or the search too wide. Load "
			  "the "
			  "page again, or search for less.";
	else if (status == 403 && r->me.role[0] && !r->me.viewer)
		message = arena_printf(
			&r->arena,
			"Your role may not see jobs. An administrator can run: grant deferred_viewer to \"%s\"",
			r->me.role);
	else if (err->code == DEFERRED_ESCHEMA)
		message = arena_printf(
			&r->arena,
			"This database lacks the schema of this program. An administrator can run: deferred migrate "
			"(%s)",
			err->message);
	else if (err->hint[0] && err->code == DEFERRED_EDB)
		message = arena_printf(&r->arena, "%s; hint: %s", message, err->hint);
	else if (err->code != DEFERRED_EDB && status == 503)
		message = "The database cannot be reached now. Load the page again in a while.";
	page_refuse(r, status, message);
}

/* ---- by a thread of the pool ------------------------------------------------------------------ */

/* The tag names the content of the body. A browser that has it is not sent it again. */
static void add_tag(struct web_request *r)
{
	const char *known = request_value(&r->http, "if-none-match");
	uint64_t hash = 14695981039346656037u;
	char *tag_text;

	for (size_t i = 0; i < r->reply.body.len; i++)
		hash = (hash ^ (unsigned char)r->reply.body.p[i]) * 1099511628211u;
	tag_text = arena_printf(&r->arena, "\"%016" PRIx64 "\"", hash);
	reply_header(&r->reply, "ETag", tag_text);
	if (known && strcmp(known, tag_text) == 0) {
		r->reply.status = 304;
		buf_clear(&r->reply.body);
	}
}

static int answer_in_transaction(struct web_request *r, struct deferred_error *err)
{
	int rc = store_web_begin(r->pg, r->role, !r->route->action, err);

	if (rc == 0)
		rc = store_web_me(r->pg, &r->me, err);
	r->me_ns = rc == 0 ? clock_ns() : 0;
	if (rc == 0 && !r->me.viewer)
		rc = error_set(err, DEFERRED_EDB, "web", "the role may not see jobs\ngrant deferred_viewer to it");
	if (rc < 0) {
		if (err->code == DEFERRED_EDB && !r->me.viewer)
			strcpy(err->sqlstate, "42501");
		return rc;
	}
	if (r->route->action && !page_may_act(r)) {
		page_refuse_act(r);
		return 0;
	}
	return r->route->answer(r, err);
}

/* With a session: the page, or the action. */
static void answer_with_session(struct web_request *r)
{
	struct deferred_error err = { 0 }, ignored = { 0 };
	int rc = r->role ? web_role_exec(r->pg, r->role, &err) : 0;

	if (rc == 0 && r->route->before) {
		r->route->before(r);
		/* Whatever stopped it, the page comes without it. */
		if (!pg_broken(r->pg) && pg_in_transaction(r->pg))
			store_web_end(r->pg, false, &ignored);
	}
	if (rc == 0)
		rc = answer_in_transaction(r, &err);
	if (rc == 0)
		rc = store_web_end(r->pg, r->route->action && r->reply.status < 400, &err);
	if (rc == 0 && r->route->after && r->reply.status < 400)
		r->route->after(r);
	if (rc < 0) {
		refuse_database(r, &err);
		if (!pg_broken(r->pg))
			store_web_end(r->pg, false, &ignored);
	}
	if (r->route->action)
		web_cache_drop_pages(r->web->cache);
}

/* The page, and the rights with which it is seen. A login may see more than others of equal rights, for example
 * database sessions of its own. NULL: its rights are not known. In the arena. */
static const char *cache_key(struct web_request *r)
{
	const char *path = r->http.raw_path;

	if (r->role)
		return arena_printf(&r->arena, "%s %s?%s", r->role, path, r->query);
	if (r->me_ns == 0 || clock_ns() - r->me_ns >= RIGHTS_NS)
		return NULL;
	return arena_printf(&r->arena, "%d%d%d %s %s?%s", r->me.viewer, r->me.reader, r->me.operator, r->me.role, path,
			    r->query);
}

/*
 * Only a browser that has the page already, and asks what has changed, is sent one that was made a moment ago. A
 * visitor who comes to a page sees it as it is. *claimed: the page is to be made for others too.
 */
static bool answer_from_cache(struct web_request *r, const char **claimed)
{
	bool refreshes = !r->route->action && request_value(&r->http, "if-none-match");
	const char *key = refreshes ? cache_key(r) : NULL;
	enum web_cache_found found;

	if (!key)
		return false;
	found = web_cache_get(r->web->cache, key, 0, CACHED_WAIT_MS, &r->reply.body);
	*claimed = found == WEB_CACHE_MAKE ? key : NULL;
	if (found != WEB_CACHE_THERE)
		return false;
	if (r->role)
		snprintf(r->me.role, sizeof(r->me.role), "%s", r->role);
	r->reply.status = 200;
	return true;
}

static void keep_in_cache(struct web_request *r, const char *claimed)
{
	const struct buf *b = &r->reply.body;
	bool is_good = r->reply.status == 200 && !r->route->action && !r->reply.content_type && b->len > 0 &&
		       b->len <= CACHED_BODY_MAX;
	const char *key = is_good ? cache_key(r) : NULL;
	bool is_claimed = claimed && key && strcmp(key, claimed) == 0;
	struct web_cache_answer a = { .claimed = true };

	/* The rights of the visitor may have changed meanwhile, and the key with them. */
	if (claimed && !is_claimed)
		web_cache_put(r->web->cache, claimed, &a);
	if (!key)
		return;
	a = (struct web_cache_answer){ .claimed = is_claimed, .keep_ms = WEB_CACHE_PAGE_MS, .began_ns = r->began_ns };
	buf_add(&a.form[0], b->p, b->len);
	web_cache_put(r->web->cache, key, &a);
}

/* Returns true where the page was made for this request. */
static bool make_answer(struct web_request *r, const char **claimed)
{
	struct deferred_error err = { 0 };
	enum web_pool_outcome outcome;
	bool made;

	/* A role that the setting names is known without a session. */
	if (r->role && answer_from_cache(r, claimed))
		return false;
	outcome = web_pool_open(r->web->pool, r, &err);
	if (outcome == WEB_POOL_AWAY)
		refuse_database(r, &err);
	else if (outcome == WEB_POOL_REFUSED) {
		refuse_page(r, 401,
			    "The database refused that name and password. Load the page again to enter others.");
		log_error(LOG_L_WARNING, &err, "web: login refused, from %s",
			  r->address[0] ? r->address : "a local socket");
	}
	if (outcome != WEB_POOL_OK)
		return true;
	made = r->role || !answer_from_cache(r, claimed);
	if (made)
		answer_with_session(r);
	web_pool_close(r->web->pool, r);
	return made;
}

static void answer_request(struct web_request *r)
{
	const char *claimed = NULL;

	if (make_answer(r, &claimed))
		keep_in_cache(r, claimed);
	page_fill(r);
	if (r->reply.status == 200 && !r->route->action)
		add_tag(r);
}

static void refuse_late(struct web_request *r, bool often)
{
	if (often)
		refuse_page(r, 429, "Too many login attempts. Try again in ten seconds.");
	else
		refuse_page(r, 503, "Too many requests. Try again in ten seconds.");
}

const struct web_pool_work web_app_work = { .answer = answer_request, .refuse = refuse_late };

/* ---- what is asked for ------------------------------------------------------------------------ */

/* "/jobs/#/retry" against "/jobs/17/retry". */
static bool matches_route(struct web_request *r, const char *pattern, const char *path, size_t len)
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
			r->number = strtoll(path, NULL, 10);
		} else {
			char *name = arena_copy(&r->arena, path, n);
			long decoded = text_percent_decode(name, n);

			if (decoded <= 0)
				return false;
			name[decoded] = '\0';
			r->name = name;
		}
		path += n;
	}
	return path == end;
}

static const struct web_route *find_route(struct web_request *r)
{
	const char *path = r->http.raw_path;
	size_t len = strlen(path);

	/* Our links to the page of a queue named "a.json" are "/queues/a%2Ejson". */
	r->json = len > 5 && strcmp(path + len - 5, ".json") == 0;
	if (r->json)
		len -= 5;
	if (r->web->only) {
		r->json = true;
		len = strcmp(path, r->web->only) == 0 ? len : 0;
	}
	for (const struct web_route *route = web_routes; route->path; route++)
		if (matches_route(r, route->path, path, len))
			return route;
	return NULL;
}

static bool is_get(const struct request *http)
{
	return http->verb == VERB_GET || http->verb == VERB_HEAD;
}

static enum served_step serve_asset(struct web_request *r, const struct asset *asset)
{
	struct reply *reply = &r->reply;

	buf_add(&reply->body, (const char *)asset->bytes, (size_t)(asset->end - asset->bytes));
	reply->content_type = asset->type;
	reply_header(reply, "Content-Encoding", "gzip");
	reply_header(reply, "Cache-Control", "public, max-age=31536000, immutable");
	finish_answer(r);
	return SERVED_ANSWER;
}

static bool is_mapped(struct web_request *r, const char *user)
{
	r->role = guard_role(r->web->users, user);
	return r->role;
}

/* The user of this machine at the other end of a Unix socket, as the kernel says. */
static bool read_local_user(struct web_request *r)
{
	struct passwd entry, *found = NULL;
	char text[4096];

	if (r->http.peer_uid == 0 ||
	    getpwuid_r((uid_t)(r->http.peer_uid - 1), &entry, text, sizeof(text), &found) != 0 || !found ||
	    strlen(found->pw_name) >= sizeof(r->user))
		return false;
	memcpy(r->user, found->pw_name, strlen(found->pw_name) + 1);
	return true;
}

/* The user that a trusted proxy names. Returns NULL, or why there is none. */
static const char *read_proxy_user(struct web_request *r)
{
	const char *said = request_value(&r->http, "x-forwarded-user");

	if (!guard_peer(&r->http, r->web->proxies))
		return "This address is not one of the proxies in the setting web.proxies.";
	if (!said || !*said)
		return "The proxy sent no X-Forwarded-User header. Log in at the proxy, or configure it to send one.";
	if (strlen(said) >= sizeof(r->user))
		return "The user name in the header X-Forwarded-User is too long.";
	memcpy(r->user, said, strlen(said) + 1);
	return NULL;
}

/* Reads name and role as far as that needs no database. Returns NULL, or why the visitor is refused. */
static const char *identify_visitor(struct web_request *r)
{
	const char *wrong = NULL;

	switch (r->web->auth) {
	case WEB_NONE:
		r->role = "deferred_viewer";
		return NULL;
	case WEB_POSTGRES:
		return guard_basic(&r->http, r->user, &r->password)
			       ? NULL
			       : "Log in with a name and password of the database. Load the page again to be asked for "
				 "them.";
	case WEB_PEER:
		wrong = read_local_user(r) ? NULL : "The system user at the other end of this socket has no name.";
		break;
	case WEB_PROXY:
		wrong = read_proxy_user(r);
		break;
	}
	if (!wrong && !is_mapped(r, r->user))
		wrong = arena_printf(&r->arena, "The setting web.users does not list the user '%s'.", r->user);
	return wrong;
}

static enum served_step check_request(struct web_request *r)
{
	struct request *http = &r->http;
	const struct asset *asset;
	const char *wrong;

	if (http->fault != FAULT_NONE)
		return refuse_now(r, 400, "The request cannot be read.");
	if (!guard_host(http, r->web->hosts))
		return refuse_now(r, 421,
				  "This host name is not served. The setting web.hosts lists the names that are.");
	if (is_get(http) && !r->web->only && (asset = assets_find(http->raw_path)))
		return serve_asset(r, asset);
	r->route = find_route(r);
	wrong = identify_visitor(r);
	if (wrong)
		return refuse_now(r, r->web->auth == WEB_POSTGRES ? 401 : 403, wrong);
	if (!r->route)
		return refuse_now(r, 404, "The page does not exist.");
	if (r->route->action ? http->verb != VERB_POST : !is_get(http))
		return refuse_now(r, 405,
				  r->route->action ? "This address accepts only POST, from a button."
						   : "This address accepts only GET.");
	if (!r->route->action)
		return SERVED_WAIT;
	if (!guard_same_origin(http))
		return refuse_now(r, 403, "This request did not come from a page of this server.");
	return r->awaits_body ? SERVED_BODY : refuse_now(r, 403, "The page you came from is too old. Load it again.");
}

static enum served_step check_form(struct web_request *r)
{
	const struct request *http = &r->http;
	bool too_long = http->body_too_large || http->body_len > (r->route->long_form ? LONG_BODY_MAX : BODY_MAX);
	const char *token =
		too_long ? NULL : guard_field(&r->arena, http->body ? http->body : "", http->body_len, "token");

	if (too_long && r->route->long_form)
		return refuse_now(r, 413, "The form is too large. For larger params, use: deferred add");
	if (!guard_token_ok(r->web->key, r->user, r->began_us / 1000000 / 3600, token))
		return refuse_now(r, 403, "The page you came from is too old. Load it again.");
	return SERVED_WAIT;
}

/* ---- of the server ---------------------------------------------------------------------------- */

static void web_begin(void *exchange, void *data, struct served *parts)
{
	struct web_request *r = exchange;

	r->web = data;
	r->began_us = text_now_us();
	r->began_ns = clock_ns();
	r->query = "";
	crypto_guid(r->id);
	reply_init(&r->reply, &r->arena);
	*parts = (struct served){ &r->arena, &r->http, &r->reply, &r->hold, &r->awaits_body };
}

static void web_headers(void *exchange)
{
	struct web_request *r = exchange;
	struct request *http = &r->http;
	const struct sockaddr_storage *peer = &http->peer;

	r->query = http->params_len > 0 ? http->params[0].value : "";
	request_end(http);
	if (peer->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)peer)->sin_addr, r->address, sizeof(r->address));
	else if (peer->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)peer)->sin6_addr, r->address, sizeof(r->address));
}

/* Called when the headers are there, when a body is there, and when the pool is done with the request. */
static enum served_step web_step(void *exchange)
{
	struct web_request *r = exchange;
	enum served_step step;

	if (r->wake) {
		if (r->reply.status != 304)
			reply_header(&r->reply, "Cache-Control", "private, no-store");
		finish_answer(r);
		return SERVED_ANSWER;
	}
	step = r->judged ? check_form(r) : check_request(r);
	r->judged = true;
	return step;
}

static void web_wait(void *exchange, void (*wake)(void *data), void *data)
{
	struct web_request *r = exchange;

	r->wake = wake;
	r->wake_data = data;
	web_pool_submit(r->web->pool, r);
}

static bool web_takes_body(const void *exchange)
{
	(void)exchange;
	return true;
}

static void web_refuse(void *exchange, enum fault fault)
{
	refuse_now(exchange, fault_info(fault)->status, fault_info(fault)->message);
}

static void web_log(void *exchange, size_t bytes_out, bool cut)
{
	struct web_request *r = exchange;
	struct access_entry entry = {
		.request = &r->http,
		.id = r->id,
		.began_us = r->began_us,
		.began_ns = r->began_ns,
		.op = r->route ? r->route->name : NULL,
		.account = r->user[0] ? r->user : NULL,
		.auth = r->me.role[0] ? r->me.role : NULL,
		.status = r->reply.status,
		.bytes_out = bytes_out,
		.cut = cut,
	};

	if (r->web->log)
		access_log_write(r->web->log, &entry);
}

static void web_end(void *exchange)
{
	struct web_request *r = exchange;

	if (r->password)
		explicit_bzero((char *)r->password, strlen(r->password));
	reply_clear(&r->reply);
	pg_result_free(r->queues);
	buf_clear(&r->cached);
	arena_clear(&r->arena);
	budget_release(&r->hold);
}

const struct server_app web_app = {
	.exchange_bytes = sizeof(struct web_request),
	.begin = web_begin,
	.headers = web_headers,
	.step = web_step,
	.wait = web_wait,
	.takes_body = web_takes_body,
	.refuse = web_refuse,
	.log = web_log,
	.end = web_end,
};
