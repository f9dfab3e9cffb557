/* SPDX-License-Identifier: MIT */
#include "port/config.h"
#include "port/config_reader.h"
#include "port/plugin.h"
#include "port/secret_file.h"

#include "base/job.h"
#include "base/span.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE "config"
#define FILE_MAX_BYTES (1024 * 1024)
#define PLACE_SIZE 384

struct value {
	char *text; /* canonical: numbers in the base unit, flags as 1 or 0; NULL: none */
	int64_t number;
	double real;
	bool given; /* not the default */
};

struct pair {
	char *name, *value;
};

struct config {
	char *path;
	struct value *values; /* in step with config_settings */
	struct pair *pairs;   /* free-form settings */
	size_t pairs_len;
	struct config_command *commands;
	size_t commands_len;
	struct config_schedule *schedules;
	size_t schedules_len;
	struct config_shard *shards;
	size_t shards_len;
};

/* ---- values: text to number, whatever the locale of the application */

struct unit {
	const char *name;
	double factor;
};

/* How bounds are told; what is read, base/span.h says. */
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

/* GROUP:RANGE. Returns what is wrong with it; NULL: nothing. */
static const char *parse_balance(const char *text, size_t *group_len, int64_t *range)
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

/* "NAME:SPAN, NAME:SPAN": the next one from *at on. Returns 1; 0: there is no more; -1: it is none. */
static int next_late_queue(const char **at, char name[static CONFIG_QUEUE_SIZE], double *ms)
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

/* What of the settings of a section "alert" can be told wrong here. */
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
		while ((rc = next_late_queue(&at, queue, &ms)) > 0)
			;
		if (rc < 0)
			wrong = "is not a list such as 'mail:2min, reports:6h', with spans up to 30d";
	}
	return wrong ? error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' %s", place, text, wrong) : 0;
}

bool config_late_queue(const struct config *config, const char **at, char name[static CONFIG_QUEUE_SIZE], int64_t *ms)
{
	double span;

	if (!*at)
		*at = config_text(config, "alert.late_queues");
	if (!*at || next_late_queue(at, name, &span) <= 0)
		return false;
	*ms = (int64_t)(span + 0.5);
	return true;
}

static int parse_text(const struct config_setting *s, const char *text, struct value *value, const char *place,
		      struct deferred_error *err)
{
	int rc;

	if (strcmp(s->name, "application") == 0 && !is_file_name(text))
		return error_set(err, DEFERRED_ECONFIG, WHERE,
				 "%s: value '%.64s' is not a name of letters, digits, '_', '.' and '-'", place, text);
	if (strcmp(s->name, "balance") == 0 && text[0]) {
		size_t group_len;
		const char *wrong = parse_balance(text, &group_len, &value->number);

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
	if (strcasestr(text, "mon") || strcasestr(text, "year"))
		return "has months or years, whose length varies: use days, such as 30d";
	return "is not a time span " SPAN_FORMS;
}

/* Check text and convert it. value->text is given. */
static int parse_value(const struct config_setting *s, const char *text, struct value *value, const char *place,
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
		return error_set(err, DEFERRED_EINVAL, WHERE, "'%.64s' %s", text, not_a_span(text));
	if (number > SPAN_MAX_MS)
		return error_set(err, DEFERRED_EINVAL, WHERE,
				 "time span '%.64s' is longer than 36525d, a hundred years", text);
	*ms = (int64_t)(number + 0.5);
	return 0;
}

int config_parse_real(const char *text, double *number)
{
	const char *rest = span_decimal(text, number);

	return rest && *rest == '\0' ? 0 : DEFERRED_EINVAL;
}

/* ---- the table */

static const struct config_setting *find_setting(const char *name)
{
	const struct config_setting *s = config_settings;

	while (s->name && strcmp(s->name, name) != 0)
		s++;
	return s->name ? s : NULL;
}

static int set_value(struct config *config, const struct config_setting *s, const char *text, const char *place,
		     struct deferred_error *err)
{
	struct value value;
	int rc = parse_value(s, text, &value, place, err);

