/* SPDX-License-Identifier: MIT */
/*
 * What is done to all jobs that fit a search: a page that counts them, then a step of 1,000 for each time its button is
 * pressed, by a script or by hand, until none is left or somebody stops. Where a step ended is in the form that leads
 * to the next one, so nothing has to be kept here.
 */
#include "pages.h"

#include "base/clock.h"
#include "base/text/plural.h"
#include "search.h"

#include <inttypes.h>
#include <string.h>

#define COUNT_MAX 10000
#define COUNT_MS 200 /* so long is counted: no page is to take longer than 300 */

static const char *const verbs[] = { "retry", "cancel" };

/* States that a verb is for. */
static bool is_for(const char *verb, const char *state)
{
	static const char *const retried[] = { "dead", "cancelled", "expired", "delayed" }, *const cancelled[] = {
		"ready", "delayed", "waiting", "claimed"
	};
	const char *const *states = strcmp(verb, "retry") == 0 ? retried : cancelled;

	for (size_t i = 0; state && i < 4; i++)
		if (strcmp(states[i], state) == 0)
			return true;
	return !state;
}

void bulk_links(struct visit *v, const struct search *s)
{
	struct buf *b = &v->reply.body;

	if (v->json || !visit_may_act(v) || !search_has_index(s))
		return;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!is_for(verbs[i], s->filter.state))
			continue;
		buf_text(b, i == 0 || !is_for(verbs[0], s->filter.state)
				    ? "<p class=\"pager\">All matching jobs: <a href=\"/jobs/all?"
				    : " \xc2\xb7 <a href=\"/jobs/all?");
		search_query(v, s, true);
		buf_printf(b, "verb=%s\">%s</a>", verbs[i], i == 0 ? "retry" : "cancel");
	}
	html_raw(b, "</p>");
}

/* What was searched for is what can be walked over; else it was refused. */
static bool read_filter(struct visit *v, struct search *s, const char *verb, int *rc, struct deferred_error *err)
{
	*rc = search_read(v, s, err);
	if (*rc < 0)
		return false;
	if (s->id > 0 || s->too_many || !search_has_index(s)) {
		visit_refuse(v, 400,
			     "Retry and cancel need a search by state, queue, function, time, or words such as "
			     "label:\"the whole label\", key:, tag:, rule: and by:.");
		return false;
	}
	s->filter.error = pages_text(v, "error");
	if (!is_for(verb, s->filter.state) || (s->filter.error && strcmp(verb, "retry") != 0)) {
		visit_refuse(v, 400,
			     strcmp(verb, "retry") == 0
				     ? "Only jobs that are dead, cancelled, expired or delayed can be retried."
				     : "Only jobs that have not ended can be cancelled.");
		return false;
	}
	return true;
}

static void facts(struct visit *v, const struct search *s)
{
	const struct store_admin_filter *f = &s->filter;
	struct buf *b = &v->reply.body;

	html_raw(b, "<dl class=\"facts\">");
	page_fact(v, "State", f->state);
	page_fact(v, "Queue", f->queue);
	page_fact(v, "Function", f->fn);
	page_fact(v, "Error (numbers as #)", f->error);
	page_fact(v, "Label", f->label);
	page_fact(v, "Key", f->key);
	page_fact(v, "Rule", f->rule);
	page_fact(v, "By", f->by);
	page_fact(v, "Deferred since", f->since);
	page_fact(v, "Until", f->until);
	for (size_t i = 0; i < f->tags_len; i++)
		page_fact(v, "Tag", f->tags[i]);
	html_raw(b, "</dl>");
}

/* at: where the step begins, NULL: at the beginning. goes_on: a script presses it. */
static void step_form(struct visit *v, const struct search *s, const char *verb, const char *label, const char *at,
		      int64_t done, int64_t refused)
{
	struct buf *b = &v->reply.body;

	buf_text(b, at ? "<div class=\"acts\"><form class=\"act\" method=\"post\" data-go action=\"/jobs/all/"
		       : "<div class=\"acts\"><form class=\"act\" method=\"post\" action=\"/jobs/all/");
	html_text(b, verb);
	html_raw(b, "?");
	search_query(v, s, true);
	html_raw(b, "\">");
	page_token(v);
	if (at) {
		html_raw(b, "<input type=\"hidden\" name=\"at\" value=\"");
		html_text(b, at);
		buf_printf(b,
			   "\"><input type=\"hidden\" name=\"done\" value=\"%" PRId64
			   "\"><input type=\"hidden\" name=\"refused\" value=\"%" PRId64 "\">",
			   done, refused);
	}
	buf_text(b, at ? "<button>" : "<button class=\"careful\">");
	html_text(b, label);
	html_raw(b, "</button></form>");
	buf_text(b, at ? "<a class=\"stop\" href=\"" : "<a href=\"");
	if (s->filter.error) { /* which the list does not search for */
		html_raw(b, "/dead");
	} else {
		html_raw(b, "/jobs?");
		search_query(v, s, true);
	}
	buf_text(b, at ? "\">Stop</a></div>" : "\">Back to the list</a></div>");
}

