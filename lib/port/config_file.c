/* SPDX-License-Identifier: MIT */
/*
 * The grammar of a config file:
 *
 *     file    = { setting | NAME "{" { setting } "}" | KIND TITLE "{" { setting } "}" }
 *     setting = NAME "=" VALUE
 *             | NAME ( "=" | "+=" ) ( VALUE | "{" [ VALUE { "," VALUE } [ "," ] ] "}" )      for lists
 *
 * Names, kinds, titles and values are the same token, TEXT: a word, a string in quotes or a variable. next_token()
 * splits the file into tokens. Settings and their sections are in config_settings, sections with a title in `kinds`.
 */
#include "port/config_file.h"
#include "port/secret_file.h"

#include "base/shard_route.h"
#include "base/text/names.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE "config"
#define FILE_MAX_BYTES (1024 * 1024)
#define EXPANDED_MAX_BYTES (16 * 1024 * 1024)
#define PLACE_SIZE 512
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

enum { END = 0, TEXT = 't' }; /* other tokens are one of "{}()=,", or "+" for "+=" */

struct reader {
	struct config *config;
	const char *at; /* the rest of the file; a NUL ends it */
	int line;       /* of `at` */
	int value_line; /* of the last "=" or value */
	char *text;     /* of the token that was read last */
	size_t len, size;
	size_t expanded;     /* bytes that the values of variables took */
	const char *section; /* the name of the section that is read; NULL: none */
	const char *title;   /* its title; NULL: none */
	char *name;          /* of the setting that is read; NULL: none */
	struct deferred_error *err;
};

static const char quotes_hint[] =
	"put a value with blanks or special characters in quotes, such as timeout = \"5 minutes\"";

/* ---- errors ----------------------------------------------------------------------------------- */

static int out_of_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, WHERE, "cannot read the settings: out of memory");
}