	if (rc < 0)
		return rc;
	value.given = true;
	free(config->values[s - config_settings].text);
	config->values[s - config_settings] = value;
	return 0;
}

/* ---- the file: its grammar is known to deferred_config, types and ranges to the table */

static int out_of_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, WHERE, "cannot read the settings: out of memory");
}

static int add_pair(struct config *config, const char *plugin, const char *name, const char *value,
		    struct deferred_error *err)
{
	struct pair *pairs = realloc(config->pairs, (config->pairs_len + 1) * sizeof(*pairs)), *pair;

	if (!pairs)
		return out_of_memory(err);
	config->pairs = pairs;
	pair = &pairs[config->pairs_len++];
	pair->value = strdup(value);
	if (asprintf(&pair->name, "settings.%s.%s", plugin, name) < 0)
		pair->name = NULL;
	return pair->name && pair->value ? 0 : out_of_memory(err);
}

static int add_command(struct config *config, const char *name, struct deferred_error *err)
{
	struct config_command *commands = realloc(config->commands, (config->commands_len + 1) * sizeof(*commands)),
			      *command;

	if (!commands)
		return out_of_memory(err);
	config->commands = commands;
	command = &commands[config->commands_len++];
	memset(command, 0, sizeof(*command));
	command->name = strdup(name);
	command->argv = calloc(1, sizeof(*command->argv));
	return command->name && command->argv ? 0 : out_of_memory(err);
}

static int add_word(struct config_command *command, const char *word, struct deferred_error *err)
{
	size_t n = 0;
	char **argv;

	while (command->argv[n])
		n++;
	if (!(argv = realloc((void *)command->argv, (n + 2) * sizeof(*argv))))
		return out_of_memory(err);
	command->argv = (const char *const *)argv;
	argv[n + 1] = NULL;
	return (argv[n] = strdup(word)) ? 0 : out_of_memory(err);
}

static int add_schedule(struct config *config, const char *name, struct deferred_error *err)
{
	struct config_schedule *schedules =
		realloc(config->schedules, (config->schedules_len + 1) * sizeof(*schedules));

	if (!schedules)
		return out_of_memory(err);
	config->schedules = schedules;
	schedules[config->schedules_len] = (struct config_schedule){ strdup(name), NULL, 0 };
	return schedules[config->schedules_len++].name ? 0 : out_of_memory(err);
}

/* Of the schedule that was added last. */
static int add_member(struct config *config, const char *name, const char *value, struct deferred_error *err)
{
	struct config_schedule *s = config->schedules_len > 0 ? &config->schedules[config->schedules_len - 1] : NULL;
	struct config_member *members = s ? realloc(s->members, (s->len + 1) * sizeof(*members)) : NULL;

	if (!members)
		return out_of_memory(err);
	s->members = members;
	members[s->len] = (struct config_member){ strdup(name), strdup(value) };
	s->len++;
	return members[s->len - 1].name && members[s->len - 1].value ? 0 : out_of_memory(err);
}

static int add_shard(struct config *config, const char *name, const char *number, const char *conninfo,
		     struct deferred_error *err)
{
	struct config_shard *shards = realloc(config->shards, (config->shards_len + 1) * sizeof(*shards)), *shard;

	if (!shards)
		return out_of_memory(err);
	config->shards = shards;
	shard = &shards[config->shards_len++];
	*shard = (struct config_shard){ strdup(name), strdup(conninfo), atoi(number), true };
	return shard->name && shard->conninfo ? 0 : out_of_memory(err);
}

/* Of a setting, or of a member of a function, which shares type and range with the setting of that name. */
static int take_value(struct config *config, bool set, const char *line, const char *name, const char *text,
		      struct deferred_error *err)
{
	const struct config_setting *s = find_setting(name);
	struct value value = { 0 };
	char place[PLACE_SIZE];
	int rc;

	if (!s)
		return error_set(err, DEFERRED_ECONFIG, WHERE, "%.256s:%s: setting '%.64s' is unknown", config->path,
				 line, name);
	snprintf(place, sizeof(place), "%.256s:%s: setting '%s'", config->path, line, name);
	if (set)
		return set_value(config, s, text, place, err);
	rc = parse_value(s, text, &value, place, err);
	free(value.text);
	return rc;
}

