/* SPDX-License-Identifier: MIT */
#include "lines.h"

#include "store/advise.h"
#include "store/schedule.h"

int lines_add(struct lines *lines, const struct cli *cli, const char *text, bool service)
{
	struct deferred_error err = { 0 };
	size_t at = lines->of.n;

	if (at == FORECAST_LINES)
		return cli_usage(cli, "more than %d lines and services: \"%.64s\"", FORECAST_LINES, text);
	lines->of.line = lines->line;
	lines->text[at] = text;
	lines->of.n++;
	return crontab_read(text, service, &lines->line[at], &err) < 0 ? cli_fail(cli, &err) : 0;
}

int lines_rules(struct lines *lines, const struct cli *cli)
{
	struct deferred_error err = { 0 };

	for (size_t i = 0; i < lines->of.n; i++) {
		struct crontab_line *l = &lines->line[i];

		if (!l->rule)
			continue;
		if (store_crontab(cli->pg, l->rule, &l->when, &err) < 0) {
			error_prefix(&err, "line \"%.200s\"", lines->text[i]);
			return cli_fail(cli, &err);
		}
		l->interval_us = crontab_interval_us(&l->when);
	}
	/* Those that were seen may be of several hosts. */
	return !lines->seen && crontab_apart(lines->line, lines->of.n, &err) < 0 ? cli_fail(cli, &err) : 0;
}

int lines_seen(struct lines *lines, const struct cli *cli, const char *queue)
{
	struct deferred_error err = { 0 };
	int rc = 0;

	if (lines->of.n > 0)
		return 0;
	if (store_advise_seen(cli->pg, queue, FORECAST_LINES, &lines->seen, &err) < 0)
		return cli_fail(cli, &err);
	for (size_t i = 0; i < pg_rows(lines->seen) && rc == 0; i++)
		rc = lines_add(lines, cli, pg_text(lines->seen, i, 0, NULL), pg_bool(lines->seen, i, 1));
	return rc;
}

void lines_clear(struct lines *lines)
{
	for (size_t i = 0; i < lines->of.n; i++)
		crontab_clear(&lines->line[i]);
	pg_result_free(lines->seen);
}
