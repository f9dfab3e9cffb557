/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "page/chart.h"
#include "rows/admin.h"
#include "rows/web.h"

#include <inttypes.h>

#define DEAD_MAX 300    /* ends without success that are looked at */
#define NO_WORKER_S 600 /* a ready job that waits for longer, and no worker, is a problem */

struct sums {
	int64_t ready, running, delayed, oldest_s; /* oldest_s < 0: none */
	bool more, delayed_more;
};

static struct sums sum_queues(const struct pg_result *queues)
{
	struct sums sums = { .oldest_s = -1 };

	for (size_t i = 0; i < pg_rows(queues); i++) {
		struct admin_status_queues_row q = admin_status_queues_row(queues, i);

		sums.ready += q.ready;
		sums.running += q.claimed;
		sums.delayed += q.delayed;
		sums.more |= q.ready_more;
		sums.delayed_more |= q.delayed_more;
		if (q.has_oldest_ready_s && !q.paused && q.oldest_ready_s > sums.oldest_s)
			sums.oldest_s = q.oldest_ready_s;
	}
	return sums;
}

static void show_tiles(struct web_request *r, const struct sums *s, const struct web_dead_hour_row *dead,
		       int64_t workers)
{
	const struct {
		const char *key, *name, *place;
		int64_t n;
		bool more, bad;
	} tiles[] = {
		{ "ready", "Ready", "/jobs?state=ready", s->ready, s->more, false },
		{ "running", "Running", "/running", s->running, false, false },
		{ "delayed", "Delayed", "/jobs?state=delayed", s->delayed, s->delayed_more, false },
		{ "dead_last_hour", "Dead in the last hour", "/dead", dead->dead, dead->more, dead->dead > 0 },
		{ "workers", "Workers alive", "/workers", workers, false,
		  s->ready > 0 && workers == 0 && s->oldest_s > NO_WORKER_S },
	};
	struct buf *b = &r->reply.body;

	html_printf(b, "%-s", r->json ? "" : "<ul class=\"tiles\">");
	for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++)
		if (r->json)
			html_printf(b, ",\"%s\":%" PRId64, tiles[i].key, tiles[i].n);
		else
			html_printf(b, "<li%-s><a href=\"%s\"><b>%" PRId64 "%s</b> <span>%s</span></a></li>",
				    tiles[i].bad ? " class=\"bad\"" : "", tiles[i].place, tiles[i].n,
				    tiles[i].more ? "+" : "", tiles[i].name);
	html_printf(b, "%-s", r->json ? ",\"oldest_ready_s\":" : "<li><b>");
	if (s->oldest_s < 0)
		html_printf(b, "%s", r->json ? "null" : "\xe2\x80\x93");
	else if (r->json)
		html_printf(b, "%" PRId64, s->oldest_s);
	else
		page_span_s(b, s->oldest_s);
	html_printf(b, "%-s", r->json ? "" : "</b> <span>Oldest ready</span></li></ul>");
}

int pages_overview(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *queues = NULL, *status = NULL;
	struct web_dead_hour_row dead;
	struct sums sums;
	int rc;

	if (!chart_is_asked(r))
		return 0;
	rc = pages_queues_read(r, &queues, err);
	if (rc == 0)
		rc = web_dead_hour_one(r->pg, DEAD_MAX, &dead, err);
	if (rc == 0)
		rc = admin_status_exec(r->pg, &status, err);
	if (rc == 0) {
		sums = sum_queues(queues);
		page_begin(r, NULL, "Overview");
		page_live(r, "now");
		pages_why(r);
		show_tiles(r, &sums, &dead, admin_status_row(status, 0).workers);
		if (!r->json)
			html_raw(&r->reply.body, "<h2>Queues</h2>");
		pages_queues_table(r, queues);
		rc = chart_figures(r, NULL, NULL, err);
		page_live_end(r);
		page_end(r);
	}
	pg_result_free(status);
	pg_result_free(queues);
	return rc;
}