/* Of the function that was added last; checked when it was met. */
static int take_limit(struct config *config, const char *name, const char *text, struct deferred_error *err)
{
	struct config_command *command = &config->commands[config->commands_len - 1];
	struct value value = { 0 };
	int rc = parse_value(find_setting(name), text, &value, name, err);

	if (strcmp(name, "timeout") == 0)
		command->timeout_ms = value.number;
	else
		command->max_attempts = (int32_t)value.number;
	free(value.text);
	return rc;
}

static int take_record(struct config *config, char kind, const char *const t[3], struct deferred_error *err)
{
	switch (kind) {
	case 's':
	case 'v':
		return take_value(config, kind == 's', t[0], t[1], t[2], err);
	case 'f':
		return add_command(config, t[0], err);
	case 'p':
		return add_pair(config, t[0], t[1], t[2], err);
	case 'S':
		return add_schedule(config, t[0], err);
	case 'o':
		return add_member(config, t[0], t[1], err);
	case 'H':
		return add_shard(config, t[0], t[1], t[2], err);
	case 'h':
		if (config->shards_len == 0)
			return out_of_memory(err);
		config->shards[config->shards_len - 1].accepting = t[0][0] == '1';
		return 0;
	case 'e':
		error_set(err, DEFERRED_ECONFIG, WHERE, "%s:%s: %s", config->path, t[0], t[1]);
		if (*t[2])
			error_hint(err, "%s", t[2]);
		return DEFERRED_ECONFIG;
	}
	if (config->commands_len == 0)
		return out_of_memory(err);
	if (kind == 'n') {
		config->commands[config->commands_len - 1].new_privileges = true;
		return 0;
	}
	if (kind == 'c')
		return add_word(&config->commands[config->commands_len - 1], t[0], err);
	return take_limit(config, kind == 't' ? "timeout" : "max_attempts", t[0], err);
}

/* The records of config_reader.h. One that is not whole, and an end without the last record, say that the child has
 * died. */
static int take_answer(struct config *config, const char *answer, size_t len, struct deferred_error *err)
{
	static const char kinds[] = "svfpectmnSoHh", texts[] = "3313311101231";
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && at + 2 <= len && answer[at + 1] == '\0') {
		const char *known = answer[at] ? strchr(kinds, answer[at]) : NULL, *t[3] = { "", "", "" };
		char kind = answer[at];
		int n = known ? texts[known - kinds] - '0' : 0;

		if (kind == '.' && at + 2 == len)
			return 0;
		at += 2;
		for (int i = 0; i < n; i++) {
			const char *end = at < len ? memchr(answer + at, '\0', len - at) : NULL;

			if (!end)
				return out_of_memory(err);
			t[i] = answer + at;
			at = (size_t)(end - answer) + 1;
		}
		rc = known ? take_record(config, kind, t, err) : out_of_memory(err);
	}
	return rc < 0 ? rc : out_of_memory(err);
}

static int parse_file(struct config *config, const char *text, size_t len, struct deferred_error *err)
{
	size_t answer_len;
	char *answer = NULL;
	int rc;

	if (text[strspn(text, " \t\r\n")] == '\0')
		return 0; /* nothing is set in it: no child for that */
	rc = config_reader_run(text, len, &answer, &answer_len, err);
	if (rc == 0)
		rc = take_answer(config, answer, answer_len, err);
	if (rc == 0)
		config_reader_keep(text, len, answer, answer_len);
	free(answer);
	return rc;
}

/* Words of the file: where the text that is looked at stands. */
struct word {
	const char *at;
	int len;
};

/*
 * `text` follows "${". libconfuse reads a variable that is not set as empty text, and empty text turns many settings
 * off. It does not expand a default, and it looks for the closing brace in all of the file.
 */
