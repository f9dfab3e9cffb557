/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Done or refused, it was written down; the answer leads back to where it was asked for. */
static int act(struct visit *v, const char *verb, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int64_t job = v->name ? 0 : v->number;
	struct buf to = { 0 };
	int rc = store_web_act(v->pg, verb, job, v->name, v->user[0] ? v->user : v->me.role, v->address[0] ? v->address : NULL, &res, err);

	if (rc == 0 && v->json) {
		page_begin(v, NULL, "");
		html_raw(&v->reply.body, ",\"refused\":");
		html_json(&v->reply.body, pg_null(res, 0, 0) ? NULL : pg_text(res, 0, 0, NULL));
		page_end(v);
	} else if (rc == 0) {
		if (v->name) {
			html_raw(&to, "/queues/");
			html_url(&to, v->name);
		} else {
			buf_printf(&to, "/jobs/%" PRId64, job);
		}
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
	return act(v, "retry", err);
}

int action_run(struct visit *v, struct deferred_error *err)
{
	return act(v, "run", err);
}

int action_cancel(struct visit *v, struct deferred_error *err)
{
	return act(v, "cancel", err);
}

int action_pause(struct visit *v, struct deferred_error *err)
{
	return act(v, "pause", err);
}

int action_resume(struct visit *v, struct deferred_error *err)
{
	return act(v, "resume", err);
}

/* Told by words of ours alone: an address with other words in it says nothing. */
void action_said(struct visit *v)
{
	static const char *const said[][2] = {
		{ "retry", "It will be run again, with all its attempts." }, { "run", "It is ready now." }, { "cancel", "It was cancelled." },
		{ "pause", "The queue is paused: what runs is finished, nothing more is begun." }, { "resume", "The queue goes on." },
	};
	const char *done = pages_text(v, "done"), *refused = pages_text(v, "refused");

	if (v->json)
		return;
	html_raw(&v->reply.body, "<div role=\"status\">");
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		if (done && strcmp(done, said[i][0]) == 0) {
			html_raw(&v->reply.body, "<p class=\"done\">");
			html_text(&v->reply.body, said[i][1]);
			html_raw(&v->reply.body, "</p>");
		} else if (refused && strcmp(refused, said[i][0]) == 0) {
			html_raw(&v->reply.body, "<p class=\"trouble\">That was refused. Why stands below, among the actions.</p>");
		}
	}
	html_raw(&v->reply.body, "</div>");
}
