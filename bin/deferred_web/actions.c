/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MARK_MS 500

static bool is_below(const struct visit *v, const char *place)
{
	return strncmp(v->route->path, place, strlen(place)) == 0;
}

/* Where the page is that an action was asked for on. */
static void place(struct visit *v, struct buf *to)
{
	if (!v->name) {
		buf_text(to, is_below(v, "/flow/") ? "/flow/" : "/jobs/");
		buf_printf(to, "%" PRId64, v->number);
		return;
	}
	buf_text(to, is_below(v, "/queues/") ? "/queues/" : is_below(v, "/functions/") ? "/functions/" : "/recurring/");
	html_url(to, v->name);
}

void action_leads_back(struct visit *v, const char *verb, bool refused)
{
	struct buf to = { 0 };

	place(v, &to);
	buf_text(&to, refused ? "?refused=" : "?done=");
	html_url(&to, verb);
	v->reply.status = 303;
	reply_header(&v->reply, "Location", arena_copy(&v->arena, to.p ? to.p : "/", to.p ? to.len : 1));
	buf_clear(&to);
}

/* The address names a job, a flow, a queue, a function or a schedule. */
static struct store_web_target target_of(const struct visit *v)
{
	return (struct store_web_target){
		.job = is_below(v, "/jobs/") ? v->number : 0,
		.flow = is_below(v, "/flow/") ? v->number : 0,
		.queue = is_below(v, "/queues/") ? v->name : NULL,
		.fn = is_below(v, "/functions/") ? v->name : NULL,
		.schedule = is_below(v, "/recurring/") ? v->name : NULL,
	};
}

/* Done or refused, it was written down; the answer leads back to where it was asked for. */
static int act(struct visit *v, const char *verb, const char *settings, struct deferred_error *err)
{
	const struct store_web_target target = target_of(v);
	struct pg_result *res = NULL;
	int rc = store_web_act(v->pg, verb, &target, settings, visit_who(v), visit_address(v), &res, err);

	if (rc == 0 && v->json) {
		page_begin(v, NULL, "");
		html_raw(&v->reply.body, ",\"refused\":");
		html_json(&v->reply.body, pg_null(res, 0, 0) ? NULL : pg_text(res, 0, 0, NULL));
		page_end(v);
	} else if (rc == 0) {
		action_leads_back(v, verb, !pg_null(res, 0, 0));
	}
	pg_result_free(res);
	return rc;
}

int action_retry(struct visit *v, struct deferred_error *err)
{
	return act(v, "retry", NULL, err);
}

int action_run(struct visit *v, struct deferred_error *err)
{
	return act(v, "run", NULL, err);
}

int action_cancel(struct visit *v, struct deferred_error *err)
{
	return act(v, "cancel", NULL, err);
}

int action_pause(struct visit *v, struct deferred_error *err)
{
	return act(v, "pause", NULL, err);
}

int action_resume(struct visit *v, struct deferred_error *err)
{
	return act(v, "resume", NULL, err);
}

int action_set(struct visit *v, struct deferred_error *err)
{
	const char *settings = settings_said(v, is_below(v, "/queues/"));

	if (*settings)
		return act(v, "set", settings, err);
	action_leads_back(v, "nothing", false);
	return 0;
}

void after_set(struct visit *v)
{
	struct deferred_error ignored = { 0 };

	store_web_mark(v->pg, MARK_MS, &ignored);
}

/* Why the visitor's newest action of that kind here was refused. An address cannot say so for itself. */
static void say_refused(struct visit *v, const char *verb)
{
	const struct store_web_target target = target_of(v);
	struct deferred_error ignored = { 0 };
	struct pg_result *res = NULL;
	size_t row = 0, n;

	if (store_web_actions(v->pg, &target, 0, pages_hides(v), &res, &ignored) < 0)
		return;
	n = pg_rows(res);
	while (row < n &&
	       (strcmp(pg_text(res, row, 6, NULL), verb) != 0 || strcmp(pg_text(res, row, 3, NULL), visit_who(v)) != 0))
		row++;
	if (row < n && !pg_null(res, row, 9)) {
		html_raw(&v->reply.body, " <bdi>");
		html_text(&v->reply.body, pg_text(res, row, 9, NULL));
		html_raw(&v->reply.body, "</bdi>");
	}
	pg_result_free(res);
}

/* Told by words of ours alone: an address with other words in it says nothing. */
void action_said(struct visit *v)
{
	static const struct {
		const char *place, *verb, *text;
	} said[] = {
		/* the first that fits */
		{ "/recurring/", "pause", "The schedule is paused." },
		{ "/recurring/", "resume", "The schedule is active again, from now on." },
		{ "/recurring/", "run", "One job was deferred." },
		{ "/recurring/", "set", "The schedule is saved." },
		{ "/flow/", "retry",
		  "The flow will run again: its failed jobs, with all their attempts, and the jobs that were skipped "
		  "because of them." },
		{ "/flow/", "cancel", "All jobs that had not ended were cancelled." },
		{ "/", "retry", "The job will run again, with all its attempts." },
		{ "/", "run", "The job is ready now." },
		{ "/", "cancel", "The job was cancelled." },
		{ "/", "defer", "The job is deferred." },
		{ "/", "pause", "The queue is paused. Running jobs finish, and workers start no others." },
		{ "/", "resume", "The queue is active again." },
		{ "/", "set", "The settings are saved." },
		{ "/", "nothing", "No setting was changed." },
	};
	const char *done = pages_text(v, "done"), *refused = pages_text(v, "refused");

	if (v->json)
		return;
	html_raw(&v->reply.body, "<div role=\"status\">");
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		if (!is_below(v, said[i].place) || strcmp(done ? done : refused ? refused : "", said[i].verb) != 0)
			continue;
		buf_text(&v->reply.body, done ? "<p class=\"done\">" : "<p class=\"trouble\">");
		html_text(&v->reply.body, done ? said[i].text : "That was refused.");
		if (!done)
			say_refused(v, refused);
		html_raw(&v->reply.body, "</p>");
		break;
	}
	html_raw(&v->reply.body, "</div>");
}
