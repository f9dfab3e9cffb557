/* SPDX-License-Identifier: MIT */
/*
 * An action on all jobs of a search. A page counts them. Each press of its button is a step of 1,000 jobs, by a script
 * or by hand, until no job is left or somebody stops. The form of the next step has the place where the last one ended,
 * so the server stores nothing.
 */
#include "pages.h"

#include "base/clock.h"
#include "base/text/plural.h"
#include "rows/web.h"
#include "search.h"

#include <inttypes.h>
#include <string.h>

#define COUNT_MAX 10000
#define COUNT_MS 200 /* how long is counted: a page takes 300 ms at most */

static const char *const verbs[] = { "retry", "cancel" };

static bool is_retry(const char *verb)
{
	return strcmp(verb, verbs[0]) == 0;
}

/* Can jobs of that state be retried, or cancelled? NULL: all of a search. */
static bool is_for(const char *verb, const char *state)
{
	static const char *const retried[] = { "dead", "cancelled", "expired", "delayed" }, *const cancelled[] = {
		"ready", "delayed", "waiting", "claimed"
	};
	const char *const *states = is_retry(verb) ? retried : cancelled;

	for (size_t i = 0; state && i < 4; i++)
		if (strcmp(states[i], state) == 0)
			return true;
	return !state;
}

void pages_bulk_links(struct web_request *r, const struct search *s)
{
	struct buf *b = &r->reply.body;
	bool any = false;

	if (r->json || !page_may_act(r) || !search_has_index(s))
		return;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!is_for(verbs[i], s->filter.state))
			continue;
		html_printf(b, "%-s<a href=\"/jobs/all?",
			    any ? " \xc2\xb7 " : "<p class=\"pager\">All matching jobs: ");
		search_query(r, s, true);
		html_printf(b, "verb=%s\">%s</a>", verbs[i], verbs[i]);
		any = true;
	}
	html_raw(b, "</p>");
}

/* The search of the query, if all of its jobs can be walked over. False: it was refused, or *rc is a failure. */
static bool read_filter(struct web_request *r, struct search *s, const char *verb, int *rc, struct deferred_error *err)
{
	if (!search_read(r, s, rc, err))
		return false;
	if (s->id > 0 || s->too_many || !search_has_index(s)) {
		page_refuse(r, 400,
			    "Retry and cancel need a search by state, queue, function, time, or words such as "
			    "label:\"the whole label\", key:, tag:, rule: and by:.");
		return false;
	}
	s->filter.error = page_query(r, "error");
	if (!is_for(verb, s->filter.state) || (s->filter.error && !is_retry(verb))) {
		page_refuse(r, 400,
			    is_retry(verb) ? "Only jobs that are dead, cancelled, expired or delayed can be retried."
					   : "Only jobs that have not ended can be cancelled.");
		return false;
	}
	return true;
}

static int some_jobs(struct web_request *r, const struct search *s, const char *verb, const char *after, bool dry,
		     struct pg_result **res, struct deferred_error *err)
{
	const struct store_admin_filter *f = &s->filter;

	return web_act_some_exec(r->pg, verb, f->state, f->queue, f->fn, f->label, f->key, f->rule, f->by, f->since,
				 f->until, f->tags_len > 0 ? f->tags : NULL, f->tags_len, after, dry,
				 dry ? "" : page_actor(r), dry ? NULL : page_address(r), f->error, f->ended_since,
				 f->ended_until, res, err);
}

static void show_filter(struct web_request *r, const struct search *s)
{
	const struct store_admin_filter *f = &s->filter;
	const char *const facts[][2] = { { "State", f->state },
					 { "Queue", f->queue },
					 { "Function", f->fn },
					 { "Error (numbers as #)", f->error },
					 { "Label", f->label },
					 { "Key", f->key },
					 { "Rule", f->rule },
					 { "By", f->by },
					 { "Deferred since", f->since },
					 { "Until", f->until },
					 { "Ended since", f->ended_since },
					 { "Ended until", f->ended_until } };
	struct buf *b = &r->reply.body;

	html_raw(b, "<dl class=\"facts\">");
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		page_fact(r, facts[i][0], facts[i][1]);
	for (size_t i = 0; i < f->tags_len; i++)
		page_fact(r, "Tag", f->tags[i]);
	html_raw(b, "</dl>");
}

/* step: where the last step ended, so that a script sends the form; NULL: it is the first one. */
static void show_step_form(struct web_request *r, const struct search *s, const char *verb, const char *label,
			   const struct web_act_some_row *step)
{
	struct buf *b = &r->reply.body;

	html_printf(b, "<div class=\"acts\"><form class=\"act\" method=\"post\"%-s action=\"/jobs/all/%s?",
		    step ? " data-go" : "", verb);
	search_query(r, s, true);
	html_raw(b, "\">");
	page_token(r);
	if (step)
		html_printf(b,
			    "<input type=\"hidden\" name=\"at\" value=\"%s\">"
			    "<input type=\"hidden\" name=\"done\" value=\"%" PRId64 "\">"
			    "<input type=\"hidden\" name=\"refused\" value=\"%" PRId64 "\">",
			    step->after, step->done, step->refused);
	html_printf(b, "<button%-s>%s</button></form><a%-s href=\"", step ? "" : " class=\"careful\"", label,
		    step ? " class=\"stop\"" : "");
	if (s->filter.error) { /* the list does not search for it */
		html_raw(b, "/dead");
	} else {
		html_raw(b, "/jobs?");
		search_query(r, s, true);
	}
	html_printf(b, "\">%s</a></div>", step ? "Stop" : "Back to the list");
}

