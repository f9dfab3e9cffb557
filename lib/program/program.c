/* SPDX-License-Identifier: MIT */
#include "program/program.h"

#include "program/completion.h"
#include "base/log.h"
#include "store/migrate.h"
#include "port/secret_file.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#define WORDS_SIZE 256
#define OPTIONS_MAX 48

enum { OPT_CONFIG = PROGRAM_OPTIONS_MAX, OPT_HELP, OPT_VERSION };

static const struct program_option common[] = {
	{ "config", "FILE", "config file", OPT_CONFIG, DEFERRED_SYSCONFDIR "/deferred/deferred.conf" },
	{ "help", NULL, "print this help", OPT_HELP },
	{ "version", NULL, "print the version", OPT_VERSION },
	{ 0 },
};

static const struct config_setting *find_setting(const char *name)
{
	const struct config_setting *s = config_settings;

	while (s->name && (!name || strcmp(s->name, name) != 0))
		s++;
	return s;
}

/* "a|b|c"; "": the value is not one of a few words. */
static const char *join_words(const struct program_option *o, char *buf, size_t size)
{
	const struct config_setting *s = find_setting(o->setting);

	snprintf(buf, size, "%s", s->name && s->type == CONFIG_CHOICE ? s->choices : "");
	for (size_t i = 0; o->words && o->words[i]; i++)
		snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", i ? "|" : "", o->words[i]);
	return buf;
}

void program_print_options(const struct program_option *options)
{
	int width = 0, len;
	char words[WORDS_SIZE];

	for (const struct program_option *o = options; o->name; o++) {
		len = (int)(strlen(o->name) + (o->arg ? strlen(o->arg) + 1 : 0));
		width = len > width ? len : width;
	}
	for (const struct program_option *o = options; o->name; o++) {
		const char *def = o->arg && !o->def ? find_setting(o->setting)->def : o->def;

		len = printf("  --%s %s", o->name, o->arg ? o->arg : "");
		join_words(o, words, sizeof(words));
		printf("%*s%s%s%s", width + 6 - len, "", o->text, *words && *o->text ? ": " : "", words);
		printf(def ? " (%s)\n" : "\n", def);
	}
}

static const char *takes(const struct program_option *o, char *words, size_t size)
{
	if (!o->arg)
		return COMPLETION_NOTHING;
	if (*join_words(o, words, size))
		return words;
	return strcmp(o->arg, "FILE") == 0  ? COMPLETION_FILE
	       : strcmp(o->arg, "DIR") == 0 ? COMPLETION_FOLDER
					    : COMPLETION_TEXT;
}

void program_describe_options(const char *place, const struct program_option *options)
{
	char words[WORDS_SIZE];

	for (; options->name; options++)
		completion_option(place, options->name, takes(options, words, sizeof(words)), options->text);
}

static void program_print_help(const struct program *p)
{
	printf("usage: %s [OPTION...]\n%s\n"
	       "Options override the settings of the config file. Defaults are in parentheses.\n\n",
	       p->name, p->about);
	program_print_options(p->options);
	puts("");
	program_print_options(common);
	printf("\nSee %s.\n", p->manual);
}

/* --queue a --queue b is one setting: a,b. */
static int program_give(struct program_line *line, int i, const char *value)
{
	const struct program *p = line->program;
	bool adds = line->given[i] && p->list && strcmp(p->options[i].name, p->list) == 0;
	char *text;

	if (asprintf(&text, "%s%s%s", adds ? line->given[i] : "", adds ? "," : "", value) < 0)
		return -1;
	free(line->given[i]);
	line->given[i] = text;
	return 0;
}

int program_getopt(const char *program, int argc, char **argv, const char *letters, const struct program_option *own,
		   const struct program_option *more)
{
	const struct program_option *const tables[] = { own, more }, *all[OPTIONS_MAX];
	struct option longs[OPTIONS_MAX] = { 0 };
	int n = 0, i = -1, c;
	const char *word;

	for (int t = 0; t < 2; t++) {
		for (const struct program_option *o = tables[t]; o->name; o++) {
			all[n] = o;
			longs[n++] = (struct option){ .name = o->name,
						      .has_arg = o->arg ? required_argument : no_argument,
						      .val = o->code ? o->code : (int)(o - tables[t]) };
		}
	}
	opterr = 0;
	c = getopt_long(argc, argv, letters, longs, &i);
	if (i < 0)
		return c;
	word = argv[optind - (optarg == argv[optind - 1] ? 2 : 1)];
	if (strcspn(word, "=") != strlen(all[i]->name) + 2)
		fprintf(stderr, "%s: option '--%s' is abbreviated\nhint: write --%s\n", program, all[i]->name,
			all[i]->name);
	else if (optarg && !*optarg && !all[i]->empty)
		fprintf(stderr,
			"%s: option '--%s' has an empty value\n"
			"hint: leave --%s out, or give it a value (is a shell variable not set?)\n",
			program, all[i]->name, all[i]->name);
	else
		return c;
	return PROGRAM_REFUSED;
}

