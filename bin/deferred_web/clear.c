/* SPDX-License-Identifier: MIT */
/* A queue is cleared: a page that asks for its name, then steps as those of bulk.c, from one id to the newest there was
 * when it began. */
#include "pages.h"

#include <inttypes.h>
#include <string.h>

/* at 0: nothing was done yet, and typed is what was written instead of the name; else where the next step begins, which
 * a script takes. */
static void form(struct visit *v, const char *typed, int64_t at, int64_t to, int64_t done)
{
	struct buf *b = &v->reply.body;

	buf_text(b, at ? "<div class=\"acts\"><form class=\"act\" method=\"post\" data-go action=\"/queues/"
		       : "<form class=\"search\" method=\"post\" action=\"/queues/");
	html_url(b, v->name);
	html_raw(b, "/clear/step\">");
	page_token(v);
	if (at) {
		html_raw(b, "<input type=\"hidden\" name=\"typed\" value=\"");
		html_text(b, v->name);
		buf_printf(b,
			   "\"><input type=\"hidden\" name=\"at\" value=\"%" PRId64
			   "\"><input type=\"hidden\" name=\"to\" value=\"%" PRId64 "\">",
			   at, to);
		buf_printf(b,
			   "<input type=\"hidden\" name=\"done\" value=\"%" PRId64
			   "\"><button>Continue</button></form><a class=\"stop\" href=\"/queues/",
			   done);
		html_url(b, v->name);
		html_raw(b, "\">Stop</a></div>");
		return;
	}
	html_raw(b, "<label>Type the name of the queue <input name=\"typed\" required autocomplete=\"off\" "
		    "autocapitalize=\"off\" spellcheck=\"false\" value=\"");
	html_field(b, typed);
	html_raw(b, "\"></label><button class=\"careful\">Clear the queue</button></form><p><a href=\"/queues/");
	html_url(b, v->name);
	html_raw(b, "\">Back to the queue</a></p>");
}

/* refused NULL: nothing was tried yet. */
static int ask(struct visit *v, const char *typed, const char *refused, struct deferred_error *err)
{
	struct pg_result *depth = NULL;
	int rc = store_web_rows(v->pg, WEB_QUEUES, STORE_WEB_COUNT, &depth, err);

	if (rc == 0) {
		page_begin(v, "Clear queue", v->name);
		queue_tiles(v, depth);
		if (v->json) {
			html_raw(&v->reply.body, ",\"refused\":");
			html_json(&v->reply.body, refused);
		} else {
			if (refused) {
				html_raw(&v->reply.body, "<p class=\"trouble\" role=\"alert\"><bdi>");
				html_text(&v->reply.body, refused);
				html_raw(&v->reply.body, "</bdi></p>");
			}
			html_raw(&v->reply.body,
				 "<p>This cancels all jobs and messages of the queue that are ready, delayed or "
				 "waiting. Running jobs and messages that a consumer holds are kept. "
				 "Jobs deferred from now on stay. Cancelled jobs can be retried.</p>"
				 "<p class=\"hint\">To cancel running jobs too: <code>deferred queue clear ");
			html_text(&v->reply.body, v->name);
			html_raw(&v->reply.body, "</code></p>");
			form(v, typed, 0, 0, 0);
		}
		page_end(v);
	}
	pg_result_free(depth);
	return rc;
}

int page_clear(struct visit *v, struct deferred_error *err)
{
	struct pg_result *queue = NULL;
	int rc = 0;

	if (!visit_may_act(v)) {
		visit_refuse_act(v);
		return 0;
	}
	rc = admin_queue_ls_exec(v->pg, v->name, &queue, err);
	if (rc == 0 && pg_rows(queue) == 0)
		visit_refuse(v, 404,
			     arena_printf(&v->arena, "Queue '%s' does not exist. The page Queues lists all queues.",
					  v->name));
	else if (rc == 0)
		rc = ask(v, NULL, NULL, err);
	pg_result_free(queue);
	return rc;
}

static void told(struct visit *v, int64_t done, int64_t at, int64_t to)
{
	struct buf *b = &v->reply.body;

	page_begin(v, "Clear queue", v->name);
	if (v->json) {
		buf_printf(b, ",\"done\":%" PRId64 ",\"to\":%" PRId64 ",\"at\":", done, to);
		if (at)
			buf_printf(b, "%" PRId64, at);
		else
			html_raw(b, "null");
		html_raw(b, ",\"refused\":null");
	} else {
		buf_printf(b, "<div role=\"status\"><p class=\"done\">%" PRId64 " job%s cancelled%s</p></div>", done,
			   done == 1 ? " was" : "s were", at ? " so far." : ".");
		if (at) {
			form(v, NULL, at, to, done);
		} else {
			html_raw(b, "<p><a href=\"/queues/");
			html_url(b, v->name);
			html_raw(b, "\">Back to the queue</a></p>");
		}
	}
	page_end(v);
}

int action_clear(struct visit *v, struct deferred_error *err)
{
	int64_t done = pages_field_number(v, "done");
	const char *typed = pages_field(v, "typed");
	struct pg_result *res = NULL;
	int rc = store_web_act_clear(v->pg, v->name, typed ? typed : "", pages_field_number(v, "at"),
				     pages_field_number(v, "to"), visit_who(v), visit_address(v), &res, err);

	if (rc == 0 && !pg_null(res, 0, 1))
		rc = ask(v, typed, pg_text(res, 0, 1, NULL), err);
	else if (rc == 0)
		told(v, done + pg_int(res, 0, 0), pg_null(res, 0, 2) ? 0 : pg_int(res, 0, 2), pg_int(res, 0, 3));
	pg_result_free(res);
	return rc;
}
