/* SPDX-License-Identifier: MIT */
/* A form by which an operator defers a job. */
#include "pages.h"

#include "page/form.h"
#include "rows/web.h"

#include <inttypes.h>

/* Default: error. */
static const char *const duplicate_words[] = { "skip", "replace", "update", NULL };

static const struct form_field defer_fields[] = {
	{ "fn", "Function", NULL, "functions", NULL, 127, .required = true },
	{ "queue", "Queue", "default", "queues", NULL, 88 },
	{ "label", "Label", .most = 1000 },
	{ "delay", "Not before", "now, or 10min", .most = 40, .is_span = true },
	{ "expires", "Expires after", "never, or 2d", .most = 40, .is_span = true },
	{ "key", "Key (one job at a time)", .most = 1000 },
	{ "key_until", "Key is held until", "end, start, or 10min after the end", .most = 40 },
	{ "on_duplicate", "If the key is taken", .words = duplicate_words },
	{ "priority", "Priority", "0", .most = 10 },
	{ "max_attempts", "Max attempts", .most = 10 },
	{ "timeout", "Timeout", .most = 40, .is_span = true },
};
#define DEFER_FIELDS (sizeof(defer_fields) / sizeof(defer_fields[0]))

static const struct form defer_form = {
	.action = "/defer/now",
	.button = "Defer",
	.key = "job",
	.fields = defer_fields,
	.len = DEFER_FIELDS,
	.shown = DEFER_FIELDS,
	.first = 1,
	.hint = "Empty fields use the defaults of the queue and the function, as with <code>deferred add</code>.",
};

static int show_defer_form(struct web_request *r, const char *refused, struct deferred_error *err)
{
	return form_page(r, &defer_form, NULL, "Defer a job", refused, err);
}

int pages_defer(struct web_request *r, struct deferred_error *err)
{
	if (page_may_act(r))
		return show_defer_form(r, NULL, err);
	page_refuse_act(r);
	return 0;
}

int pages_act_defer(struct web_request *r, struct deferred_error *err)
{
	const char *wrong = form_wrong(r, &defer_form);
	struct pg_result *res = NULL;
	int rc;

	if (wrong)
		return show_defer_form(r, wrong, err);
	rc = web_act_defer_exec(r->pg, form_typed(r, &defer_form, "fn"), form_params(r, &defer_form),
				form_options(r, &defer_form), page_actor(r), page_address(r), &res, err);
	if (rc == 0) {
		struct web_act_defer_row made = web_act_defer_row(res, 0);

		r->number = made.job;
		if (made.refused)
			rc = show_defer_form(r, made.refused, err);
		else
			form_accepted(r, &defer_form, "defer", arena_printf(&r->arena, "%" PRId64, made.job));
	}
	pg_result_free(res);
	return rc;
}
