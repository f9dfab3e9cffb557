/* SPDX-License-Identifier: MIT */
/* Text to numbers, whatever the locale of the application is. */
#include "port/config_value.h"

#include "base/span.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "config"

struct unit {
	const char *name;
	double factor;
};

/* Units of bounds in messages. base/span.h says which units are read. */
static const struct unit spans[] = { { "ms", 1 },     { "s", 1e3 },     { "min", 60e3 },
				     { "h", 3600e3 }, { "d", 86400e3 }, { NULL, 0 } };
static const struct unit sizes[] = {
	{ "", 1 }, { "k", 1024 }, { "m", 1048576 }, { "g", 1073741824 }, { NULL, 0 },
};

static bool parse_size(const char *text, double *number)
{
	const char *rest = span_decimal(text, number);

	for (const struct unit *unit = sizes; rest && unit->name; unit++) {
		if (strcmp(rest, unit->name) == 0) {
			*number *= unit->factor;
			return true;
		}
	}
	return false;
}

static bool parse_whole(const char *text, int64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)text[text[0] == '-']))
		return false;
	errno = 0;
	*number = strtoll(text, &end, 10);
	return *end == '\0'; /* beyond 64 bits it is the largest, which no range takes */
}

/* "4" or "1..16": *number is the upper end, *min the lower. */
static bool parse_range(const char *text, int64_t *number, double *min)
{
	const char *dots = strstr(text, "..");
	char low[24];
	int64_t n;

	if (!dots) {
		if (!parse_whole(text, number))
			return false;
		*min = (double)*number;
		return true;
	}
	snprintf(low, sizeof(low), "%.*s", (int)(dots - text), text);
	if (dots - text >= (int)sizeof(low) || !parse_whole(low, &n) || !parse_whole(dots + 2, number))
		return false;
	*min = (double)n;
	return n <= *number;
}

static bool parse_flag(const char *text, int64_t *number)
{
	static const char *const words[] = { "0", "1", "false", "true", "no", "yes", "off", "on" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(text, words[i]) == 0) {
			*number = (int64_t)(i & 1);
			return true;
		}
	}
	return false;
}

static bool parse_choice(const char *text, const char *choices, int64_t *number)
{
	size_t len;

	*number = 0;
	for (const char *word = choices; *word; word += len + (word[len] == '|')) {
		len = strcspn(word, "|");
		if (strlen(text) == len && memcmp(text, word, len) == 0)
			return true;
		++*number;
	}
	return false;
}

/* A bound as people write it: in the largest unit that leaves a whole number. */
static void format_bound(char *buf, size_t size, enum config_type type, double bound)
{
	const struct unit *units = type == CONFIG_MS ? spans : sizes, *best = NULL;

	if (type == CONFIG_MS || type == CONFIG_BYTES)
		for (; units->name; units++)
			if (bound >= units->factor && bound == units->factor * (double)(int64_t)(bound / units->factor))
				best = units;
	if (best)
		snprintf(buf, size, "%.0f%s", bound / best->factor, best->name);
	else
		snprintf(buf, size, "%.0f", bound);
}

static bool has_range(const struct config_setting *s)
{
	return s->min != 0 || s->max != 0;
}

/* wrong: what is wrong with the text. The range it must be in is added. */
static int refuse(const struct config_setting *s, const char *wrong, const char *text, const char *place,
		  struct deferred_error *err)
{
	char min[32], max[32];

	if (!has_range(s))
		return error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' %s", place, text, wrong);
	format_bound(min, sizeof(min), s->type, s->min);
	format_bound(max, sizeof(max), s->type, s->max);
	return error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' %s (%s to %s)", place, text, wrong, min, max);
}

static int check_range(const struct config_setting *s, double number, const char *text, const char *place,
		       struct deferred_error *err)
{
	if (!has_range(s) || (number >= s->min && number <= s->max))
		return 0;
	return refuse(s, "is out of range", text, place, err);
}

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