static int check_variable(const struct config *config, int line, struct word section, struct word setting,
			  const char *text, struct deferred_error *err)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
	size_t end = strcspn(text, "}\"\n"), len = strspn(text, letters);
	bool defaults = strncmp(text + len, ":-", 2) == 0;
	char place[PLACE_SIZE];

	snprintf(place, sizeof(place), "%.256s:%d: setting '%.*s%s%.*s'", config->path, line, section.len,
		 section.at ? section.at : "", section.len ? "." : "", setting.len, setting.at ? setting.at : "");
	if (text[end] != '}' || len == 0 || isdigit((unsigned char)text[0]) || (!defaults && len < end) ||
	    memmem(text, end, "${", 2))
		return error_set(err, DEFERRED_ECONFIG, WHERE, "%s: '${%.*s' is neither ${NAME} nor ${NAME:-default}",
				 place, end < 64 ? (int)end + (text[end] == '}') : 64, text);
	if (defaults || config_reader_knows(text, len))
		return 0;
	if (len > 64)
		len = 64;
	error_set(err, DEFERRED_ECONFIG, WHERE, "%s: environment variable %.*s is not set, or empty", place, (int)len,
		  text);
	error_hint(err, "set it, or give a default: ${%.*s:-default}", (int)len, text);
	return DEFERRED_ECONFIG;
}

/*
 * Blank out the comments and see that strings, comments and braces are closed. libconfuse does not mind those
 * that are left open at the end of the file, and loses count of the lines where there are comments.
 */
static int clean_text(struct config *config, char *text, size_t len, struct deferred_error *err)
{
	int line = 1, start = 0, depth = 0, opened[8] = { 0 }, list_depth = 0;
	struct word word = { 0 }, section = { 0 }, list = { 0 }; /* `list`: the setting whose values stand in braces */
	enum { PLAIN, STRING, LINE_COMMENT, BLOCK_COMMENT } state = PLAIN;
	char quote = 0;
	bool in_word = false;

	for (char *p = text; p < text + len; p++) {
		char c = *p;

		if (c == '\0')
			return error_set(err, DEFERRED_ECONFIG, WHERE, "%s:%d: NUL byte", config->path, line);
		line += c == '\n';
		if (c == '$' && p[1] == '{' && (state == PLAIN || (state == STRING && quote == '"')) &&
		    check_variable(config, line, section, list.at && depth > list_depth ? list : word, p + 2, err) < 0)
			return DEFERRED_ECONFIG;
		switch (state) {
		case PLAIN:
			start = line;
			if (c == '#' || (!in_word && c == '/' && p[1] == '/')) {
				state = LINE_COMMENT;
				*p = ' ';
			} else if (!in_word && c == '/' && p[1] == '*') {
				state = BLOCK_COMMENT;
				*p++ = ' '; /* or its star would close it again */
				*p = ' ';
			} else if (c == '"' || c == '\'') {
				state = STRING;
				quote = c;
			} else if (c == '{') {
				if (depth < 8)
					opened[depth] = line;
				if (depth++ == 0)
					section = word;
			} else if (c == '}' && depth > 0) {
				if (--depth == 0)
					section.len = 0;
			} else if (c == '=') {
				list = word;
				list_depth = depth;
			}
			if (state != PLAIN || strchr(" \t\r\n={}()+,", c)) {
				in_word = false;
				break;
			}
			if (!in_word)
				word = (struct word){ p, 0 };
			word.len++;
			in_word = true;
			break;
		case STRING:
			if (c == '\\' && p[1])
				line += *++p == '\n';
			else if (c == quote)
				state = PLAIN;
			break;
		case LINE_COMMENT:
			if (c == '\n')
				state = PLAIN;
			else
				*p = ' ';
			break;
		case BLOCK_COMMENT:
			if (c == '*' && p[1] == '/') {
				state = PLAIN;
				*p++ = ' ';
			}
			if (c != '\n')
				*p = ' ';
			break;
		}
	}
	if (state == STRING || state == BLOCK_COMMENT)
		return error_set(err, DEFERRED_ECONFIG, WHERE, "%s:%d: %s is never closed", config->path, start,
				 state == STRING ? "string" : "comment");
	if (depth > 0)
		return error_set(err, DEFERRED_ECONFIG, WHERE, "%s:%d: brace is never closed", config->path,
				 opened[depth <= 8 ? depth - 1 : 7]);
	return 0;
}

/* The file names commands and plugins: who can write it can do what this process can. That may be root. A device, such
 * as
 * /dev/null, is not written into for good. */
