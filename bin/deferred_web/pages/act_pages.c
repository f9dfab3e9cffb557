/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "rows/web.h"

#include <string.h>

/* The path names a job, a flow, a queue, a function or a schedule. */
static struct pages_target target_of(const struct web_request *r)
{
	return (struct pages_target){
		.job = page_is_below(r, "/jobs/") ? r->number : 0,
		.flow = page_is_below(r, "/flow/") ? r->number : 0,
		.queue = page_is_below(r, "/queues/") ? r->name : NULL,
		.fn = page_is_below(r, "/functions/") ? r->name : NULL,
		.schedule = page_is_below(r, "/recurring/") ? r->name : NULL,
	};
}

/* refused NULL: it was done. */
static void act_answer(struct web_request *r, const char *verb, const char *refused)
{
	if (!r->json) {
		page_redirect_back(r, verb, refused);
		return;
	}
	page_begin(r, NULL, "");
	html_printf(&r->reply.body, ",\"refused\":%.s", refused);
	page_end(r);
}

/* The database records the action, done or refused. The answer leads back to the page of the object. */
int pages_act(struct web_request *r, const char *verb, const char *settings, struct deferred_error *err)
{
	const struct pages_target target = target_of(r);
	struct pg_result *res = NULL;
	int rc = web_act_exec(r->pg, verb, pages_optional(&target.job), target.queue, page_actor(r), page_address(r),
			      target.fn, target.schedule, settings, &res, err);

	if (rc == 0)
		act_answer(r, verb, web_act_row(res, 0).refused);
	pg_result_free(res);
	return rc;
}

int pages_act_event(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = web_act_event_exec(r->pg, r->number, page_field(r, "event"), page_field(r, "payload"), page_actor(r),
				    page_address(r), &res, err);

	if (rc == 0)
		act_answer(r, "send", web_act_event_row(res, 0).refused);
	pg_result_free(res);
	return rc;
}

int pages_act_retry(struct web_request *r, struct deferred_error *err)
{
	return pages_act(r, "retry", NULL, err);
}

int pages_act_run(struct web_request *r, struct deferred_error *err)
{
	return pages_act(r, "run", NULL, err);
}

int pages_act_cancel(struct web_request *r, struct deferred_error *err)
{
	return pages_act(r, "cancel", NULL, err);
}

int pages_act_pause(struct web_request *r, struct deferred_error *err)
{
	return pages_act(r, "pause", NULL, err);
}

int pages_act_resume(struct web_request *r, struct deferred_error *err)
{
	return pages_act(r, "resume", NULL, err);
}

/* Why the newest such action of the visitor on this object was refused. An address may not say that itself. */
static void show_refused(struct web_request *r, const char *verb)
{
	const struct pages_target target = target_of(r);
	struct deferred_error ignored = { 0 };
	struct pg_result *res = NULL;

	if (pages_actions_read(r, &target, 0, &res, &ignored) < 0)
		return;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct web_actions_row action = web_actions_row(res, i);

		if (strcmp(action.verb, verb) != 0 || strcmp(action.who, page_actor(r)) != 0)
			continue;
		if (action.refused)
			html_printf(&r->reply.body, " <bdi>%s</bdi>", action.refused);
		break;
	}
	pg_result_free(res);
}

/* An address with other words shows nothing. */
void pages_outcome(struct web_request *r)
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
		{ "/", "send", "The event is sent." },
		{ "/", "defer", "The job is deferred." },
		{ "/jobs/", "update", "The job was changed." },
		{ "/", "pause", "The queue is paused. Running jobs finish, and workers start no others." },
		{ "/", "resume", "The queue is active again." },
		{ "/", "set", "The settings are saved." },
		{ "/", "nothing", "No setting was changed." },
	};
	const char *done = page_query(r, "done"), *refused = page_query(r, "refused");

	if (r->json)
		return;
	html_raw(&r->reply.body, "<div role=\"status\">");
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		if (!page_is_below(r, said[i].place) || strcmp(done ? done : refused ? refused : "", said[i].verb) != 0)
			continue;
		html_printf(&r->reply.body, "<p class=\"%s\">%s", done ? "done" : "trouble",
			    done ? said[i].text : "That was refused.");
		if (!done)
			show_refused(r, refused);
		html_raw(&r->reply.body, "</p>");
		break;
	}
	html_raw(&r->reply.body, "</div>");
}