static void bad_option(const char *program, int c, const char *word)
{
	int name = (int)strcspn(word, "=");

	fprintf(stderr, "%s: option '%.*s' %s\nhint: %s --help shows the options\n", program, name, word,
		c == ':'               ? "needs a value"
		: optopt && word[name] ? "takes no value"
				       : "is unknown",
		program);
}

int program_read_line(struct program_line *line, const struct program *program, int argc, char **argv)
{
	int opt;

	*line = (struct program_line){ .program = program };
	if (completion_asked(argc, argv)) {
		program_describe_options(program->name, program->options);
		program_describe_options(program->name, common);
		return 0;
	}
	while ((opt = program_getopt(program->name, argc, argv, ":h", program->options, common)) != -1) {
		switch (opt) {
		case OPT_CONFIG:
			line->config_path = optarg;
			break;
		case OPT_HELP:
		case 'h':
			program_print_help(program);
			return 0;
		case OPT_VERSION:
			printf("%s %s, schema %s\n", program->name, program->version, migrate_versions());
			return 0;
		case ':':
		case '?':
			bad_option(program->name, opt, argv[optind - 1]);
			return EX_USAGE;
		case PROGRAM_REFUSED:
			return EX_USAGE;
		default:
			if (program_give(line, opt, optarg ? optarg : "1") < 0)
				return EX_OSERR;
			if (optarg && strcmp(program->options[opt].setting, "database.conninfo") == 0)
				secret_hide_argument(optarg);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "%s: argument '%s' is not expected\nhint: %s --help shows the options\n", program->name,
			argv[optind], program->name);
		return EX_USAGE;
	}
	return -1;
}

void program_free_line(struct program_line *line)
{
	for (size_t i = 0; i < PROGRAM_OPTIONS_MAX; i++)
		free(line->given[i]);
	*line = (struct program_line){ 0 };
}

static bool program_given(const struct program_line *line, const char *setting)
{
	for (size_t i = 0; line->program->options[i].name; i++)
		if (line->given[i] && strcmp(line->program->options[i].setting, setting) == 0)
			return true;
	return false;
}

int program_load_config(const struct program_line *line, struct config **config, struct deferred_error *err)
{
	int rc;

	*config = NULL;
	rc = config_load(config, line->config_path, err);
	if (rc < 0)
		return rc == DEFERRED_ENOMEM ? EX_OSERR : EX_CONFIG;
	for (size_t i = 0; line->program->options[i].name; i++) {
		const struct program_option *o = &line->program->options[i];
		char option[32];

		snprintf(option, sizeof(option), "--%s", o->name);
		if (line->given[i] && config_override(*config, o->setting, line->given[i], option, err) < 0)
			return EX_USAGE;
	}
	if (program_given(line, "database.shard") && program_given(line, "database.conninfo")) {
		error_set(err, DEFERRED_ECONFIG, "config",
			  "option '--db' contradicts option '--shard'\nleave one of the two out");
		return EX_USAGE;
	}
	if (program_given(line, "database.shard"))
		return config_use_shard(*config, err) < 0 ? EX_CONFIG : 0;
	if (!config_by_shards(*config))
		return 0;
	error_set(err, DEFERRED_ECONFIG, "config", "the config file has several databases, and no shard is named");
	error_hint(err, "--shard NAME, or DEFERRED_SHARD: a process is for one of them");
	return EX_CONFIG;
}

int program_complain(const struct deferred_error *err, int exit_code)
{
	if (err->hint[0])
		log_line(LOG_L_ERROR, "%s; hint: %s", err->message, err->hint);
	else
		log_line(LOG_L_ERROR, "%s", err->message);
	return exit_code;
}

void program_set_log_level(const struct config *config)
{
	log_set_level((enum log_level)(LOG_L_ERROR + config_int(config, "log_level")));
	log_set_format((enum log_format)config_int(config, "log_format"));
}

void program_open_descriptors(void)
{
	int fd;

	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
		;
	if (fd > STDERR_FILENO)
		close(fd);
}

void program_keep_secrets(void)
{
	const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE,
	      0); /* nor to a program that the kernel would pipe a core to: the limit does not count there */
}