static int check_writers(const struct config *config, FILE *fp, struct deferred_error *err)
{
	struct stat st;

	if (geteuid() != 0)
		return 0;
	if (fstat(fileno(fp), &st) < 0)
		return error_errno(err, DEFERRED_ECONFIG, WHERE, "cannot read config file '%s'", config->path);
	if (S_ISCHR(st.st_mode))
		return 0;
	if (st.st_uid != 0) {
		error_set(err, DEFERRED_ECONFIG, WHERE, "config file '%.300s' belongs to user %u, not to root",
			  config->path, (unsigned int)st.st_uid);
		error_hint(err, "who can write it could have root run commands: chown root it, or do not run as root");
	} else if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		error_set(err, DEFERRED_ECONFIG, WHERE, "config file '%.300s' is writable by others (mode %04o)",
			  config->path, (unsigned int)st.st_mode & 07777);
		error_hint(err, "chmod go-w \"%.200s\"", config->path);
	} else {
		return 0;
	}
	return DEFERRED_ECONFIG;
}

/* A file that everybody reads is no place for a password. The values are those of the file so far. */
static int check_readers(const struct config *config, FILE *fp, struct deferred_error *err)
{
	const char *conninfo = config_text(config, "database.conninfo");
	bool secret = config_text(config, "mail.password") || (conninfo && secret_in_conninfo(conninfo));
	struct stat st;

	for (size_t i = 0; i < config->shards_len; i++)
		secret |= secret_in_conninfo(config->shards[i].conninfo);
	if (!secret)
		return 0;
	if (fstat(fileno(fp), &st) == 0 && secret_file_ok(&st))
		return 0;
	error_set(err, DEFERRED_ECONFIG, WHERE, "config file '%.200s' has a password in it, and " SECRET_FILE_WRONG,
		  config->path, (unsigned int)st.st_mode & 07777);
	error_hint(err, "or keep passwords elsewhere: ~/.pgpass, mail.password_file");
	return DEFERRED_ECONFIG;
}

static int read_file(struct config *config, struct deferred_error *err)
{
	char *text = NULL;
	FILE *fp = fopen(config->path, "re");
	size_t len;
	int rc;

	if (!fp) {
		error_errno(err, DEFERRED_ECONFIG, WHERE, "cannot read config file '%s'", config->path);
		if (errno == EACCES)
			error_hint(err, "make it readable for this user, or set DEFERRED_CONFIG to another file");
		return DEFERRED_ECONFIG;
	}
	rc = check_writers(config, fp, err);
	if (rc < 0)
		goto out;
	text = malloc(FILE_MAX_BYTES + 2);
	if (!text) {
		rc = out_of_memory(err);
		goto out;
	}
	len = fread(text, 1, FILE_MAX_BYTES + 1, fp);
	if (ferror(fp)) {
		rc = error_errno(err, DEFERRED_ECONFIG, WHERE, "cannot read config file '%s'", config->path);
	} else if (len > FILE_MAX_BYTES) {
		rc = error_set(err, DEFERRED_ECONFIG, WHERE, "config file '%s' is larger than %d bytes", config->path,
			       FILE_MAX_BYTES);
	} else {
		text[len] = '\0';
		rc = clean_text(config, text, len, err);
		if (rc == 0)
			rc = parse_file(config, text, len, err);
		if (rc == 0)
			rc = check_readers(config, fp, err);
	}
out:
	free(text);
	fclose(fp);
	return rc;
}

/* ---- the environment */

static void env_name(const struct config_setting *s, char *buf, size_t size)
{
	size_t n = (size_t)snprintf(buf, size, "DEFERRED_");

	if (s->env) {
		snprintf(buf, size, "%s", s->env);
		return;
	}
	for (const char *p = s->name; *p && n + 1 < size; p++)
		buf[n++] = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
	buf[n] = '\0';
}

/* An empty variable counts as one that is not set. */
static int read_environment(struct config *config, struct deferred_error *err)
{
	char name[64], place[128];
	int rc = 0;

	for (const struct config_setting *s = config_settings; rc == 0 && s->name; s++) {
		const char *text;

		env_name(s, name, sizeof(name));
		text = name[0] ? getenv(name) : NULL;
		if (!text || !text[0])
			continue;
		snprintf(place, sizeof(place), "environment variable %s", name);
		rc = set_value(config, s, text, place, err);
	}
	return rc;
}

