/* SPDX-License-Identifier: MIT */
/*
 * deferred_config - read a config file from standard input and say what is in it: the child of
 * lib/port/config_reader.c, whose header has the form of the answer. Memory may end here, with the process, at any
 * moment: only an answer with a last record counts.
 *
 * libconfuse sees text only: it knows grammar and lines, the table knows types.
 */
#include "port/config.h"
#include "port/config_reader.h"

#include "base/route.h"

#include <assert.h>
#include <confuse.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>

#define FILE_MAX_BYTES (1024 * 1024)
#define SETTINGS_MAX 128
#define SECTIONS_MAX 8

/* ---- the answer ------------------------------------------------------------------------------- */

static void put(const char *text)
{
	fwrite(text, 1, strlen(text) + 1, stdout);
}

static void put_record(const char *kind, const char *a, const char *b, const char *c)
{
	const char *texts[] = { kind, a, b, c };

	for (size_t i = 0; i < 4 && texts[i]; i++)
		put(texts[i]);
}

static const char *line_of(const cfg_t *cfg)
{
	static char line[16];

	snprintf(line, sizeof(line), "%d", cfg->line);
	return line;
}

/* Only the first is said. Returns -1. */
static bool failed;

static int fail(const cfg_t *cfg, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(const cfg_t *cfg, const char *hint, const char *fmt, ...)
{
	char text[384];
	va_list ap;

	if (failed)
		return -1;
	failed = true;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_record("e", line_of(cfg), text, hint);
	return -1;
}

/* ---- what libconfuse calls -------------------------------------------------------------------- */

static bool is_root(const cfg_t *cfg)
{
	return strcmp(cfg->name, "root") == 0;
}

static const char list[] = "deferred.conf(5) lists the settings";
static int value_line; /* where the last value was read */

__attribute__((format(printf, 2, 0)))
static void
on_syntax_error(cfg_t *cfg, const char *fmt, va_list ap)
{
	const char *hint = list;
	char text[384];

	if (strncmp(fmt, "no such option", 14) == 0) {
		const char *name = va_arg(ap, const char *);

		/* Said of every name of a free-form section, which is then taken all the same. */
		if (cfg->flags & CFGF_KEYSTRVAL)
			return;
		if (cfg->line == value_line || !isalpha((unsigned char)name[0]))
			hint = "put a value with blanks in quotes, such as timeout = \"5 minutes\"";
		if (cfg->title)
			fail(cfg, hint, "setting '%.64s' of %s '%.64s' is unknown", name, cfg->name, cfg->title);
		else
			fail(cfg, hint, "setting '%s%s%.64s' is unknown", is_root(cfg) ? "" : cfg->name,
			     is_root(cfg) ? "" : ".", name);
	} else if (strncmp(fmt, "found duplicate title", 21) == 0) {
		fail(cfg, list, "section '%.64s' appears twice", va_arg(ap, const char *));
	} else {
		vsnprintf(text, sizeof(text), fmt, ap);
		for (char *p = text; (p = strchr(p, '\''));)
			*p = '"';
		fail(cfg, list, "%s", text);
	}
}

static int on_value(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *text = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	char name[64];

	value_line = cfg->line;
	if (is_root(cfg) || cfg->title)
		snprintf(name, sizeof(name), "%s", opt->name);
	else
		snprintf(name, sizeof(name), "%s.%s", cfg->name, opt->name);
	put_record(cfg->title ? "v" : "s", line_of(cfg), name, text ? text : "");
	return 0;
}

static bool is_function_name(const char *name)
{
	return (isalpha((unsigned char)name[0]) || name[0] == '_') && strlen(name) <= 127 &&
	       name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.")] == '\0';
}

static int on_function(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *sec = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	const char *name = cfg_title(sec);
	const char *gains = cfg_size(sec, "new_privileges") > 0 ? cfg_getstr(sec, "new_privileges") : "0";

	if (!is_function_name(name))
		return fail(
			cfg, list,
			"function '%.64s': a name has 1 to 127 letters, digits, '_' and '.', and begins with a "
			"letter or '_'",
			name);
	if (cfg_size(sec, "command") == 0)
		return fail(cfg, list, "function '%s' has no command", name);
	if (cfg_getnstr(sec, "command", 0)[0] != '/')
		return fail(cfg, list, "function '%s': command '%.64s' is not an absolute path", name,
			    cfg_getnstr(sec, "command", 0));
	if (strcmp(gains, "0") != 0 && strcmp(gains, "1") != 0)
		return fail(cfg, list, "function '%s': new_privileges must be 0 or 1, not '%.64s'", name, gains);
	return 0;
}

/* 1 to 3 digits; 0: it is none. */
static int shard_number(cfg_t *sec)
{
	const char *text = cfg_size(sec, "number") > 0 ? cfg_getstr(sec, "number") : "";

	return strlen(text) <= 3 && text[strspn(text, "0123456789")] == '\0' ? atoi(text) : 0;
}

/* The name becomes part of the name of a file. */
static int on_shard(cfg_t *cfg, cfg_opt_t *opt)
{
	unsigned int last = cfg_opt_size(opt) - 1;
	cfg_t *sec = cfg_opt_getnsec(opt, last);
	const char *name = cfg_title(sec),
		   *accepting = cfg_size(sec, "accepting") > 0 ? cfg_getstr(sec, "accepting") : "1";
	int number = shard_number(sec);

	if (!name[0] || name[0] == '.' || name[0] == '-' || strlen(name) > 32 ||
	    name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")])
		return fail(cfg, list, "shard '%.64s': a name has 1 to 32 letters, digits, '_', '.' and '-'",
			    name);
	if (number < 1 || number > SHARD_MAX)
		return fail(
			cfg,
			"add number = N; deferred migrate --shard NAME then stores the number in the database for good",
			"shard '%s' has no number from 1 to %d", name, SHARD_MAX);
	if (strcmp(accepting, "0") != 0 && strcmp(accepting, "1") != 0)
		return fail(cfg, list, "shard '%s': value '%.64s' of accepting is not 0 or 1", name, accepting);
	for (unsigned int i = 0; i < last; i++)
		if (shard_number(cfg_opt_getnsec(opt, i)) == number)
			return fail(cfg, list, "shards '%s' and '%s' have the same number, %d",
				    cfg_title(cfg_opt_getnsec(opt, i)), name, number);
	return 0;
}

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
};
#define SCHEDULE_MEMBERS (sizeof(schedule_members) / sizeof(schedule_members[0]))

/* Members of a section stand together in the table; here they become a list of their own, ended by END. */
static cfg_t *new_grammar(void)
{
	static const cfg_opt_t end = CFG_END();
	cfg_opt_t function[] = { CFG_STR_LIST("command", NULL, CFGF_NODEFAULT),
				 CFG_STR("timeout", NULL, CFGF_NODEFAULT),
				 CFG_STR("max_attempts", NULL, CFGF_NODEFAULT),
				 CFG_STR("new_privileges", NULL, CFGF_NODEFAULT), CFG_END() };
	cfg_opt_t free_form[] = { CFG_END() };
	cfg_opt_t shard[] = { CFG_STR("number", NULL, CFGF_NODEFAULT), CFG_STR("conninfo", NULL, CFGF_NODEFAULT),
			      CFG_STR("accepting", NULL, CFGF_NODEFAULT), CFG_END() };
	cfg_opt_t schedule[SCHEDULE_MEMBERS + 1];
	cfg_opt_t titled[] = { CFG_SEC("function", function, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
			       CFG_SEC("settings", free_form,
				       CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES | CFGF_KEYSTRVAL),
			       CFG_SEC("schedule", schedule, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
			       CFG_SEC("shard", shard, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES), CFG_END() };
	cfg_opt_t top[SETTINGS_MAX + 5], members[SETTINGS_MAX * 2];
	size_t tops = 0, n = 0, sections = 0;
	char names[SECTIONS_MAX][32];
	cfg_t *cfg;

	for (size_t i = 0; i < SCHEDULE_MEMBERS; i++)
		schedule[i] = (cfg_opt_t)CFG_STR(schedule_members[i], NULL, CFGF_NODEFAULT);
	schedule[SCHEDULE_MEMBERS] = end;
	function[1].validcb = function[2].validcb = on_value;
	titled[0].validcb = on_function;
	titled[3].validcb = on_shard;
	for (const struct config_setting *s = config_settings; s->name; s++) {
		const char *dot = strchr(s->name, '.');
		size_t len = dot ? (size_t)(dot - s->name) : 0;
		cfg_opt_t opt = CFG_STR(dot ? dot + 1 : s->name, NULL, CFGF_NODEFAULT);

		assert(s - config_settings < SETTINGS_MAX && sections < SECTIONS_MAX && len < sizeof(names[0]));
		opt.validcb = on_value;
		if (!dot) {
			top[tops++] = opt;
			continue;
		}
		if (s == config_settings || strncmp(s[-1].name, s->name, len + 1) != 0) {
			cfg_opt_t sec = CFG_SEC(names[sections], members + n, CFGF_NONE);

			snprintf(names[sections++], sizeof(names[0]), "%.*s", (int)len, s->name);
			top[tops++] = sec;
		}
		members[n++] = opt;
		if (!s[1].name || strncmp(s[1].name, s->name, len + 1) != 0)
			members[n++] = end;
	}
	memcpy(top + tops, titled, sizeof(titled));
	cfg = cfg_init(top, CFGF_NONE); /* copies it all */
	if (cfg)
		cfg_set_error_function(cfg, on_syntax_error);
	return cfg;
}

/* ---- the sections that are lists, once all of it was read ------------------------------------- */

static void put_functions(cfg_t *cfg)
{
	for (unsigned int i = 0; i < cfg_size(cfg, "function"); i++) {
		cfg_t *sec = cfg_getnsec(cfg, "function", i);

		put_record("f", cfg_title(sec), NULL, NULL);
		for (unsigned int k = 0; k < cfg_size(sec, "command"); k++)
			put_record("c", cfg_getnstr(sec, "command", k), NULL, NULL);
		if (cfg_size(sec, "timeout") > 0)
			put_record("t", cfg_getstr(sec, "timeout"), NULL, NULL);
		if (cfg_size(sec, "max_attempts") > 0)
			put_record("m", cfg_getstr(sec, "max_attempts"), NULL, NULL);
		if (cfg_size(sec, "new_privileges") > 0 && strcmp(cfg_getstr(sec, "new_privileges"), "1") == 0)
			put_record("n", NULL, NULL, NULL);
	}
}

static void put_pairs(cfg_t *cfg)
{
	for (unsigned int i = 0; i < cfg_size(cfg, "settings"); i++) {
		cfg_t *sec = cfg_getnsec(cfg, "settings", i);

		for (unsigned int k = 0; k < cfg_num(sec); k++) {
			cfg_opt_t *opt = cfg_getnopt(sec, k);
			const char *value = cfg_opt_getstr(opt);

			put_record("p", cfg_title(sec), opt->name, value ? value : "");
		}
	}
}

static void put_schedules(cfg_t *cfg)
{
	for (unsigned int i = 0; i < cfg_size(cfg, "schedule"); i++) {
		cfg_t *sec = cfg_getnsec(cfg, "schedule", i);

		put_record("S", cfg_title(sec), NULL, NULL);
		for (size_t k = 0; k < SCHEDULE_MEMBERS; k++)
			if (cfg_size(sec, schedule_members[k]) > 0)
				put_record("o", schedule_members[k], cfg_getstr(sec, schedule_members[k]), NULL);
	}
}

static void put_shards(cfg_t *cfg)
{
	for (unsigned int i = 0; i < cfg_size(cfg, "shard"); i++) {
		cfg_t *sec = cfg_getnsec(cfg, "shard", i);
		char number[16];

		snprintf(number, sizeof(number), "%d", shard_number(sec));
		put_record("H", cfg_title(sec), number,
			   cfg_size(sec, "conninfo") > 0 ? cfg_getstr(sec, "conninfo") : "");
		put_record("h", cfg_size(sec, "accepting") > 0 ? cfg_getstr(sec, "accepting") : "1", NULL, NULL);
	}
}

int main(void)
{
	static char text[FILE_MAX_BYTES + 1];
	const struct rlimit none = { 0, 0 };
	cfg_t *cfg;

	/* libconfuse may crash, and a core would have the passwords of the file in it. */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	if (!(cfg = new_grammar()))
		return EX_OSERR;
	text[fread(text, 1, FILE_MAX_BYTES, stdin)] = '\0';
	if (cfg_parse_buf(cfg, text) != CFG_SUCCESS) {
		fail(cfg, list, "syntax error");
	} else {
		put_functions(cfg);
		put_pairs(cfg);
		put_schedules(cfg);
		put_shards(cfg);
		put(".");
	}
	return fflush(stdout) == 0 ? 0 : EX_IOERR;
}
