/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "base/clock.h"
#include "base/text/plural.h"
#include "cached.h"
#include "program/doctor.h"

#include <stdlib.h>
#include <string.h>

#define LOCK_MS 100
#define ALL_CHECKS_MS 5000

struct finding {
	const char *check, *status, *note, *what, *why, *remedy; /* NULL: none */
};

struct report {
	struct web_request *r;
	struct finding *findings;
	size_t n, cap, checks, of[DOCTOR_LEVELS]; /* of: findings by level */
	const struct doctor_check *left;          /* the first check for which there was no time */
};

static const char *copy_to_arena(struct web_request *r, const char *text)
{
	return text && *text ? arena_copy(&r->arena, text, strlen(text)) : NULL;
}

static void on_finding(void *data, const struct doctor_finding *f)
{
	struct report *report = data;
	struct web_request *r = report->r;

	if (report->n == report->cap) {
		struct finding *more = arena_alloc(&r->arena, (report->cap + 64) * sizeof(*more));

		if (report->n > 0)
			memcpy(more, report->findings, report->n * sizeof(*more));
		report->findings = more;
		report->cap += 64;
	}
	report->of[f->level]++;
	report->findings[report->n++] = (struct finding){
		.check = f->check,
		.status = doctor_word(f->level),
		.note = copy_to_arena(r, f->note),
		.what = copy_to_arena(r, f->what),
		.why = copy_to_arena(r, f->why),
		.remedy = copy_to_arena(r, f->remedy),
	};
}

static void show_finding(struct web_request *r, const struct rows *rows, size_t i)
{
	const struct finding *f = (const struct finding *)rows->list + i;
	struct buf *b = &r->reply.body;

	html_printf(b, "<bdi>%s</bdi>", f->what ? f->what : f->note);
	if (f->why)
		html_printf(b, "<br><span class=\"hint\">why: </span><bdi>%s</bdi>", f->why);
	if (f->remedy) {
		html_raw(b, "<br><span class=\"hint\">do: </span>");
		page_remedy(b, f->remedy);
	}
}

/* Checks from c on that are not made here: those that could be made, or else those that only the command makes. */
static void show_left_out(struct web_request *r, const char *key, const char *before, bool can_run,
			  const struct doctor_check *c, const char *after)
{
	struct buf *b = &r->reply.body;
	bool any = false;

	if (r->json)
		html_printf(b, ",\"%s\":[", key);
	for (; c->name; c++) {
		if (can_run != (c->run != NULL))
			continue;
		if (r->json)
			html_printf(b, "%s\"%s\"", any ? "," : "", c->name);
		else
			html_printf(b, "%-s%s", any ? ", " : before, c->name);
		any = true;
	}
	html_printf(b, "%-s", r->json ? "]" : any ? after : "");
}

static void show_report(struct web_request *r, const struct report *report)
{
	static const struct column columns[] = {
		{ offsetof(struct finding, check), CELL_WORD, "check", "Check" },
		{ offsetof(struct finding, status), CELL_STATE, "status", "Result" },
		{ offsetof(struct finding, note), CELL_PROSE, "note", "" },
		{ offsetof(struct finding, what), CELL_PROSE, "what", "Finding", .show = show_finding },
		{ offsetof(struct finding, why), CELL_PROSE, "why", "" },
		{ offsetof(struct finding, remedy), CELL_PROSE, "do", "" },
	};
	static const struct part part = PART("checks", NULL, NULL, columns);
	struct buf *b = &r->reply.body;
	const size_t *of = report->of;
	enum doctor_level worst = DOCTOR_LEVELS - 1;

	while (worst > DOCTOR_OK && of[worst] == 0)
		worst--;
	if (r->json)
		html_printf(b, ",\"worst\":\"%s\"", doctor_word(worst));
	else if (of[DOCTOR_WARN] + of[DOCTOR_FAIL] + of[DOCTOR_UNKNOWN] == 0)
		html_printf(b, "<p class=\"done\">All %zu checks passed.</p>", report->checks);
	else
		html_printf(b, "<p class=\"%s\">%zu failure%s, %zu warning%s and %zu unknown in %zu checks.</p>",
			    of[DOCTOR_FAIL] ? "trouble" : "why", of[DOCTOR_FAIL], plural((int64_t)of[DOCTOR_FAIL]),
			    of[DOCTOR_WARN], plural((int64_t)of[DOCTOR_WARN]), of[DOCTOR_UNKNOWN], report->checks);
	part_write(r, &part,
		   &(struct rows){ .list = report->findings, .n = report->n, .size = sizeof(struct finding) });
	html_printf(b, "%-s", r->json ? "" : "<p class=\"hint\">");
	show_left_out(r, "no_time", "Not checked for lack of time: ", true, report->left, ". ");
	show_left_out(
		r, "only_by_command", "Only <code>deferred doctor</code> on a worker host checks: ", false,
		doctor_checks,
		". It also checks parts of <b>role</b>, <b>functions</b> and <b>interval</b> that need that host.");
	html_printf(b, "%-s", r->json ? "" : "</p>");
}

void pages_before_doctor(struct web_request *r)
{
	uint64_t end_ns = clock_ns() + ALL_CHECKS_MS * NS_PER_MS;
	const struct doctor_check *c = doctor_checks;
	struct report report = { .r = r };
	struct doctor d = {
		.pg = r->pg, .role = "deferred_viewer", .lock_ms = LOCK_MS, .take = on_finding, .data = &report
	};
	struct web_cache_answer a;
	bool json = r->json;
	const char *key;

	if (!cached_may_see(r))
		return;
	key = arena_printf(&r->arena, "doctor %s", r->me.role);
	if (!cached_claim(r, key))
		return;
	d.user = arena_printf(&r->arena, "\"%s\"", r->me.role);
	for (; c->name && clock_ns() < end_ns; c++) {
		if (!c->run)
			continue;
		doctor_run(&d, c, c->run);
		report.checks++;
	}
	doctor_clear(&d);
	report.left = c;
	cached_begin(&a);
	for (int form = 0; form < 2; form++) {
		r->json = form;
		show_report(r, &report);
		buf_add(&a.form[form], r->reply.body.p, r->reply.body.len);
		buf_clear(&r->reply.body);
	}
	r->json = json;
	web_cache_put(r->web->cache, key, &a);
	cached_get(r, key);
}

int pages_doctor(struct web_request *r, struct deferred_error *err)
{
	(void)err;
	return cached_page(r,
			   "Checks of <code>deferred doctor</code> on the database and its server, as far as your role "
			   "may see. The clock is compared with that of the host of deferred_web.");
}