/* ---- public */

static int set_defaults(struct config *config, struct deferred_error *err)
{
	int rc = 0;

	for (const struct config_setting *s = config_settings; rc == 0 && s->name; s++)
		if (s->def)
			rc = set_value(config, s, s->def, s->name, err);
	for (size_t i = 0; config_settings[i].name; i++)
		config->values[i].given = false;
	return rc;
}

static size_t table_len(void)
{
	size_t n = 0;

	while (config_settings[n].name)
		n++;
	return n;
}

/* The hook is a function like others, but for its name, which no producer can call. */
static int add_hook(struct config *config, struct deferred_error *err)
{
	int rc = add_command(config, JOB_HOOK_FN, err);

	return rc == 0 ? add_word(&config->commands[config->commands_len - 1], config_text(config, "alert.command"),
				  err)
		       : rc;
}

static int hint_settings(int rc, struct deferred_error *err)
{
	if (rc == DEFERRED_ECONFIG)
		error_hint(err, "deferred.conf(5) describes the settings");
	return rc;
}

int config_load(struct config **result, const char *path, struct deferred_error *err)
{
	struct config *config = calloc(1, sizeof(*config));
	bool may_be_missing = false;
	int rc = 0;

	if (!path || !path[0])
		path = getenv("DEFERRED_CONFIG");
	if (!path || !path[0]) {
		path = DEFERRED_SYSCONFDIR "/deferred/deferred.conf";
		may_be_missing = access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
	}
	if (!config || !(config->values = calloc(table_len(), sizeof(*config->values))) ||
	    (!may_be_missing && !(config->path = strdup(path))))
		rc = out_of_memory(err);
	if (rc == 0)
		rc = set_defaults(config, err);
	if (rc == 0 && config->path)
		rc = read_file(config, err);
	if (rc == 0)
		rc = read_environment(config, err);
	if (rc == 0)
		rc = config_use_shard(config, err);
	if (rc == 0 && config_text(config, "alert.command"))
		rc = add_hook(config, err);
	if (rc < 0) {
		config_free(config);
		return hint_settings(rc, err);
	}
	*result = config;
	return 0;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (size_t i = 0; config->values && config_settings[i].name; i++)
		free(config->values[i].text);
	for (size_t i = 0; i < config->pairs_len; i++) {
		free(config->pairs[i].name);
		free(config->pairs[i].value);
	}
	for (size_t i = 0; i < config->schedules_len; i++) {
		for (size_t k = 0; k < config->schedules[i].len; k++) {
			free(config->schedules[i].members[k].name);
			free(config->schedules[i].members[k].value);
		}
		free(config->schedules[i].members);
		free(config->schedules[i].name);
	}
	free(config->schedules);
	for (size_t i = 0; i < config->shards_len; i++) {
		free(config->shards[i].name);
		free(config->shards[i].conninfo);
	}
	free(config->shards);
	for (size_t i = 0; i < config->commands_len; i++) {
		struct config_command *command = &config->commands[i];

		for (size_t k = 0; command->argv && command->argv[k]; k++)
			free((char *)command->argv[k]);
		free((void *)command->argv);
		free((char *)command->name);
	}
	free(config->values);
	free(config->pairs);
	free(config->commands);
	free(config->path);
	free(config);
}

int config_override(struct config *config, const char *name, const char *value, const char *option,
		    struct deferred_error *err)
{
	const struct config_setting *s = find_setting(name);
	char place[128];

	assert(s);
	snprintf(place, sizeof(place), "option '%s'", option);
	if (s->type == CONFIG_MS && span_lacks_unit(value)) {
		error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' has no unit", place, value);
		error_hint(err, SPAN_HINT);
		return DEFERRED_ECONFIG;
	}
	return hint_settings(set_value(config, s, value, place, err), err);
}

static const struct value *value_of(const struct config *config, const char *name)
{
	const struct config_setting *s = find_setting(name);

	assert(s);
	return &config->values[s - config_settings];
}

