/* SPDX-License-Identifier: MIT */
#include "settings.h"

#include "base/span.h"
#include "port/params.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPT_FIRST 2000
#define OPT_UNSET 1999
#define DAY_MS 86400e3

static const char *const on_full[] = { "error", "drop", NULL };

enum kind { SPAN, WHOLE, REAL, RATE, CHOICE, TEXT, JSON };

static const struct setting {
	struct program_option option;
	const char *column;
	enum settings_of of;
	enum kind kind;
	double min, max;
} table[] = {
	{ { "visibility-timeout", "SPAN", "lease of a claim" },
	  "visibility_timeout_ms",
	  SETTINGS_QUEUE,
	  SPAN,
	  1e3,
	  DAY_MS },
	{ { "paused-until", "TIME", "pause the queue until then" }, "paused_until", SETTINGS_QUEUE, TEXT, 0, 0 },
	{ { "ttl", "SPAN", "expiry of jobs that set none" }, "ttl_ms", SETTINGS_QUEUE, SPAN, 1, 36500 * DAY_MS },
	{ { "max-attempts", "N", "attempts before a job is dead" }, "max_attempts", SETTINGS_QUEUE, WHOLE, 1, 1e6 },
	{ { "backoff-floor", "SPAN", "delay after the first failed attempt" },
	  "backoff_floor_ms",
	  SETTINGS_QUEUE,
	  SPAN,
	  1,
	  30 * DAY_MS },
	{ { "backoff-ceiling", "SPAN", "longest delay between attempts" },
	  "backoff_ceiling_ms",
	  SETTINGS_QUEUE,
	  SPAN,
	  1,
	  365 * DAY_MS },
	{ { "backoff-exponent", "X", "factor from one delay to the next" },
	  "backoff_exponent",
	  SETTINGS_QUEUE,
	  REAL,
	  1,
	  100 },
	{ { "max-running", "N", "attempts at the same time" },
	  "max_running",
	  SETTINGS_QUEUE | SETTINGS_FUNCTION,
	  WHOLE,
	  1,
	  1e6 },
	{ { "rate", "N/UNIT", "attempts that may start, such as 5/s" },
	  "rate",
	  SETTINGS_QUEUE | SETTINGS_FUNCTION,
	  RATE,
	  1e-7,
	  1e6 },
	{ { "burst", "N", "attempts that may start at once after a pause", .def = "1" },
	  "burst",
	  SETTINGS_QUEUE | SETTINGS_FUNCTION,
	  WHOLE,
	  1,
	  1e6 },
	{ { "key-rate", "N/UNIT", "the same for each concurrency key" }, "key_rate", SETTINGS_QUEUE, RATE, 1e-7, 1e6 },
	{ { "key-burst", "N", "the same for each concurrency key", .def = "1" },
	  "key_burst",
	  SETTINGS_QUEUE,
	  WHOLE,
	  1,
	  1e6 },
	{ { "max-length", "N", "most unfinished jobs" }, "max_length", SETTINGS_QUEUE, WHOLE, 1, 1e9 },
	{ { "on-full", "WHAT", "reaction of a full queue", .def = "error", .words = on_full },
	  "on_full",
	  SETTINGS_QUEUE,
	  CHOICE,
	  0,
	  0 },
	{ { "function", "FN", "turn messages into calls of this function" }, "fn", SETTINGS_QUEUE, TEXT, 0, 0 },
	{ { "on-dead", "FN", "defer this for each job that dies" },
	  "on_dead",
	  SETTINGS_QUEUE | SETTINGS_FUNCTION,
	  TEXT,
	  0,
	  0 },
	{ { "metadata", "JSON", "for applications" }, "metadata", SETTINGS_QUEUE, JSON, 0, 0 },
	{ { "weight", "X", "share of the claims of a worker", .def = "1" },
	  "weight",
	  SETTINGS_QUEUE,
	  REAL,
	  0.001,
	  1000 },
	{ { "age", "SPAN", "raise the priority of a waiting job" }, "age_ms", SETTINGS_QUEUE, SPAN, 1e3, 365 * DAY_MS },
	{ { "max-dequeue", "N", "move a message taken this often" }, "max_dequeue", SETTINGS_QUEUE, WHOLE, 1, 1000 },
	{ { "params-max-bytes", "N", "largest params", .def = "1m" },
	  "params_max_bytes",
	  SETTINGS_QUEUE,
	  WHOLE,
	  1,
	  1e9 },
};
#define SETTINGS (sizeof(table) / sizeof(table[0]))

void settings_options(enum settings_of of, struct program_option *options, int used)
{
	options[used++] = (struct program_option){ "unset", "SETTING", "restore the default of a setting", OPT_UNSET };
	for (size_t i = 0; i < SETTINGS; i++) {
		if (!(table[i].of & of))
			continue;
		options[used] = table[i].option;
		options[used].empty = true;
		options[used++].code = OPT_FIRST + (int)i;
	}
	options[used] = (struct program_option){ 0 };
}

