/* SPDX-License-Identifier: MIT */
#include "program/lines.h"

#include "store/advise.h"
#include "store/schedule.h"

int lines_add(struct lines *lines, const char *text, bool service, struct deferred_error *err)
{
	size_t at = lines->of.n;

	lines->of.line = lines->line;
	lines->text[at] = text;
	lines->of.n++;
	return crontab_read(text, service, &lines->line[at], err);
}

int lines_rules(struct lines *lines, struct pg *pg, struct deferred_error *err)
{
	for (size_t i = 0; i < lines->of.n; i++) {
		struct crontab_line *l = &lines->line[i];
		int rc;

		if (!l->rule)
			continue;
		if ((rc = store_crontab(pg, l->rule, &l->when, err)) < 0) {
			error_prefix(err, "line '%.200s'", lines->text[i]);
			return rc;
		}
		l->interval_us = crontab_interval_us(&l->when);
	}
	/* Lines of workers may be those of several hosts. */
	return lines->seen ? 0 : crontab_apart(lines->line, lines->of.n, err);
}

int lines_seen(struct lines *lines, struct pg *pg, const char *queue, struct deferred_error *err)
{
	int rc;

	if (lines->of.n > 0)
		return 0;
	rc = advise_seen_exec(pg, queue, FORECAST_LINES, &lines->seen, err);
	for (size_t i = 0; rc == 0 && i < pg_rows(lines->seen); i++) {
		rc = lines_add(lines, advise_seen_row(lines->seen, i).line, advise_seen_row(lines->seen, i).service,
			       err);
		/* A login that may run jobs can store any text as its line. A line that no program can have is skipped,
		 * because it would prevent all advice. */
		if (rc < 0 && rc != DEFERRED_ENOMEM) {
			crontab_clear(&lines->line[--lines->of.n]);
			error_clear(err);
			rc = 0;
		}
	}
	return rc;
}

int lines_today(struct lines *lines, struct outlook *o, struct outlook_today *today, struct deferred_error *err)
{
	int rc;

	if (lines->of.n == 0)
		return 0;
	rc = outlook_replay_today(o, &lines->of, today, err);
	if (rc < 0)
		return rc;
	today->text = lines->text;
	today->n = lines->of.n;
	today->given = !lines->seen;
	o->today = today;
	return 0;
}

void lines_clear(struct lines *lines)
{
	for (size_t i = 0; i < lines->of.n; i++)
		crontab_clear(&lines->line[i]);
	pg_result_free(lines->seen);
}
