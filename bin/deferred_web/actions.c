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
		buf_printf(to, "/jobs/%" PRId64, v->number);
		return;
	}
	buf_text(to, is_below(v, "/queues/") ? "/queues/" : is_below(v, "/functions/") ? "/functions/" : "/recurring/");
	html_url(to, v->name);
}

/* Done or refused, it was written down; the answer leads back to where it was asked for. */
static int act(struct visit *v, const char *verb, const char *settings, struct deferred_error *err)
{
	const struct store_web_target target = {
		.job = v->name ? 0 : v->number, .queue = is_below(v, "/queues/") ? v->name : NULL, .fn = is_below(v, "/functions/") ? v->name : NULL,
		.schedule = is_below(v, "/recurring/") ? v->name : NULL,
	};
	struct pg_result *res = NULL;
	struct buf to = { 0 };
	int rc = store_web_act(v->pg, verb, &target, settings, v->user[0] ? v->user : v->me.role, v->address[0] ? v->address : NULL, &res, err);

	if (rc == 0 && v->json) {
		page_begin(v, NULL, "");
		html_raw(&v->reply.body, ",\"refused\":");
		html_json(&v->reply.body, pg_null(res, 0, 0) ? NULL : pg_text(res, 0, 0, NULL));
		page_end(v);
	} else if (rc == 0) {
		place(v, &to);
		if (pg_null(res, 0, 0)) {
			html_raw(&to, "?done=");
			html_url(&to, verb);
		} else {
			html_raw(&to, "?refused=");
			html_url(&to, verb);
		}
		v->reply.status = 303;
		reply_header(&v->reply, "Location", arena_copy(&v->arena, to.p ? to.p : "/", to.p ? to.len : 1));
		buf_clear(&to);
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
	struct buf to = { 0 };

	if (*settings)
		return act(v, "set", settings, err);
	place(v, &to);
	html_raw(&to, "?done=nothing");
	v->reply.status = 303;
	reply_header(&v->reply, "Location", arena_copy(&v->arena, to.p ? to.p : "/", to.p ? to.len : 1));
	buf_clear(&to);
	return 0;
}

void after_set(struct visit *v)
{
	struct deferred_error ignored = { 0 };

	store_web_mark(v->pg, MARK_MS, &ignored);
}

/* Told by words of ours alone: an address with other words in it says nothing. */
void action_said(struct visit *v)
{
	static const char *const said[][2] = {
		{ "retry", "It will be run again, with all its attempts." }, { "run", "It is ready now." }, { "cancel", "It was cancelled." },
		{ "pause", "The queue is paused: what runs is finished, nothing more is begun." }, { "resume", "The queue goes on." },
		{ "set", "That is set." }, { "nothing", "Nothing was another than before." },
	};
	static const char *const of_schedule[] = { "pause", "It is paused: no job comes of it.", "resume", "It goes on, from now.", "run", "One job was deferred." };
	const char *done = pages_text(v, "done"), *refused = pages_text(v, "refused");

	if (v->json)
		return;
	html_raw(&v->reply.body, "<div role=\"status\">");
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		if (done && strcmp(done, said[i][0]) == 0) {
			const char *text = said[i][1];

			for (size_t s = 0; is_below(v, "/recurring/") && s < sizeof(of_schedule) / sizeof(of_schedule[0]); s += 2)
				if (strcmp(done, of_schedule[s]) == 0)
					text = of_schedule[s + 1];
			html_raw(&v->reply.body, "<p class=\"done\">");
			html_text(&v->reply.body, text);
			html_raw(&v->reply.body, "</p>");
		} else if (refused && strcmp(refused, said[i][0]) == 0) {
			html_raw(&v->reply.body, "<p class=\"trouble\">That was refused. Why stands below, among the actions.</p>");
		}
	}
	html_raw(&v->reply.body, "</div>");
}