static void show_count(struct web_request *r, const struct search *s, const char *verb, int64_t n, bool more)
{
	const char *what = is_retry(verb) ? "Retry" : "Cancel";
	struct buf *b = &r->reply.body;

	page_begin(r, what, "all of these jobs");
	if (r->json) {
		html_printf(b, ",\"jobs\":%" PRId64 ",\"more\":%s", n, more ? "true" : "false");
	} else {
		show_filter(r, s);
		html_printf(b, "<p>%s%" PRId64 " job%s.%s</p>", more ? "More than " : "", n, plural(n),
			    is_retry(verb) ? " Each job runs again, with all its attempts."
					   : " Running attempts are terminated.");
		if (n > 0 || more)
			show_step_form(r, s, verb,
				       arena_printf(&r->arena, "%s %s", what,
						    more     ? "all of them"
						    : n == 1 ? "it"
							     : "them"),
				       NULL);
	}
	page_end(r);
}

int pages_bulk(struct web_request *r, struct deferred_error *err)
{
	const char *verb = page_query(r, "verb"), *after = NULL;
	uint64_t end_ns = clock_ns() + COUNT_MS * NS_PER_MS;
	struct pg_result *last = NULL, *res = NULL;
	struct search s = { 0 };
	int64_t n = 0;
	int rc;

	if (!page_may_act(r)) {
		page_refuse_act(r);
		return 0;
	}
	if (!verb || (strcmp(verb, verbs[0]) != 0 && strcmp(verb, verbs[1]) != 0)) {
		page_refuse(r, 400,
			    verb ? arena_printf(&r->arena,
						"The verb '%.200s' does not exist: use verb=retry or verb=cancel.",
						verb)
				 : "The verb is missing: use verb=retry or verb=cancel.");
		return 0;
	}
	if (!read_filter(r, &s, verb, &rc, err))
		return rc;
	do {
		rc = some_jobs(r, &s, verb, after, true, &res, err);
		pg_result_free(last);
		last = res;
		if (rc == 0) {
			n += web_act_some_row(res, 0).done;
			after = web_act_some_row(res, 0).after;
		}
	} while (rc == 0 && after && n < COUNT_MAX && clock_ns() < end_ns);
	if (rc == 0)
		show_count(r, &s, verb, n, after);
	pg_result_free(last);
	return rc;
}

static void show_step(struct web_request *r, const struct search *s, const char *verb,
		      const struct web_act_some_row *step)
{
	struct buf *b = &r->reply.body;
	int64_t done = step->done;

	page_begin(r, is_retry(verb) ? "Retry" : "Cancel", "all of these jobs");
	if (r->json) {
		html_printf(b, ",\"done\":%" PRId64 ",\"refused\":%" PRId64 ",\"why\":%.s,\"at\":%.s", done,
			    step->refused, step->why, step->after);
	} else {
		show_filter(r, s);
		html_printf(b, "<div role=\"status\"><p class=\"done\">%" PRId64 " job%s %s%s</p>", done, plural(done),
			    is_retry(verb) ? (done == 1 ? "is ready again" : "are ready again")
			    : done == 1    ? "was cancelled"
					   : "were cancelled",
			    step->after ? " so far." : ".");
		if (step->refused > 0)
			html_printf(b, "<p class=\"trouble\">%" PRId64 " %s refused.</p>", step->refused,
				    step->refused == 1 ? "was" : "were");
		if (step->why)
			html_printf(b, "<p class=\"hint\"><bdi>%s</bdi></p>", step->why);
		html_raw(b, "</div>");
		if (step->after)
			show_step_form(r, s, verb, "Continue", step);
		else
			html_raw(b, "<p><a href=\"/audit\">See the audit log.</a></p>");
	}
	page_end(r);
}

static int act_step(struct web_request *r, const char *verb, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct search s = { 0 };
	int rc;

	if (!read_filter(r, &s, verb, &rc, err))
		return rc;
	rc = some_jobs(r, &s, verb, page_field(r, "at"), false, &res, err);
	if (rc == 0) {
		struct web_act_some_row step = web_act_some_row(res, 0);

		step.done += page_field_number(r, "done");
		step.refused += page_field_number(r, "refused");
		show_step(r, &s, verb, &step);
	}
	pg_result_free(res);
	return rc;
}

int pages_act_retry_all(struct web_request *r, struct deferred_error *err)
{
	return act_step(r, "retry", err);
}

int pages_act_cancel_all(struct web_request *r, struct deferred_error *err)
{
	return act_step(r, "cancel", err);
}
