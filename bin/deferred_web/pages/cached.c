/* SPDX-License-Identifier: MIT */
#include "cached.h"

#include "http/text.h"
#include "page/part.h"

#include <time.h>

#define AGAIN_S "3"

bool cached_may_see(struct web_request *r)
{
	struct deferred_error ignored = { 0 };
	bool asked = store_web_begin(r->pg, r->role, true, &ignored) == 0 && store_web_me(r->pg, &r->me, &ignored) == 0;

	if (!pg_broken(r->pg))
		store_web_end(r->pg, false, &ignored);
	return asked && r->me.viewer;
}

bool cached_claim(struct web_request *r, const char *key)
{
	return web_cache_get(r->web->cache, key, r->json, 0, &r->cached) == WEB_CACHE_MAKE;
}

void cached_get(struct web_request *r, const char *key)
{
	web_cache_get(r->web->cache, key, r->json, WEB_CACHE_ONLY_LOOK, &r->cached);
}

void cached_begin(struct web_cache_answer *a)
{
	time_t now = (time_t)(text_now_us() / 1000000);
	struct tm tm;
	char text[40];

	*a = (struct web_cache_answer){ .claimed = true, .keep_ms = CACHED_MS };
	gmtime_r(&now, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	html_printf(&a->form[0], "<p class=\"meta\">As of %s UTC. Kept for a minute.</p>", text);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	html_printf(&a->form[1], ",\"as_of\":\"%s\"", text);
}

void cached_fail(struct web_cache_answer *a, const char *text)
{
	a->keep_ms = CACHED_FAILED_MS;
	html_printf(&a->form[0], "<p class=\"trouble\">%s</p>", text);
	html_printf(&a->form[1], ",\"error\":%.s", text);
}

int cached_page(struct web_request *r, const char *hint)
{
	struct buf *b = &r->reply.body;

	page_begin(r, NULL, r->route->title);
	if (!r->json)
		html_printf(b, "<p class=\"hint\">%-s</p>", hint);
	page_live(r, "kept");
	if (r->cached.len > 0) {
		buf_add(b, r->cached.p, r->cached.len);
	} else if (r->json) {
		reply_header(&r->reply, "Retry-After", AGAIN_S);
		r->reply.status = 202;
		html_raw(b, ",\"under_way\":true");
	} else {
		reply_header(&r->reply, "Refresh", AGAIN_S);
		html_raw(b,
			 "<p class=\"empty\" role=\"status\">This is being computed. The page updates by itself.</p>");
	}
	page_live_end(r);
	page_end(r);
	return 0;
}