const char *config_text(const struct config *config, const char *name)
{
	return value_of(config, name)->text;
}

int64_t config_int(const struct config *config, const char *name)
{
	return value_of(config, name)->number;
}

int64_t config_range_min(const struct config *config, const char *name)
{
	return (int64_t)value_of(config, name)->real;
}

double config_real(const struct config *config, const char *name)
{
	return value_of(config, name)->real;
}

bool config_flag(const struct config *config, const char *name)
{
	return value_of(config, name)->number != 0;
}

bool config_balance(const struct config *config, char *group, size_t size, int64_t *range)
{
	const char *text = config_text(config, "balance");
	size_t len;

	/* Checked when it was set. */
	if (!text || parse_balance(text, &len, range) || len >= size)
		return false;
	memcpy(group, text, len);
	group[len] = '\0';
	return true;
}

bool config_given(const struct config *config, const char *name)
{
	return value_of(config, name)->given;
}

int config_each_public(const struct config *config, int (*f)(void *data, const char *name, const char *value),
		       void *data)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && config_settings[i].name; i++)
		if (config->values[i].text && strncmp(config_settings[i].name, "database.", 9) != 0 &&
		    strncmp(config_settings[i].name, "http.", 5) != 0 &&
		    strncmp(config_settings[i].name, "web.", 4) != 0 &&
		    strncmp(config_settings[i].name, "alert.", 6) != 0 &&
		    strncmp(config_settings[i].name, "breaker.", 8) != 0)
			rc = f(data, config_settings[i].name, config->values[i].text);
	for (size_t i = 0; rc == 0 && i < config->pairs_len; i++)
		rc = f(data, config->pairs[i].name, config->pairs[i].value);
	return rc;
}

const struct config_schedule *config_schedules(const struct config *config, size_t *len)
{
	*len = config->schedules_len;
	return config->schedules;
}

const struct config_shard *config_shards(const struct config *config, size_t *len)
{
	*len = config->shards_len;
	return config->shards;
}

const struct config_shard *config_shard(const struct config *config)
{
	const char *name = config_text(config, "database.shard");

	for (size_t i = 0; name && i < config->shards_len; i++)
		if (strcmp(config->shards[i].name, name) == 0)
			return &config->shards[i];
	return NULL;
}

bool config_by_shards(const struct config *config)
{
	return config->shards_len > 0 && !config_given(config, "database.conninfo");
}

int config_use_shard(struct config *config, struct deferred_error *err)
{
	const struct config_shard *shard = config_shard(config);

	if (shard)
		return set_value(config, find_setting("database.conninfo"), shard->conninfo, "shard", err);
	if (!config_text(config, "database.shard"))
		return 0;
	error_set(err, DEFERRED_ECONFIG, WHERE, "shard '%.64s' does not exist%s%.200s",
		  config_text(config, "database.shard"), config->path ? " in " : "", config->path ? config->path : "");
	if (config->shards_len > 0)
		error_hint(err, "list the shards: deferred shard ls");
	else
		error_hint(err, "add a section to the config file: shard \"NAME\" { number = 1 conninfo = \"...\" }");
	return DEFERRED_ECONFIG;
}

const char *config_pidfile(const struct config *config, char *buf, size_t size)
{
	const char *set = config_text(config, "pidfile"), *shard = config_text(config, "database.shard");

	if (set && *set)
		return set;
	snprintf(buf, size, "/run/defer_%s%s%s", config_text(config, "application"), shard ? "_" : "",
		 shard ? shard : "");
	return buf;
}

const struct config_command *config_commands(const struct config *config, size_t *len)
{
	*len = config->commands_len;
	return config->commands;
}

const char *config_key_file(const struct config *config)
{
	const char *path = config_text(config, "http.key_file");

	return path ? path : DEFERRED_SYSCONFDIR "/deferred/http.key";
}

const char *config_plugin_dir(const struct config *config)
{
	const char *dir = config_text(config, "plugin_dir");

	return dir ? dir : plugin_default_dir();
}

const char *config_path(const struct config *config)
{
	return config->path;
}
