/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "base/cause.h"
#include "base/clock.h"
#include "store/figures.h"
#include "store/why.h"

#include <string.h>

#define TOLD 3 /* causes at most */
/* Where much ends it takes long, and who runs jobs has the processors: then a page brings figures up to now for one
 * part of so many of the time. It tells of when they are. */
#define FOLD_LONG_NS (50 * NS_PER_MS)
#define FOLD_SHARE 100

static void decide(struct visit *v, struct store_why *why, int rc, bool job)
{
	if (rc == 0) {
		v->causes = arena_alloc(&v->arena, CAUSES_MAX * sizeof(*v->causes));
		v->causes_len = job ? cause_of_job(&why->job, v->causes) : cause_of_backlog(&why->backlog, v->causes);
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

/* Errors stand behind a colon. Of what function one is is unknown here, so where some are hidden those who may not see
 * them see none. */
static const char *sentence(struct visit *v, const struct cause *c)
{
	const char *colon = strstr(c->why, ": ");
	bool has_error = c->kind == CAUSE_FAILING || c->kind == CAUSE_DELAYED || c->kind == CAUSE_ENDED;

	if (!colon || !has_error || v->me.operator|| !v->web->hide_params || !* v->web->hide_params)
		return c->why;
	return arena_copy(&v->arena, c->why, (size_t)(colon - c->why));
}

static const char *const levels[] = { [CAUSE_HEALTHY] = "healthy", [CAUSE_LOOK] = "look", [CAUSE_ACT] = "act" };

static void json(struct visit *v)
{
	struct buf *b = &v->reply.body;

	html_raw(b, ",\"why\":[");
	for (size_t i = 0; i < v->causes_len; i++) {
		html_text(b, i > 0 ? "," : "");
		html_raw(b, "{\"cause\":");
		html_json(b, cause_word(v->causes[i].kind));
		html_raw(b, ",\"level\":");
		html_json(b, levels[v->causes[i].level]);
		html_raw(b, ",\"why\":");
		html_json(b, sentence(v, &v->causes[i]));
		html_raw(b, ",\"figure\":");
		html_json(b, v->causes[i].figure);
		html_raw(b, ",\"do\":");
		html_json(b, v->causes[i].mend);
		html_raw(b, "}");
	}
	html_raw(b, "]");
}

/* A remedy that is a page of ours too leads there. */
static void remedy(struct buf *b, const char *mend)
{
	static const struct {
		const char *command, *link;
	} pages[] = { { "deferred advise", "<a href=\"/advice\">deferred advise</a>" },
		      { "deferred doctor", "<a href=\"/doctor\">deferred doctor</a>" } };
	const char *at;

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		if (!(at = strstr(mend, pages[i].command)))
			continue;
		html_text_n(b, mend, (size_t)(at - mend));
		buf_text(b, pages[i].link);
		mend = at + strlen(pages[i].command);
	}
	html_text(b, mend);
}

void why_told(struct visit *v)
{
	struct buf *b = &v->reply.body;

	if (v->json) {
		json(v);
		return;
	}
	for (size_t i = 0; i < v->causes_len && i < TOLD; i++) {
		html_raw(b, "<p class=\"why ");
		html_text(b, levels[v->causes[i].level]);
		html_raw(b, "\"><bdi>");
		html_text(b, sentence(v, &v->causes[i]));
		html_raw(b, "</bdi>");
		if (v->causes[i].figure[0]) {
			html_raw(b, " \xc2\xb7 <span class=\"hint\"><bdi>");
			html_text(b, v->causes[i].figure);
			html_raw(b, "</bdi></span>");
		}
		if (v->causes[i].mend[0] && v->causes[i].level != CAUSE_HEALTHY) {
			html_raw(b, "<br><span class=\"hint\">do: </span><code>");
			remedy(b, v->causes[i].mend);
			html_raw(b, "</code>");
		}
		html_raw(b, "</p>");
	}
}
