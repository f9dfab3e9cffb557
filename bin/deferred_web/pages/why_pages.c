/* SPDX-License-Identifier: MIT */
/* Why jobs wait: read before the transaction of the page, and shown as boxes at its top. */
#include "pages.h"

#include "base/cause.h"
#include "base/clock.h"
#include "store/figures.h"
#include "store/why.h"

#include <string.h>

#define SHOWN 3 /* causes; of the others those that call for action */
/* Where many attempts end, folding takes long, and the processors belong to those who run jobs. Then pages fold for at
 * most one part in FOLD_SHARE of the time. Charts say up to when they count. */
#define FOLD_LONG_NS (50 * NS_PER_MS)
#define FOLD_SHARE 100

static struct cause *causes_of(struct web_request *r, const struct store_why *why, bool job, size_t *len)
{
	struct cause *causes = arena_alloc(&r->arena, CAUSES_MAX * sizeof(*causes));

	*len = job ? cause_of_job(&why->job, causes) : cause_of_backlog(&why->backlog, causes);
	return causes;
}

/* Removes texts of functions, and queries, which contain params. The function of a text is not known here. */
static void remove_texts(struct store_why *why)
{
	why->job.error = why->job.progress = why->job.rates.error = why->backlog.rates.error = NULL;
	why->job.table.holder.query = why->job.writer.query = why->job.holder.query = NULL;
	why->backlog.table.holder.query = why->backlog.snapshot.query = NULL;
}

/* Both forms are made, because the role of the visitor is not known yet. */
static void keep_causes(struct web_request *r, struct store_why *why, int rc, bool job)
{
	if (rc == 0) {
		r->causes = causes_of(r, why, job, &r->causes_len);
		if (r->web->hide_params && *r->web->hide_params) {
			remove_texts(why);
			r->bare = causes_of(r, why, job, &r->bare_len);
		}
		r->queues = why->queues;
		why->queues = NULL;
	}
	store_why_clear(why);
}

void pages_before_figures(struct web_request *r)
{
	struct deferred_error ignored = { 0 };
	uint64_t began = clock_ns(), took;

	if (began < r->web->fold_ns)
		return;
	store_fold(r->pg, STORE_FOLD_READ_MS, NULL, &ignored);
	took = clock_ns() - began;
	if (took > FOLD_LONG_NS)
		r->web->fold_ns = began + FOLD_SHARE * took;
}

/* All pages of a minute use what one of them has read. */
static void read_missed(struct web_request *r, struct store_why *why)
{
	struct web *web = r->web;
	struct store_why_missed kept;

	pthread_mutex_lock(&web->missed_lock);
	kept = web->missed;
	pthread_mutex_unlock(&web->missed_lock);
	store_why_missed(r->pg, &kept, why);
	pthread_mutex_lock(&web->missed_lock);
	if (kept.at_ns > web->missed.at_ns)
		web->missed = kept;
	pthread_mutex_unlock(&web->missed_lock);
}

void pages_before_backlog(struct web_request *r)
{
	struct deferred_error ignored = { 0 };
	struct store_why why;
	int rc;

	pages_before_figures(r);
	if ((rc = store_why_backlog(r->pg, NULL, &why, &ignored)) == 0)
		read_missed(r, &why);
	keep_causes(r, &why, rc, false);
}

void pages_before_queue(struct web_request *r)
{
	struct deferred_error ignored = { 0 };
	struct store_why why;

	pages_before_figures(r);
	keep_causes(r, &why, store_why_backlog(r->pg, r->name, &why, &ignored), false);
}

void pages_before_job(struct web_request *r)
{
	struct deferred_error ignored = { 0 };
	struct store_why why;

	keep_causes(r, &why, store_why_job(r->pg, r->number, &why, &ignored), true);
}

/* ---- on the page ------------------------------------------------------------------------------ */

struct cause_row {
	const char *cause, *level, *why, *figure, *remedy;
};

static void show_box(struct buf *b, const struct cause_row *c)
{
	html_printf(b, "<p class=\"why %s\"><bdi>%s</bdi>", c->level, c->why);
	if (*c->figure)
		html_printf(b, " \xc2\xb7 <span class=\"hint\"><bdi>%s</bdi></span>", c->figure);
	if (*c->remedy && strcmp(c->level, cause_level_word(CAUSE_HEALTHY)) != 0) {
		html_raw(b, "<br><span class=\"hint\">do: </span>");
		page_remedy(b, c->remedy);
	}
	html_raw(b, "</p>");
}

void pages_why(struct web_request *r)
{
	static const struct column columns[] = {
		{ offsetof(struct cause_row, cause), CELL_TEXT, "cause" },
		{ offsetof(struct cause_row, level), CELL_TEXT, "level" },
		{ offsetof(struct cause_row, why), CELL_TEXT, "why" },
		{ offsetof(struct cause_row, figure), CELL_TEXT, "figure" },
		{ offsetof(struct cause_row, remedy), CELL_TEXT, "do" },
	};
	static const struct part part = PART("why", NULL, NULL, columns);
	bool hides = r->bare && page_hides(r);
	const struct cause *causes = hides ? r->bare : r->causes;
	size_t n = hides ? r->bare_len : r->causes_len;
	struct cause_row rows[CAUSES_MAX];

	for (size_t i = 0; i < n; i++) {
		const struct cause *c = &causes[i];

		rows[i] = (struct cause_row){ cause_word(c->kind), cause_level_word(c->level), c->why, c->figure,
					      c->remedy };
		if (!r->json && (i < SHOWN || c->level == CAUSE_ACT))
			show_box(&r->reply.body, &rows[i]);
	}
	if (r->json)
		part_write(r, &part, &(struct rows){ .list = rows, .n = n, .size = sizeof(rows[0]) });
}
