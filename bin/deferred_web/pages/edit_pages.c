/* SPDX-License-Identifier: MIT */
/* A form by which an operator changes a job that waits. Only the fields that were edited are sent on. */
#include "pages.h"

#include "page/form.h"
#include "rows/web.h"

#include <inttypes.h>
#include <string.h>

enum { QUEUE, LABEL, PRIORITY, DELAY, MAX_ATTEMPTS, TIMEOUT, FIELDS };

static const struct form_field edit_fields[FIELDS] = {
	[QUEUE] = { "queue", "Queue", NULL, "queues", NULL, 88, .required = true },
	[LABEL] = { "label", "Label", .most = 1000 },
	[PRIORITY] = { "priority", "Priority", .most = 10, .required = true },
	[DELAY] = { "delay", "Not before", "no change, 0 or 10min", .most = 40, .is_span = true },
	[MAX_ATTEMPTS] = { "max_attempts", "Max attempts", "default", .most = 10 },
	[TIMEOUT] = { "timeout", "Timeout", "default", .most = 40, .is_span = true },
};

/* The value of the job in a field, or of "fn", "by" and "params"; NULL: none. */
static const char *edit_was(const struct form *f, const char *name)
{
	for (size_t i = 0; i < pg_rows(f->was); i++) {
		struct web_schedule_form_row row = web_schedule_form_row(f->was, i);

		if (strcmp(row.key, name) == 0)
			return row.value;
	}
	return NULL;
}

/* The form, with the values of the job, which the caller frees. NULL: the request was refused, or *rc is a failure. */
static struct form *edit_form(struct web_request *r, struct pg_result **was, int *rc, struct deferred_error *err)
{
	struct form *f = arena_alloc(&r->arena, sizeof(*f));

	*was = NULL;
	*f = (struct form){
		.action = arena_printf(&r->arena, "/jobs/%" PRId64 "/update", r->number),
		.button = "Save",
		.key = "job",
		.fields = edit_fields,
		.len = FIELDS,
		.shown = FIELDS,
		.hint = "A job that has been claimed cannot be changed any more. An empty field is the default.",
	};
	*rc = 0;
	if (!page_may_act(r)) {
		page_refuse_act(r);
		return NULL;
	}
	*rc = web_job_form_exec(r->pg, r->number, STORE_WEB_PARAMS, was, err);
	f->was = *was;
	if (*rc == 0 && pg_rows(*was) == 0)
		pages_refuse_job(r);
	if (pg_rows(*was) == 0)
		return NULL;
	f->no_params = !edit_was(f, "params") || !pages_may_see_params(r, edit_was(f, "fn"), edit_was(f, "by"));
	return f;
}

static int edit_show(struct web_request *r, const struct form *f, const char *refused, struct deferred_error *err)
{
	return form_page(r, f, "Edit job", arena_printf(&r->arena, "%" PRId64, r->number), refused, err);
}

int pages_edit(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *was;
	int rc;
	const struct form *f = edit_form(r, &was, &rc, err);

	if (f)
		rc = edit_show(r, f, NULL, err);
	pg_result_free(was);
	return rc;
}

/* Line ends do not count: a browser changes them. */
static bool edit_same(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "\r");
		b += strspn(b, "\r");
		if (*a != *b || !*a)
			return *a == *b;
	}
}

/* The changes of the form, as deferred.update() takes them; NULL: none. A field that was not sent is no change. */
static const char *edit_changes(struct web_request *r, const struct form *f)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < FIELDS; i++) {
		const char *name = edit_fields[i].name, *value = page_field(r, name), *was = edit_was(f, name);

		if (!page_has_field(r, name) || (was && value ? edit_same(was, value) : was == value))
			continue;
		if (!value && (i == QUEUE || i == PRIORITY || i == DELAY))
			continue;
		html_printf(&b, "%s%.s:%.s", b.len > 0 ? "," : "{", name, value);
	}
	if (b.len == 0)
		return NULL;
	buf_text(&b, "}");
	return page_take(r, &b);
}

static int edit_save(struct web_request *r, const struct form *f, struct deferred_error *err)
{
	const char *changes = edit_changes(r, f), *params = NULL, *refused = form_wrong(r, f);
	struct pg_result *res = NULL;
	int rc = 0;

	if (!f->no_params && page_field(r, "params") && !edit_same(form_params(r, f), edit_was(f, "params")))
		params = form_params(r, f);
	if (!refused && (changes || params)) {
		rc = web_act_update_exec(r->pg, r->number, params, changes ? changes : "{}", page_actor(r),
					 page_address(r), &res, err);
		refused = rc == 0 ? web_act_update_row(res, 0).refused : NULL;
	}
	if (rc == 0 && refused)
		rc = edit_show(r, f, refused, err);
	else if (rc == 0)
		form_accepted(r, f, changes || params ? "update" : "nothing",
			      arena_printf(&r->arena, "%" PRId64, r->number));
	pg_result_free(res);
	return rc;
}

int pages_act_update(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *was;
	int rc;
	const struct form *f = edit_form(r, &was, &rc, err);

	if (f)
		rc = edit_save(r, f, err);
	pg_result_free(was);
	return rc;
}
