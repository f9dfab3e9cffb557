/* SPDX-License-Identifier: MIT */
#include "past.h"

#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS (INT64_C(3600) * 1000)
#define DAY_MS (24 * HOUR_MS)

/* ---- options ---------------------------------------------------------------------------------- */

bool past_real(const struct cli *cli, const char *what, const char *text, double min, double max, double *value)
{
	char *end;

	errno = 0;
	*value = strtod(text, &end);
	if (*text && !*end && errno == 0 && *value >= min && *value <= max)
		return true;
	cli_bad_value(cli, NULL, what, text, "is not a number from %g to %g", min, max);
	return false;
}

static bool past_span(const struct cli *cli, const char *what, const char *text, int64_t max_ms, int64_t *us)
{
	int64_t ms;

	if (!cli_ms(cli, what, text, &ms))
		return false;
	if (ms > max_ms) {
		cli_bad_value(cli, NULL, what, text, "is longer than %" PRId64 "h", max_ms / HOUR_MS);
		return false;
	}
	*us = ms * 1000;
	return true;
}

bool past_option(struct outlook *o, const struct cli *cli, int c)
{
	int64_t us;

	switch (c) {
	case PAST_QUEUE:
		o->queue = optarg;
		return true;
	case PAST_SINCE:
		if (!past_span(cli, "--since", optarg, 400 * DAY_MS, &us))
			return false;
		o->since_ms = us / 1000;
		return true;
	case PAST_SCALE:
		return past_real(cli, "--scale", optarg, 0.01, 100, &o->scale);
	case PAST_START:
		return past_span(cli, "--start", optarg, HOUR_MS, &o->wanted.start_us);
	case PAST_BETWEEN:
		return past_span(cli, "--between", optarg, HOUR_MS, &o->wanted.between_us);
	default:
		return false;
	}
}

/* ---- what was --------------------------------------------------------------------------------- */

int past_read(struct outlook *o, struct cli *cli)
{
	struct deferred_error err = { 0 };

	if (outlook_read(o, cli->pg, &err) == 0)
		return 0;
	if (strcmp(err.where, OUTLOOK_TOO_MANY) != 0)
		return cli_fail(cli, &err);
	cli_say(err.hint, "%s", err.message);
	return CLI_NOT_DONE;
}

int past_line(struct lines *lines, const struct cli *cli, const char *text, bool service)
{
	struct deferred_error err = { 0 };

	if (lines->of.n == FORECAST_LINES)
		return cli_misuse(cli, "give fewer of --line and --service",
				  "line '%.64s': more than %d lines and services", text, FORECAST_LINES);
	return lines_add(lines, text, service, &err) < 0 ? cli_fail(cli, &err) : 0;
}

/* ---- how it is printed ------------------------------------------------------------------------ */

static void past_print_line(void *data, const char *name, const char *text)
{
	(void)data;
	printf("%s%s%s\n", name ? name : "", !name ? "" : *name ? ": " : "      ", text);
}

const struct outlook_sink past_lines = { .line = past_print_line };

static void print_wait(void *data, const struct outlook_wait *w)
{
	struct table *table = data;
	char buf[32];

	table_cell(table, "%s", w->queue);
	table_cell(table, "%" PRId64, w->attempts);
	for (size_t i = 0; i < OUTLOOK_SHARES; i++)
		table_cell(table, "%s", outlook_us(buf, w->us[i]));
}

void past_waits(const struct outlook *o)
{
	static const char *const headers[] = { "QUEUE", ">ATTEMPTS", ">P50", ">P95", ">P99", ">LONGEST" };
	struct table table;
	const struct outlook_sink to = { .wait = print_wait, .data = &table };

	table_begin(&table, headers, 6);
	outlook_waits(o, &to);
	table_end(&table);
}

int past_print(const struct cli *cli, struct params_text *t, int rc, const struct deferred_error *err)
{
	struct deferred_error later = { 0 };
	char *text;

	if (params_take(t, &text, &later) < 0)
		return cli_fail(cli, rc < 0 ? err : &later);
	if (rc == 0)
		puts(text);
	free(text);
	return rc < 0 ? cli_fail(cli, err) : 0;
}