int page_bulk(struct visit *v, struct deferred_error *err)
{
	const char *verb = pages_text(v, "verb");
	uint64_t end_ns = clock_ns() + COUNT_MS * NS_PER_MS;
	struct pg_result *last = NULL, *res = NULL;
	struct search s = { 0 };
	int64_t n = 0;
	int rc;

	if (!visit_may_act(v)) {
		visit_refuse_act(v);
		return 0;
	}
	if (!verb || (strcmp(verb, verbs[0]) != 0 && strcmp(verb, verbs[1]) != 0)) {
		visit_refuse(v, 400, "The verb is missing: use verb=retry or verb=cancel.");
		return 0;
	}
	if (!read_filter(v, &s, verb, &rc, err))
		return rc;
	do {
		rc = store_web_act_some(v->pg, verb, &s.filter, last ? pg_text(last, 0, 3, NULL) : NULL, true, "", NULL,
					&res, err);
		pg_result_free(last);
		last = res;
		n += rc == 0 ? pg_int(res, 0, 0) : 0;
	} while (rc == 0 && !pg_null(res, 0, 3) && n < COUNT_MAX && clock_ns() < end_ns);
	if (rc == 0) {
		bool more = !pg_null(res, 0, 3);
		const char *what = strcmp(verb, "retry") == 0 ? "Retry" : "Cancel";

		page_begin(v, what, "all of these jobs");
		if (v->json) {
			buf_printf(&v->reply.body, ",\"jobs\":%" PRId64 ",\"more\":%s", n, more ? "true" : "false");
		} else {
			facts(v, &s);
			buf_printf(&v->reply.body, "<p>%s%" PRId64 " job%s.", more ? "More than " : "", n, plural(n));
			buf_text(&v->reply.body, strcmp(verb, "retry") == 0
							 ? " Each job runs again, with all its attempts.</p>"
							 : " Running attempts are terminated.</p>");
			if (n > 0 || more)
				step_form(v, &s, verb,
					  arena_printf(&v->arena, "%s %s", what,
						       more     ? "all of them"
						       : n == 1 ? "it"
								: "them"),
					  NULL, 0, 0);
		}
		page_end(v);
	}
	pg_result_free(last);
	return rc;
}

static int step(struct visit *v, const char *verb, struct deferred_error *err)
{
	int64_t done = pages_field_number(v, "done"), refused = pages_field_number(v, "refused");
	struct buf *b = &v->reply.body;
	struct pg_result *res = NULL;
	struct search s = { 0 };
	int rc;

	if (!read_filter(v, &s, verb, &rc, err))
		return rc;
	rc = store_web_act_some(v->pg, verb, &s.filter, pages_field(v, "at"), false, visit_who(v), visit_address(v),
				&res, err);
	if (rc == 0) {
		const char *at = pg_null(res, 0, 3) ? NULL : pg_text(res, 0, 3, NULL);

		done += pg_int(res, 0, 0);
		refused += pg_int(res, 0, 1);
		page_begin(v, strcmp(verb, "retry") == 0 ? "Retry" : "Cancel", "all of these jobs");
		if (v->json) {
			buf_printf(b, ",\"done\":%" PRId64 ",\"refused\":%" PRId64 ",\"why\":", done, refused);
			html_json(b, pg_null(res, 0, 2) ? NULL : pg_text(res, 0, 2, NULL));
			html_raw(b, ",\"at\":");
			html_json(b, at);
		} else {
			facts(v, &s);
			buf_printf(b, "<div role=\"status\"><p class=\"done\">%" PRId64 " job%s %s%s</p>", done,
				   plural(done),
				   strcmp(verb, "retry") == 0 ? (done == 1 ? "is ready again" : "are ready again")
				   : done == 1                ? "was cancelled"
							      : "were cancelled",
				   at ? " so far." : ".");
			if (refused > 0)
				buf_printf(b, "<p class=\"trouble\">%" PRId64 " %s refused.</p>", refused,
					   refused == 1 ? "was" : "were");
			if (!pg_null(res, 0, 2)) {
				html_raw(b, "<p class=\"hint\"><bdi>");
				html_text(b, pg_text(res, 0, 2, NULL));
				html_raw(b, "</bdi></p>");
			}
			html_raw(b, "</div>");
			if (at)
				step_form(v, &s, verb, "Continue", at, done, refused);
			else
				html_raw(b, "<p><a href=\"/audit\">See the audit log.</a></p>");
		}
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

int action_retry_all(struct visit *v, struct deferred_error *err)
{
	return step(v, "retry", err);
}

int action_cancel_all(struct visit *v, struct deferred_error *err)
{
	return step(v, "cancel", err);
}