/* The application becomes part of a path. */
static bool is_file_name(const char *text)
{
	return text[0] != '\0' && text[0] != '.' && strlen(text) <= 64 && text[strspn(text, NAME_CHARACTERS)] == '\0';
}

const char *config_value_balance(const char *text, size_t *group_len, int64_t *range)
{
	const char *colon = strrchr(text, ':');

	*group_len = colon ? (size_t)(colon - text) : 0;
	if (!colon)
		return "is not GROUP:RANGE, such as mail:10";
	if (*group_len < 1 || *group_len > 63 || strspn(text, NAME_CHARACTERS) != *group_len)
		return "has no group of 1 to 63 letters, digits, '_', '.' and '-' before the ':'";
	if (!parse_whole(colon + 1, range) || *range < 1 || *range > 1000000000)
		return "has no range from 1 to 1000000000 after the ':'";
	return NULL;
}

int config_value_late_queue(const char **at, char name[static CONFIG_QUEUE_SIZE], double *ms)
{
	const char *p = *at + strspn(*at, " \t,"), *colon, *end = p + strcspn(p, ",");
	char span[64];

	if (!*p)
		return 0;
	colon = p + strspn(p, NAME_CHARACTERS);
	if (*colon != ':' || colon == p || (size_t)(colon - p) >= CONFIG_QUEUE_SIZE ||
	    (size_t)(end - colon) > sizeof(span))
		return -1;
	snprintf(name, CONFIG_QUEUE_SIZE, "%.*s", (int)(colon - p), p);
	snprintf(span, sizeof(span), "%.*s", (int)(end - colon - 1), colon + 1);
	*at = end;
	for (size_t n = strlen(span); n > 0 && isspace((unsigned char)span[n - 1]); n--)
		span[n - 1] = '\0';
	return span_parse(span, ms) && *ms <= 30 * 86400e3 ? 1 : -1;
}

/* The settings of section "alert" whose texts have a form. */
static int check_alert(const char *name, const char *text, const char *place, struct deferred_error *err)
{
	const char *at = text, *wrong = NULL;
	char queue[CONFIG_QUEUE_SIZE];
	double ms;
	int rc;

	if (strcmp(name, "alert.command") == 0 && text[0] != '/')
		wrong = "is not an absolute path";
	if (strcmp(name, "alert.queue") == 0 &&
	    (strlen(text) >= CONFIG_QUEUE_SIZE || text[strspn(text, NAME_CHARACTERS)] || strchr(".-", text[0])))
		wrong = "cannot be the name of a queue";
	if (strcmp(name, "alert.mail_to") == 0 && !strchr(text, '@'))
		wrong = "is not a list of addresses";
	if (strcmp(name, "alert.late_queues") == 0) {
		while ((rc = config_value_late_queue(&at, queue, &ms)) > 0)
			;
		if (rc < 0)
			wrong = "is not a list such as 'mail:2min, reports:6h', with spans up to 30d";
	}
	return wrong ? error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' %s", place, text, wrong) : 0;
}

static int parse_text(const struct config_setting *s, const char *text, struct config_value *value, const char *place,
		      struct deferred_error *err)
{
	int rc;

	if (strcmp(s->name, "application") == 0 && !is_file_name(text))
		return error_set(err, DEFERRED_ECONFIG, WHERE,
				 "%s: value '%.64s' is not a name of letters, digits, '_', '.' and '-'", place, text);
	if (strcmp(s->name, "balance") == 0 && text[0]) {
		size_t group_len;
		const char *wrong = config_value_balance(text, &group_len, &value->number);

		if (wrong)
			return error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' %s", place, text, wrong);
	}
	if (text[0] && (rc = check_alert(s->name, text, place, err)) < 0)
		return rc;
	if (text[0] && !(value->text = strdup(text)))
		return error_set(err, DEFERRED_ENOMEM, WHERE, "%s: out of memory", place);
	return 0;
}