/* "5/s", "1/min", "0.5/h", "3/10s". */
static bool parse_rate(const char *text, double *a_second)
{
	const char *slash = strchr(text, '/');
	char number[32], span[32];
	int64_t ms;

	if (!slash || (size_t)(slash - text) >= sizeof(number) || !slash[1] || strlen(slash) >= sizeof(span) ||
	    !isalpha((unsigned char)slash[strlen(slash) - 1]))
		return false;
	snprintf(number, sizeof(number), "%.*s", (int)(slash - text), text);
	snprintf(span, sizeof(span), "%s%s", isdigit((unsigned char)slash[1]) ? "" : "1", slash + 1);
	if (config_parse_real(number, a_second) < 0 || config_parse_ms(span, &ms, NULL) < 0 || ms == 0)
		return false;
	*a_second = *a_second * 1000 / (double)ms;
	return true;
}

static bool settings_wrong(const struct cli *cli, const struct setting *t, const char *text, const char *why)
{
	char what[32];

	snprintf(what, sizeof(what), "--%s", t->option.name);
	cli_bad_value(cli, NULL, what, text, "%s", why);
	return false;
}

static bool parse_number(const struct cli *cli, const struct setting *t, const char *text, double *number)
{
	char bounds[96], min[SETTINGS_RATE_SIZE], max[SETTINGS_RATE_SIZE];
	int64_t whole;

	switch (t->kind) {
	case SPAN:
		if (span_lacks_unit(text) || config_parse_ms(text, &whole, NULL) < 0)
			return settings_wrong(cli, t, text, "is not a time span with a unit " SPAN_FORMS);
		*number = (double)whole;
		snprintf(bounds, sizeof(bounds), "is out of range %s to %s", settings_span(min, (int64_t)t->min),
			 settings_span(max, (int64_t)t->max));
		break;
	case RATE:
		if (!parse_rate(text, number))
			return settings_wrong(cli, t, text,
					      "is not a rate with a unit such as 5/s, 1/min, 100/h or 3/10s");
		snprintf(bounds, sizeof(bounds), "is out of range 1/115d to 1000000/s");
		break;
	default:
		snprintf(bounds, sizeof(bounds), "is not a %snumber from %.10g to %.10g",
			 t->kind == WHOLE ? "whole " : "", t->min, t->max);
		if (config_parse_real(text, number) < 0 || (t->kind == WHOLE && strchr(text, '.')))
			return settings_wrong(cli, t, text, bounds);
	}
	return *number >= t->min && *number <= t->max ? true : settings_wrong(cli, t, text, bounds);
}

static bool unset(struct settings *s, const struct cli *cli, enum settings_of of, const char *name)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		if ((table[i].of & of) && strcmp(table[i].option.name, name) == 0) {
			s->name[s->n++] = table[i].column;
			return true;
		}
	}
	cli_bad_value(cli, NULL, "--unset", name, "is not a setting");
	return false;
}

bool settings_read(struct settings *s, const struct cli *cli, enum settings_of of, int code, const char *text)
{
	const struct setting *t;
	double number = 0;

	if (s->n == SETTINGS_MAX) {
		cli_usage(cli, "more than %d settings are given", SETTINGS_MAX);
		return false;
	}
	if (code == OPT_UNSET)
		return unset(s, cli, of, text);
	t = &table[code - OPT_FIRST];
	if (!text[0])
		return unset(s, cli, of, t->option.name);
	switch (t->kind) {
	case CHOICE:
		if (!cli_is_one_of(text, t->option.words))
			return settings_wrong(cli, t, text, "is not one of error and drop");
		s->value[s->n] = text;
		break;
	case TEXT:
		s->value[s->n] = text;
		break;
	case JSON:
		if (params_check(text, strlen(text), NULL) < 0)
			return settings_wrong(cli, t, text, "is not JSON");
		s->metadata = text;
		return true;
	default:
		if (!parse_number(cli, t, text, &number))
			return false;
		snprintf(s->text[s->n], sizeof(s->text[0]), "%.17g", number);
		s->value[s->n] = s->text[s->n];
	}
	s->name[s->n++] = t->column;
	return true;
}

static bool settings_is_whole(double n)
{
	double whole = (double)(int64_t)(n + 0.5);

	return whole >= 1 && n > whole * (1 - 1e-9) && n < whole * (1 + 1e-9);
}

const char *settings_rate(char buf[SETTINGS_RATE_SIZE], double a_second)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = { { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", 86400 } };
	size_t i = 0;

	/* The first unit in which it is a whole number; else the first in which it is one at least. */
	while (i < 4 && !settings_is_whole(a_second * units[i].seconds))
		i++;
	if (i == 4)
		for (i = 0; i < 3 && a_second * units[i].seconds < 1; i++)
			;
	snprintf(buf, SETTINGS_RATE_SIZE, "%.*g/%s", settings_is_whole(a_second * units[i].seconds) ? 10 : 6,
		 a_second * units[i].seconds, units[i].name);
	return buf;
}

const char *settings_span(char buf[SETTINGS_RATE_SIZE], int64_t ms)
{
	static const struct {
		const char *name;
		int64_t ms;
	} units[] = { { "d", 86400000 }, { "h", 3600000 }, { "min", 60000 }, { "s", 1000 }, { "ms", 1 } };
	size_t i = 0;

	while (i < 4 && (ms < units[i].ms || ms % units[i].ms != 0))
		i++;
	snprintf(buf, SETTINGS_RATE_SIZE, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
	return buf;
}
