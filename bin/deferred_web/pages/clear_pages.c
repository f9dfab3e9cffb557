/* SPDX-License-Identifier: MIT */
/* To clear a queue: a page asks for its name. Then steps go from one job to the newest at the beginning, as in
 * bulk_pages.c. */
#include "pages.h"

#include "rows/admin.h"
#include "rows/queue.h"
#include "rows/web.h"

#include <inttypes.h>

/* The form that begins it. typed: what was written in place of the name; NULL: nothing yet. */
static void first_form(struct web_request *r, const char *typed)
{
	struct buf *b = &r->reply.body;

	html_printf(b, "<form class=\"search\" method=\"post\" action=\"/queues/%s/clear/step\">",
		    page_url(r, r->name));
	page_token(r);
	html_raw(b, "<label>Type the name of the queue <input name=\"typed\" required autocomplete=\"off\" "
		    "autocapitalize=\"off\" spellcheck=\"false\" value=\"");
	html_field(b, typed);
	html_printf(b,
		    "\"></label><button class=\"careful\">Clear the queue</button></form>"
		    "<p><a href=\"/queues/%s\">Back to the queue</a></p>",
		    page_url(r, r->name));
}

/* The form of the next step, from one job to another. A script sends it. */
static void next_form(struct web_request *r, int64_t at, int64_t to, int64_t done)
{
	struct buf *b = &r->reply.body;
	const char *name = page_url(r, r->name);

	html_printf(b,
		    "<div class=\"acts\"><form class=\"act\" method=\"post\" data-go action=\"/queues/%s/clear/step\">",
		    name);
	page_token(r);
	html_printf(b,
		    "<input type=\"hidden\" name=\"typed\" value=\"%s\">"
		    "<input type=\"hidden\" name=\"at\" value=\"%" PRId64 "\">"
		    "<input type=\"hidden\" name=\"to\" value=\"%" PRId64 "\">"
		    "<input type=\"hidden\" name=\"done\" value=\"%" PRId64 "\"><button>Continue</button></form>"
		    "<a class=\"stop\" href=\"/queues/%s\">Stop</a></div>",
		    r->name, at, to, done, name);
}

/* refused NULL: nothing was tried yet. */
static int clear_question(struct web_request *r, const char *typed, const char *refused, struct deferred_error *err)
{
	struct pg_result *depth = NULL;
	struct buf *b = &r->reply.body;
	int rc = pages_queues_read(r, &depth, err);

	if (rc == 0) {
		page_begin(r, "Clear queue", r->name);
		pages_queue_tiles(r, depth);
		page_trouble(r, refused);
		if (r->json) {
			html_printf(b, ",\"refused\":%.s", refused);
		} else {
			html_printf(b,
				    "<p>This cancels all jobs and messages of the queue that are ready, delayed or "
				    "waiting. Running jobs and messages that a consumer holds are kept. "
				    "Jobs deferred from now on stay. Cancelled jobs can be retried.</p>"
				    "<p class=\"hint\">To cancel running jobs too: <code>deferred queue clear "
				    "%s</code></p>",
				    r->name);
			first_form(r, typed);
		}
		page_end(r);
	}
	pg_result_free(depth);
	return rc;
}

int pages_clear(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *queue = NULL;
	int rc;

	if (!page_may_act(r)) {
		page_refuse_act(r);
		return 0;
	}
	rc = admin_queue_ls_exec(r->pg, r->name, &queue, err);
	if (rc == 0 && pg_rows(queue) == 0)
		pages_refuse_queue(r);
	else if (rc == 0)
		rc = clear_question(r, NULL, NULL, err);
	pg_result_free(queue);
	return rc;
}

static void show_clear_step(struct web_request *r, int64_t done, const struct web_act_clear_row *step)
{
	struct buf *b = &r->reply.body;

	page_begin(r, "Clear queue", r->name);
	if (r->json) {
		html_printf(b, ",\"done\":%" PRId64 ",\"to\":%" PRId64 ",\"at\":", done, step->upto);
		if (step->has_next_id)
			html_printf(b, "%" PRId64, step->next_id);
		else
			html_raw(b, "null");
		html_raw(b, ",\"refused\":null");
	} else {
		html_printf(b, "<div role=\"status\"><p class=\"done\">%" PRId64 " job%s cancelled%s</p></div>", done,
			    done == 1 ? " was" : "s were", step->has_next_id ? " so far." : ".");
		if (step->has_next_id)
			next_form(r, step->next_id, step->upto, done);
		else
			html_printf(b, "<p><a href=\"/queues/%s\">Back to the queue</a></p>", page_url(r, r->name));
	}
	page_end(r);
}

int pages_act_clear(struct web_request *r, struct deferred_error *err)
{
	int64_t at = page_field_number(r, "at"), to = page_field_number(r, "to");
	const char *typed = page_field(r, "typed");
	struct pg_result *res = NULL;
	int rc = web_act_clear_exec(r->pg, r->name, typed ? typed : "", pages_optional(&at), pages_optional(&to),
				    page_actor(r), page_address(r), &res, err);

	if (rc == 0) {
		struct web_act_clear_row step = web_act_clear_row(res, 0);

		if (step.refused)
			rc = clear_question(r, typed, step.refused, err);
		else
			show_clear_step(r, page_field_number(r, "done") + step.jobs, &step);
	}
	pg_result_free(res);
	return rc;
}