static const char *not_a_span(const char *text)
{
	if (strcasestr(text, "mon") || strcasestr(text, "year") || span_is_calendar(text))
		return "has months or years, whose length varies: use days, such as 30d";
	return "is not a time span " SPAN_FORMS;
}

int config_value_parse(const struct config_setting *s, const char *text, struct config_value *value, const char *place,
		       struct deferred_error *err)
{
	const char *wanted = NULL;
	char canonical[64];
	int rc;

	memset(value, 0, sizeof(*value));
	switch (s->type) {
	case CONFIG_TEXT:
		return parse_text(s, text, value, place, err);
	case CONFIG_INT:
		if (!parse_whole(text, &value->number))
			wanted = "is not a whole number";
		value->real = (double)value->number;
		break;
	case CONFIG_RANGE:
		if (!parse_range(text, &value->number, &value->real))
			wanted = "is not a whole number or a range such as 1..16";
		else if (check_range(s, (double)value->number, text, place, err) < 0)
			return DEFERRED_ECONFIG;
		break;
	case CONFIG_REAL: {
		const char *rest = span_decimal(text, &value->real);

		if (!rest || *rest)
			wanted = "is not a number";
		break;
	}
	case CONFIG_MS:
		if (!span_parse(text, &value->real))
			wanted = not_a_span(text);
		break;
	case CONFIG_BYTES:
		if (!parse_size(text, &value->real))
			wanted = "is not a size such as 512, 64k, 10m or 1g";
		break;
	case CONFIG_FLAG:
		if (!parse_flag(text, &value->number))
			wanted = "is not one of 1, 0, true, false, yes, no, on and off";
		break;
	case CONFIG_CHOICE:
		if (!parse_choice(text, s->choices, &value->number))
			return error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' is not one of %s", place,
					 text, s->choices);
		break;
	}
	if (wanted)
		return refuse(s, wanted, text, place, err);
	rc = check_range(s, value->real, text, place, err);
	if (rc < 0)
		return rc;
	if (s->type == CONFIG_MS || s->type == CONFIG_BYTES)
		value->number = (int64_t)(value->real + 0.5);
	if (s->type == CONFIG_CHOICE || s->type == CONFIG_REAL || s->type == CONFIG_RANGE)
		snprintf(canonical, sizeof(canonical), "%s", text);
	else
		snprintf(canonical, sizeof(canonical), "%lld", (long long)value->number);
	value->text = strdup(canonical);
	return value->text ? 0 : error_set(err, DEFERRED_ENOMEM, WHERE, "%s: out of memory", place);
}

int config_parse_ms(const char *text, int64_t *ms, struct deferred_error *err)
{
	double number;

	if (!span_parse(text, &number))
		return error_set(err, DEFERRED_EINVAL, WHERE, "%s", not_a_span(text));
	if (number > SPAN_MAX_MS)
		return error_set(err, DEFERRED_EINVAL, WHERE, "is longer than 36525d, a hundred years");
	*ms = (int64_t)(number + 0.5);
	return 0;
}

int config_parse_real(const char *text, double *number)
{
	const char *rest = span_decimal(text, number);

	return rest && *rest == '\0' ? 0 : DEFERRED_EINVAL;
}

const struct config_setting *config_setting(const char *name)
{
	const struct config_setting *s = config_settings;

	while (s->name && strcmp(s->name, name) != 0)
		s++;
	return s->name ? s : NULL;
}

int config_value_set(struct config_value *values, const struct config_setting *s, const char *text, const char *place,
		     struct deferred_error *err)
{
	struct config_value value;
	int rc = config_value_parse(s, text, &value, place, err);

	if (rc < 0)
		return rc;
	value.given = true;
	free(values[s - config_settings].text);
	values[s - config_settings] = value;
	return 0;
}
