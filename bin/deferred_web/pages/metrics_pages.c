/* SPDX-License-Identifier: MIT */
/* The figures of `deferred metrics` for Prometheus, read once for all who ask within some seconds. */
#include "pages.h"

#include "base/log.h"
#include "cached.h"
#include "program/exposition.h"
#include "program/metrics.h"

#include <stdlib.h>

#define KEY "metrics"
#define KEEP_MS 5000
#define WAIT_MS 5000 /* how long one waits for what another reads */

static bool wants_open(const struct web_request *r)
{
	return exposition_wants_open(request_value(&r->http, "accept"));
}

static bool get_metrics(struct web_request *r)
{
	return web_cache_get(r->web->cache, KEY, wants_open(r), WAIT_MS, &r->cached) == WEB_CACHE_MAKE;
}

void pages_before_metrics(struct web_request *r)
{
	struct web_cache_answer a = { .claimed = true };
	struct deferred_error err = { 0 };
	char *text, *open;

	if (!cached_may_see(r) || !get_metrics(r))
		return;
	if (metrics_text(r->pg, &text, &open, &err) < 0) {
		log_error(LOG_L_WARNING, &err, "web: no metrics");
	} else {
		a.keep_ms = KEEP_MS;
		buf_text(&a.form[false], text);
		buf_text(&a.form[true], open);
		buf_text(&r->cached, wants_open(r) ? open : text);
		free(text);
		free(open);
	}
	web_cache_put(r->web->cache, KEY, &a);
}

/* Not a page. */
int pages_metrics(struct web_request *r, struct deferred_error *err)
{
	(void)err;
	r->reply.content_type = wants_open(r) ? EXPOSITION_TYPE_OPEN : EXPOSITION_TYPE;
	if (r->cached.len > 0)
		buf_add(&r->reply.body, r->cached.p, r->cached.len);
	else
		page_refuse(r, 503, "The figures are not available now.");
	return 0;
}
