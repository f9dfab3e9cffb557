/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "base/cause.h"
#include "base/clock.h"
#include "store/figures.h"
#include "store/why.h"

#include <string.h>

#define TOLD 3 /* causes, and beyond them those that call for action */
/* Where much ends it takes long, and who runs jobs has the processors: then a page brings figures up to now for one
 * part of so many of the time. It tells of when they are. */
#define FOLD_LONG_NS (50 * NS_PER_MS)
#define FOLD_SHARE 100

static struct cause *causes_of(struct visit *v, const struct store_why *why, bool job, size_t *len)
{
	struct cause *causes = arena_alloc(&v->arena, CAUSES_MAX * sizeof(*causes));

	*len = job ? cause_of_job(&why->job, causes) : cause_of_backlog(&why->backlog, causes);
	return causes;
}

/* Remove texts of functions, and queries, which contain params. The function of a text is not known here. */
static void strip(struct store_why *why)
{
	why->job.error = why->job.progress = why->job.rates.error = why->backlog.rates.error = NULL;
	why->job.table.holder.query = why->job.writer.query = why->job.holder.query = NULL;
	why->backlog.table.holder.query = why->backlog.snapshot.query = NULL;
}

/* The visitor's role is not known yet. */
static void decide(struct visit *v, struct store_why *why, int rc, bool job)
{
	if (rc == 0) {
		v->causes = causes_of(v, why, job, &v->causes_len);
		if (v->web->hide_params && *v->web->hide_params) {
			strip(why);
			v->bare = causes_of(v, why, job, &v->bare_len);
		}
		v->queues = why->queues;
		why->queues = NULL;
	}
	store_why_clear(why);
}

void before_figures(struct visit *v)
{
	struct deferred_error ignored = { 0 };
	uint64_t began = clock_ns(), took;

	if (began < v->web->fold_ns)
		return;
	store_fold(v->pg, STORE_FOLD_READ_MS, NULL, &ignored);
	took = clock_ns() - began;
	if (took > FOLD_LONG_NS)
		v->web->fold_ns = began + FOLD_SHARE * took;
}

/* What one page asked for is told by others of the same minute. */
static void missed(struct visit *v, struct store_why *why)
{
	struct web *web = v->web;
	struct store_why_missed kept;

	pthread_mutex_lock(&web->missed_lock);
	kept = web->missed;
	pthread_mutex_unlock(&web->missed_lock);
	store_why_missed(v->pg, &kept, why);
	pthread_mutex_lock(&web->missed_lock);
	if (kept.at_ns > web->missed.at_ns)
		web->missed = kept;
	pthread_mutex_unlock(&web->missed_lock);
}

void before_backlog(struct visit *v)
{
	struct deferred_error ignored = { 0 };
	struct store_why why;
	int rc;

	before_figures(v);
	if ((rc = store_why_backlog(v->pg, NULL, &why, &ignored)) == 0)
		missed(v, &why);
	decide(v, &why, rc, false);
}

void before_queue(struct visit *v)
{
	struct deferred_error ignored = { 0 };
	struct store_why why;

	before_figures(v);
	decide(v, &why, store_why_backlog(v->pg, v->name, &why, &ignored), false);
}

void before_job(struct visit *v)
{
	struct deferred_error ignored = { 0 };
	struct store_why why;

	decide(v, &why, store_why_job(v->pg, v->number, &why, &ignored), true);
}

static const char *const levels[] = { [CAUSE_HEALTHY] = "healthy", [CAUSE_LOOK] = "look", [CAUSE_ACT] = "act" };

static void json(struct buf *b, const struct cause *causes, size_t len)
{
	html_raw(b, ",\"why\":[");
	for (size_t i = 0; i < len; i++) {
		html_text(b, i > 0 ? "," : "");
		html_raw(b, "{\"cause\":");
		html_json(b, cause_word(causes[i].kind));
		html_raw(b, ",\"level\":");
		html_json(b, levels[causes[i].level]);
		html_raw(b, ",\"why\":");
		html_json(b, causes[i].why);
		html_raw(b, ",\"figure\":");
		html_json(b, causes[i].figure);
		html_raw(b, ",\"do\":");
		html_json(b, causes[i].mend);
		html_raw(b, "}");
	}
	html_raw(b, "]");
}

static void box(struct buf *b, const struct cause *c)
{
	html_raw(b, "<p class=\"why ");
	html_text(b, levels[c->level]);
	html_raw(b, "\"><bdi>");
	html_text(b, c->why);
	html_raw(b, "</bdi>");
	if (c->figure[0]) {
		html_raw(b, " \xc2\xb7 <span class=\"hint\"><bdi>");
		html_text(b, c->figure);
		html_raw(b, "</bdi></span>");
	}
	if (c->mend[0] && c->level != CAUSE_HEALTHY) {
		html_raw(b, "<br><span class=\"hint\">do: </span>");
		page_remedy(b, c->mend);
	}
	html_raw(b, "</p>");
}

void why_told(struct visit *v)
{
	bool hides = v->bare && pages_hides(v);
	const struct cause *causes = hides ? v->bare : v->causes;
	size_t len = hides ? v->bare_len : v->causes_len;

	if (v->json) {
		json(&v->reply.body, causes, len);
		return;
	}
	for (size_t i = 0; i < len; i++)
		if (i < TOLD || causes[i].level == CAUSE_ACT)
			box(&v->reply.body, &causes[i]);
}