static int fail(struct reader *r, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(struct reader *r, int line, const char *fmt, ...)
{
	char text[384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; (p = strpbrk(p, "\r\n\t"));)
		*p = ' '; /* a message is one line */
	return error_set(r->err, DEFERRED_ECONFIG, WHERE, "%.256s:%d: %s", r->config->path, line, text);
}

/* A token is not what the grammar asks for. */
static int fail_syntax(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail_syntax(struct reader *r, const char *fmt, ...)
{
	char text[384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fail(r, r->line, "%s", text);
	if (r->line == r->value_line)
		error_hint(r->err, "%s", quotes_hint);
	return DEFERRED_ECONFIG;
}

/* The setting that is read, as messages name it. */
static const char *setting_name(const struct reader *r, char buf[static PLACE_SIZE])
{
	snprintf(buf, PLACE_SIZE, "setting '%.64s%s%.64s'", r->section ? r->section : "",
		 r->section && r->name ? "." : "", r->name ? r->name : "");
	return buf;
}

/* `what` is missing before the token that was read. */
static int fail_missing(struct reader *r, const char *object, const char *what, int token)
{
	if (token == END)
		return fail_syntax(r, "%s has no %s before the end of the file", object, what);
	return fail_syntax(r, "%s has no %s before '%.64s'", object, what, r->text);
}

/* ---- tokens ----------------------------------------------------------------------------------- */

static int append(struct reader *r, const char *bytes, size_t n)
{
	if (r->len + n >= r->size) {
		size_t size = 2 * (r->len + n + 32);
		char *text = realloc(r->text, size);

		if (!text)
			return out_of_memory(r->err);
		r->text = text;
		r->size = size;
	}
	memcpy(r->text + r->len, bytes, n);
	r->len += n;
	r->text[r->len] = '\0';
	return 0;
}

/* The value of an environment variable; NULL: it is not set. */
static const char *variable(const char *name, size_t len)
{
	for (char **e = environ; e && *e; e++)
		if (strncmp(*e, name, len) == 0 && (*e)[len] == '=')
			return *e + len + 1;
	return NULL;
}

/* ${NAME} or ${NAME:-default}. Empty text turns many settings off, so a variable that is not set is an error. */
static int read_variable(struct reader *r)
{
	const char *name = r->at + 2, *end = name + strcspn(name, "}\"\n"), *value;
	size_t len = strspn(name, LETTERS), n;
	bool has_default = strncmp(name + len, ":-", 2) == 0;
	char setting[PLACE_SIZE];

	if (*end != '}' || len == 0 || isdigit((unsigned char)name[0]) || (!has_default && name + len != end) ||
	    memmem(name, (size_t)(end - name), "${", 2))
		return fail(r, r->line, "%s: '${%.*s' is neither ${NAME} nor ${NAME:-default}",
			    setting_name(r, setting), end - name < 64 ? (int)(end - name) + (*end == '}') : 64, name);
	value = variable(name, len);
	n = value ? strlen(value) : 0;
	if (!n && has_default) {
		value = name + len + 2;
		n = (size_t)(end - value);
	}
	if (!n && !has_default) {
		fail(r, r->line, "%s: environment variable %.*s is %s", setting_name(r, setting),
		     len < 64 ? (int)len : 64, name, value ? "empty" : "not set");
		error_hint(r->err, "set it, or give a default: ${%.*s:-default}", len < 64 ? (int)len : 64, name);
		return DEFERRED_ECONFIG;
	}
	if ((r->expanded += n) > EXPANDED_MAX_BYTES)
		return fail(r, r->line, "%s: the values of all variables together are larger than %d bytes",
			    setting_name(r, setting), EXPANDED_MAX_BYTES);
	r->at = end + 1;
	return append(r, value, n);
}

/* A backslash in double quotes, as in C. At the end of a line, a backslash joins the next line to this one. */
static int read_escape(struct reader *r)
{
	static const char letters[] = "nrbfaetv", meant[] = "\n\r\b\f\a\033\t\v";
	const char *p = r->at + 1, *letter = *p ? strchr(letters, *p) : NULL;
	size_t digits = strspn(p, "0123456789"), octal = strspn(p, "01234567");
	char number[4] = "", c = letter ? meant[letter - letters] : *p;

	if (*p == '\n') {
		r->line++;
		r->at += 2;
		return 0;
	}
	r->at += *p ? 2 : 1;
	if (!*p)
		return 0;
	if (digits > 0) {
		memcpy(number, p, digits < 3 ? digits : 3);
		if (digits > 3 || octal < digits || strtol(number, NULL, 8) > 0377)
			return fail(r, r->line, "escape sequence '\\%.*s' is not between \\0 and \\377, in octal",
				    digits < 32 ? (int)digits : 32, p);
		r->at += digits - 1;
		c = (char)strtol(number, NULL, 8);
	} else if (*p == 'x' && isxdigit((unsigned char)p[1])) {
		memcpy(number, p + 1, isxdigit((unsigned char)p[2]) ? 2 : 1);
		r->at += strlen(number);
		c = (char)strtol(number, NULL, 16);
	}
	return append(r, &c, 1);
}

static int read_quoted(struct reader *r, char quote)
{
	int start = r->line, rc = append(r, "", 0);

	for (r->at++; rc == 0 && *r->at != quote;) {
		if (!*r->at)
			return fail(r, start, "string is never closed");
		if (*r->at == '\\' && (quote == '"' || r->at[1] == '\n')) {
			rc = read_escape(r);
		} else if (r->at[0] == '$' && r->at[1] == '{' && quote == '"') {
			rc = read_variable(r);
		} else {
			r->at += *r->at == '\\' && (r->at[1] == '\\' || r->at[1] == '\'');
			r->line += *r->at == '\n';
			rc = append(r, r->at++, 1);
		}
	}
	r->at++;
	return rc < 0 ? rc : TEXT;
}

static int read_word(struct reader *r)
{
	size_t n = strcspn(r->at, " \t\r\n#\"'={}()+,*");
	int rc = append(r, r->at, n);

	if (rc == 0 && r->at[n] == '{' && r->at[n - 1] == '$') {
		fail(r, r->line, "'%.64s{': text around a variable is not in quotes", r->text);
		error_hint(r->err, "put all of the text in double quotes");
		return DEFERRED_ECONFIG;
	}
	r->at += n;
	return rc < 0 ? rc : TEXT;
}

/* Skip blanks and comments. */
static int skip_blanks(struct reader *r)
{
	for (;; r->at++) {
		const char *end;

		if (*r->at == '#' || (r->at[0] == '/' && r->at[1] == '/')) {
			r->at += strcspn(r->at, "\n");
		} else if (r->at[0] == '/' && r->at[1] == '*') {
			if (!(end = strstr(r->at + 2, "*/")))
				return fail(r, r->line, "comment is never closed");
			for (; r->at <= end; r->at++)
				r->line += *r->at == '\n';
			continue;
		}
		if (!*r->at || !strchr(" \t\r\n", *r->at))
			return 0;
		r->line += *r->at == '\n';
	}
}

/* The next token, or an error. Its text is in r->text. */
static int next_token(struct reader *r)
{
	size_t n = 1;
	int rc = skip_blanks(r);
	char c = *r->at;

	r->len = 0;
	if (rc < 0 || c == '\0')
		return rc < 0 ? rc : END;
	if (c == '"' || c == '\'')
		return read_quoted(r, c);
	if (c == '$' && r->at[1] == '{')
		return (rc = read_variable(r)) < 0 ? rc : TEXT;
	if (c == '*' || (c == '+' && r->at[1] != '=')) {
		fail(r, r->line, "'%c' is not in quotes", c);
		error_hint(r->err, "%s", quotes_hint);
		return DEFERRED_ECONFIG;
	}
	if (!strchr("{}()=,+", c))
		return read_word(r);
	n += c == '+';
	rc = append(r, r->at, n);
	r->at += n;
	return rc < 0 ? rc : c;
}

/* ---- sections with a title --------------------------------------------------------------------- */

static const char *const function_members[] = {
	"command",	"program",	  "timeout",	     "max_attempts", "batch",
	"batch_wait", "new_privileges", "progress_resets", NULL,
};
static const char *const program_members[] = {
	"command", "directory", "max_jobs", "max_memory", "start_timeout", "watch", "max_attempts", "timeout", NULL,
};
static const char *const schedule_members[] = {
	"rule",
	"function",
	"params",
	"timezone",
	"queue",
	"missed",
	"late",
	"overlap",
	"jitter",
	"label",
	"priority",
	"expires",
	"max_attempts",
	"timeout",
	"backoff_floor",
	"backoff_ceiling",
	"backoff_exponent",
	"concurrency_key",
	"concurrency",
	NULL,
};
static const char *const shard_members[] = { "number", "conninfo", "accepting", NULL };

static int check_flag(struct reader *r, const struct config_section *s, const char *name)
{
	const char *text = config_section_get(s, name);

	if (text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return fail(r, r->line, "function '%s': %s must be 0 or 1, not '%.64s'", s->name, name, text);
	return 0;
}

static int end_function(struct reader *r, const struct config_section *s)
{
	const char *command = config_section_get(s, "command"), *program = config_section_get(s, "program");

	if (!names_is_function(s->name))
		return fail(r, r->line,
			    "function '%.64s': a name has 1 to 127 letters, digits, '_' and '.', "
			    "and begins with a letter or '_'",
			    s->name);
	if (command && program)
		return fail(r, r->line, "function '%s' has both a command and a program", s->name);
	if (!command && !program)
		return fail(r, r->line, "function '%s' has neither a command nor a program", s->name);
	if (command && command[0] != '/')
		return fail(r, r->line, "function '%s': command '%.64s' is not an absolute path", s->name, command);
	if (program && config_section_get(s, "new_privileges"))
		return fail(r, r->line, "function '%s': new_privileges is only for commands", s->name);
	if (config_section_get(s, "batch_wait") && !config_section_get(s, "batch"))
		return fail(r, r->line, "function '%s' has batch_wait and no batch", s->name);
	if (check_flag(r, s, "new_privileges") < 0 || check_flag(r, s, "progress_resets") < 0)
		return DEFERRED_ECONFIG;
	return config_section_command(r->config, s, r->err);
}

static int end_program(struct reader *r, const struct config_section *s)
{
	const char *command = config_section_get(s, "command"), *directory = config_section_get(s, "directory");
	size_t len = strlen(s->name);

	if (len < 1 || len > 64 || strspn(s->name, LETTERS) != len)
		return fail(r, r->line, "program '%.64s': a name has 1 to 64 letters, digits and '_'", s->name);
	if (r->config->programs_len == CONFIG_PROGRAMS_MAX)
		return fail(r, r->line, "there are more than %d sections 'program'", CONFIG_PROGRAMS_MAX);
	if (!command)
		return fail(r, r->line, "program '%s' has no command", s->name);
	if (command[0] != '/')
		return fail(r, r->line, "program '%s': command '%.64s' is not an absolute path", s->name, command);
	if (directory && directory[0] != '/')
		return fail(r, r->line, "program '%s': directory '%.64s' is not an absolute path", s->name, directory);
	for (size_t i = 0; i < s->len; i++)
		if (strcmp(s->members[i].name, "watch") == 0 && s->members[i].value[0] != '/')
			return fail(r, r->line, "program '%s': watch '%.64s' is not an absolute path", s->name,
				    s->members[i].value);
	return config_section_program(r->config, s, r->err);
}

/* The name becomes part of the name of a file. */
static int end_shard(struct reader *r, const struct config_section *s)
{
	const char *text = config_section_get(s, "number"), *conninfo = config_section_get(s, "conninfo"),
		   *accepting = config_section_get(s, "accepting");
	int number = text && strlen(text) <= 3 && !text[strspn(text, "0123456789")] ? atoi(text) : 0;
	struct config_shard *shards;

	if (!s->name[0] || strchr(".-", s->name[0]) || strlen(s->name) > 32 || s->name[strspn(s->name, LETTERS ".-")])
		return fail(r, r->line, "shard '%.64s': a name has 1 to 32 letters, digits, '_', '.' and '-'", s->name);
	if (number < 1 || number > SHARD_MAX) {
		fail(r, r->line, "shard '%s' has no number from 1 to %d", s->name, SHARD_MAX);
		error_hint(r->err, "add number = N; deferred migrate --shard NAME then stores the number in the "
				   "database for good");
		return DEFERRED_ECONFIG;
	}
	if (accepting && strcmp(accepting, "0") != 0 && strcmp(accepting, "1") != 0)
		return fail(r, r->line, "shard '%s': value '%.64s' of accepting is not 0 or 1", s->name, accepting);
	for (size_t i = 0; i < r->config->shards_len; i++)
		if (r->config->shards[i].number == number)
			return fail(r, r->line, "shards '%s' and '%s' have the same number, %d",
				    r->config->shards[i].name, s->name, number);
	if (!(shards = realloc(r->config->shards, (r->config->shards_len + 1) * sizeof(*shards))))
		return out_of_memory(r->err);
	r->config->shards = shards;
	shards[r->config->shards_len++] =
		(struct config_shard){ s->name, conninfo ? conninfo : "", number, !accepting || accepting[0] == '1' };
	return 0;
}

static const struct kind {
	const char *name;
	const char *const *members; /* NULL: any */
	int (*end)(struct reader *r, const struct config_section *s);
} kinds[CONFIG_KINDS] = {
	[CONFIG_FUNCTION] = { "function", function_members, end_function },
	[CONFIG_PROGRAM] = { "program", program_members, end_program },
	[CONFIG_SETTINGS] = { "settings", NULL, NULL },
	[CONFIG_SCHEDULE] = { "schedule", schedule_members, NULL },
	[CONFIG_SHARD] = { "shard", shard_members, end_shard },
};

/* ---- the grammar ------------------------------------------------------------------------------- */

/* The setting that is read; NULL: there is none of that name. */
static const struct config_setting *table_entry(const struct reader *r)
{
	size_t len = r->section ? strlen(r->section) : 0;

	for (const struct config_setting *s = config_settings; s->name; s++)
		if (r->section ? strncmp(s->name, r->section, len) == 0 && s->name[len] == '.' &&
					 strcmp(s->name + len + 1, r->name) == 0
			       : strcmp(s->name, r->name) == 0 && !strchr(s->name, '.'))
			return s;
	return NULL;
}

static bool is_known(const struct reader *r, const struct kind *kind)
{
	if (!kind)
		return table_entry(r) != NULL;
	for (const char *const *m = kind->members; m && *m; m++)
		if (strcmp(*m, r->name) == 0)
			return true;
	return !kind->members;
}

static int fail_unknown(struct reader *r)
{
	char setting[PLACE_SIZE];

	if (!isalpha((unsigned char)r->name[0]))
		r->value_line = r->line; /* the rest of a value */
	if (r->title)
		return fail_syntax(r, "setting '%.64s' of %s '%.64s' is unknown", r->name, r->section, r->title);
	return fail_syntax(r, "%s is unknown", setting_name(r, setting));
}

static int take_value(struct reader *r, const struct kind *kind, struct config_section *s)
{
	const struct config_setting *setting =
		kind ? config_section_setting((enum config_kind)(kind - kinds), r->name) : table_entry(r);
	char name[PLACE_SIZE], place[2 * PLACE_SIZE];
	struct config_value value = { 0 };
	int rc = 0;

	r->value_line = r->line;
	snprintf(place, sizeof(place), "%.256s:%d: %s", r->config->path, r->line, setting_name(r, name));
	if (!kind)
		return config_value_set(r->config->values, setting, r->text, place, r->err);
	if (setting) {
		rc = config_value_parse(setting, r->text, &value, place, r->err);
		free(value.text);
	}
	if (rc == 0 && s->len == CONFIG_LIST_MAX)
		return fail(r, r->line, "%s '%.64s' has more than %d values", r->section, r->title, CONFIG_LIST_MAX);
	if (rc == 0 && !config_section_put(s, r->name, r->text))
		return out_of_memory(r->err);
	return rc;
}

/* "{" was read. */
static int read_list(struct reader *r, const struct kind *kind, struct config_section *s)
{
	int opened = r->line, token, rc = 0;
	char setting[PLACE_SIZE];

	while (rc == 0 && (token = next_token(r)) != '}') {
		if (token == END)
			return fail(r, opened, "brace is never closed");
		if (token != TEXT)
			return token < 0 ? token : fail_missing(r, setting_name(r, setting), "value", token);
		if ((rc = take_value(r, kind, s)) < 0 || (token = next_token(r)) == '}')
			break;
		if (token == END)
			return fail(r, opened, "brace is never closed");
		if (token != ',')
			return token < 0 ? token : fail_missing(r, setting_name(r, setting), "',' or '}'", token);
	}
	return rc;
}

/* The name of the setting was read. */
static int read_setting(struct reader *r, const struct kind *kind, struct config_section *s)
{
	char setting[PLACE_SIZE];
	int token;
	bool list;

	free(r->name);
	if (!(r->name = strdup(r->text)))
		return out_of_memory(r->err);
	if (!is_known(r, kind))
		return fail_unknown(r);
	list = (kind == &kinds[CONFIG_FUNCTION] || kind == &kinds[CONFIG_PROGRAM]) &&
	       (strcmp(r->name, "command") == 0 || strcmp(r->name, "watch") == 0);
	if ((token = next_token(r)) < 0)
		return token;
	if (token != '=' && !(token == '+' && list))
		return fail_missing(r, setting_name(r, setting), "'='", token);
	if (s && token == '=')
		config_section_drop(s, r->name);
	r->value_line = r->line;
	if ((token = next_token(r)) < 0)
		return token;
	if (token == '{' && list)
		return read_list(r, kind, s);
	if (token != TEXT)
		return fail_missing(r, setting_name(r, setting), "value", token);
	return take_value(r, kind, s);
}

/* Settings up to the end of the section. */
static int read_settings(struct reader *r, const struct kind *kind, struct config_section *s)
{
	int opened = r->line, token, rc = 0;

	while (rc == 0 && (token = next_token(r)) != '}') {
		if (token == END)
			return fail(r, opened, "brace is never closed");
		if (token != TEXT)
			return token < 0 ? token : fail_syntax(r, "unexpected '%.64s'", r->text);
		rc = read_setting(r, kind, s);
		free(r->name);
		r->name = NULL;
	}
	if (s)
		s->line = r->line;
	return rc == 0 && kind && kind->end ? kind->end(r, s) : rc;
}

/* A program may come after its functions. */
static int find_programs(struct reader *r)
{
	for (size_t i = 0; i < r->config->commands_len; i++) {
		struct config_command *c = &r->config->commands[i];
		struct config_program *p = c->program ? config_section_find_program(r->config, c->program) : NULL;

		if (c->program && !p) {
			fail(r, config_section_find(&r->config->sections[CONFIG_FUNCTION], c->name)->line,
			     "function '%s': program '%.64s' does not exist", c->name, c->program);
			error_hint(r->err, "add a section: program \"%.64s\" { command = {\"/usr/bin/...\"} }",
				   c->program);
			return DEFERRED_ECONFIG;
		}
		if (!p)
			continue;
		c->argv = p->argv;
		p->declared = true;
		if (c->timeout_ms == 0)
			c->timeout_ms = p->timeout_ms;
		if (c->max_attempts == 0)
			c->max_attempts = p->max_attempts;
	}
	return 0;
}

static int add_section(struct reader *r, enum config_kind kind, const char *title, struct config_section **s)
{
	struct config_list *list = &r->config->sections[kind];

	if (config_section_find(list, title))
		return fail(r, r->line, "%s '%.64s' appears twice", r->section, title);
	if (list->len == CONFIG_LIST_MAX)
		return fail(r, r->line, "there are more than %d sections '%s'", CONFIG_LIST_MAX, r->section);
	*s = config_section_add(list, title);
	return *s ? 0 : out_of_memory(r->err);
}

/* The name of the section was read. kind: CONFIG_KINDS for one that has no title. */
static int read_section(struct reader *r, enum config_kind kind, const char *name)
{
	const struct kind *k = kind < CONFIG_KINDS ? &kinds[kind] : NULL;
	struct config_section *s = NULL;
	char object[64], *title = NULL;
	int token, rc = 0;

	r->section = name;
	snprintf(object, sizeof(object), "section '%.32s'", name);
	if (k && (token = next_token(r)) != TEXT)
		return token < 0 ? token : fail_missing(r, object, "title", token);
	if (k && !(title = strdup(r->text)))
		return out_of_memory(r->err);
	token = next_token(r);
	if (token != '{')
		rc = token < 0 ? token : fail_missing(r, object, "'{'", token);
	else if (k)
		rc = add_section(r, kind, title, &s);
	free(title);
	r->title = s ? s->name : NULL;
	if (rc == 0)
		rc = read_settings(r, k, s);
	r->section = r->title = NULL;
	return rc;
}

/* Does the table have settings of that section? */
static bool is_section(const char *name)
{
	size_t len = strlen(name);

	for (const struct config_setting *s = config_settings; s->name; s++)
		if (strncmp(s->name, name, len) == 0 && s->name[len] == '.')
			return true;
	return false;
}

/* A setting or a section; its first word was read. */
static int read_entry(struct reader *r)
{
	char name[64];

	for (int kind = 0; kind < CONFIG_KINDS; kind++)
		if (strcmp(kinds[kind].name, r->text) == 0)
			return read_section(r, (enum config_kind)kind, kinds[kind].name);
	if (is_section(r->text)) {
		snprintf(name, sizeof(name), "%s", r->text);
		return read_section(r, CONFIG_KINDS, name);
	}
	return read_setting(r, NULL, NULL);
}

static int read_text(struct config *config, const char *text, size_t len, struct deferred_error *err)
{
	const char *nul = memchr(text, '\0', len);
	struct reader r = { .config = config, .at = text, .line = 1, .err = err };
	int token, rc = 0;

	for (const char *p = text; nul && p < nul; p++)
		r.line += *p == '\n';
	if (nul)
		return fail(&r, r.line, "NUL byte");
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0) /* the byte order mark that some editors write */
		r.at += 3;
	while (rc == 0 && (token = next_token(&r)) != END) {
		if (token == TEXT)
			rc = read_entry(&r);
		else
			rc = token < 0 ? token : fail_syntax(&r, "unexpected '%.64s' outside sections", r.text);
	}
	if (rc == 0)
		rc = find_programs(&r);
	free(r.name);
	free(r.text);
	return rc;
}

/* ---- the file ---------------------------------------------------------------------------------- */

static int cannot_read(const struct config *config, struct deferred_error *err)
{
	if (errno == ENOENT || errno == ENOTDIR)
		return error_set(err, DEFERRED_ECONFIG, WHERE,
				 "config file '%s' does not exist\n"
				 "create it, or leave out --config and DEFERRED_CONFIG",
				 config->path);
	return error_errno(err, DEFERRED_ECONFIG, WHERE,
			   "cannot read config file '%s'\n"
			   "let this user read it, or name another file with --config or DEFERRED_CONFIG",
			   config->path);
}

/*
 * The file names commands and plugins. A user who can write the file can have root run a command. A device such as
 * /dev/null stores nothing.
 */
static int check_writers(const struct config *config, FILE *fp, struct deferred_error *err)
{
	struct stat st;

	if (geteuid() != 0)
		return 0;
	if (fstat(fileno(fp), &st) < 0)
		return cannot_read(config, err);
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

/* A file that everybody can read must not contain a password. So far, all values are those of the file. */
static int check_readers(const struct config *config, FILE *fp, struct deferred_error *err)
{
	const char *conninfo = config->values[config_setting("database.conninfo") - config_settings].text;
	bool secret = config->values[config_setting("mail.password") - config_settings].text ||
		      config->values[config_setting("otlp.headers") - config_settings].text ||
		      (conninfo && secret_in_conninfo(conninfo));
	struct stat st;

	for (size_t i = 0; i < config->shards_len; i++)
		secret |= secret_in_conninfo(config->shards[i].conninfo);
	if (!secret)
		return 0;
	if (fstat(fileno(fp), &st) == 0 && secret_file_ok(&st))
		return 0;
	return error_set(err, DEFERRED_ECONFIG, WHERE,
			 "config file '%.200s' has a password in it, and " SECRET_FILE_WRONG "\n" SECRET_FILE_HINT
			 "; or keep passwords in ~/.pgpass and mail.password_file",
			 config->path, (unsigned int)st.st_mode & 07777);
}

int config_file_read(struct config *config, struct deferred_error *err)
{
	char *text = NULL;
	FILE *fp = fopen(config->path, "re");
	size_t len;
	int rc;

	if (!fp)
		return cannot_read(config, err);
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
		rc = cannot_read(config, err);
	} else if (len > FILE_MAX_BYTES) {
		rc = error_set(err, DEFERRED_ECONFIG, WHERE,
			       "config file '%s' is larger than %d bytes\n"
			       "name another file with --config or DEFERRED_CONFIG",
			       config->path, FILE_MAX_BYTES);
	} else {
		text[len] = '\0';
		rc = read_text(config, text, len, err);
		if (rc == 0)
			rc = check_readers(config, fp, err);
	}
out:
	free(text);
	fclose(fp);
	return rc;
}
