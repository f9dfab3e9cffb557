/* SPDX-License-Identifier: MIT */
#include "program/program.h"

#include "program/completion.h"
#include "port/config_reader.h"
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

enum { OPT_CONFIG = PROGRAM_OPTIONS_MAX, OPT_HELP, OPT_VERSION };

static void usage(const struct program *p)
{
	printf("usage: %s [options]\n%s Options (default):\n", p->name, p->about);
	for (size_t i = 0; i < p->options_len; i++)
		printf("  --%-16s %-9s %s\n", p->options[i].option, p->options[i].arg ? p->options[i].arg : "", p->options[i].what);
	printf("  --%-16s %-9s %s\n", "config", "FILE", "config file (" DEFERRED_SYSCONFDIR "/deferred/deferred.conf)");
	printf("  --help, --version\nSee %s.\n", p->manual);
}

static const struct config_setting *find_setting(const char *name)
{
	const struct config_setting *s = config_settings;

	while (s->name && strcmp(s->name, name) != 0)
		s++;
	return s;
}

static const char *takes(const struct program_option *o)
{
	const struct config_setting *s = find_setting(o->setting);

	if (!o->arg)
		return COMPLETION_NOTHING;
	if (s->name && s->type == CONFIG_CHOICE)
		return s->choices;
	return strcmp(o->arg, "FILE") == 0 ? COMPLETION_FILE : strcmp(o->arg, "DIR") == 0 ? COMPLETION_FOLDER : COMPLETION_TEXT;
}

static void describe(const struct program *p)
{
	for (size_t i = 0; i < p->options_len; i++)
		completion_option(p->name, p->options[i].option, takes(&p->options[i]), p->options[i].what);
	completion_option(p->name, "config", COMPLETION_FILE, "config file");
	completion_option(p->name, "help", COMPLETION_NOTHING, "show how it is used");
	completion_option(p->name, "version", COMPLETION_NOTHING, "show the version");
}

/* --queue a --queue b is one setting: a,b. */
static int give(struct program_line *line, int i, const char *value)
{
	const struct program *p = line->program;
	bool adds = line->given[i] && p->list && strcmp(p->options[i].option, p->list) == 0;
	char *text;

	if (asprintf(&text, "%s%s%s", adds ? line->given[i] : "", adds ? "," : "", value) < 0)
		return -1;
	free(line->given[i]);
	line->given[i] = text;
	return 0;
}

int program_getopt(int argc, char **argv, const char *letters, const struct option *options, const char **meant)
{
	int i = -1, c = getopt_long(argc, argv, letters, options, &i);
	const char *word;

	*meant = NULL;
	if (i < 0)
		return c;
	word = argv[optind - (optarg == argv[optind - 1] ? 2 : 1)];
	if (strcspn(word, "=") == strlen(options[i].name) + 2)
		return c;
	*meant = options[i].name;
	return '?';
}

int program_read_line(struct program_line *line, const struct program *program, int argc, char **argv)
{
	struct option longs[PROGRAM_OPTIONS_MAX + 4] = { 0 };
	size_t n = program->options_len;
	const char *meant;
	int opt;

	*line = (struct program_line){ .program = program };
	if (completion_asked(argc, argv)) {
		describe(program);
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		longs[i] = (struct option){ program->options[i].option, program->options[i].arg ? required_argument : no_argument, NULL, (int)i };
	longs[n++] = (struct option){ "config", required_argument, NULL, OPT_CONFIG };
	longs[n++] = (struct option){ "help", no_argument, NULL, OPT_HELP };
	longs[n++] = (struct option){ "version", no_argument, NULL, OPT_VERSION };
	while ((opt = program_getopt(argc, argv, "h", longs, &meant)) != -1) {
		switch (opt) {
		case OPT_CONFIG:
			line->config_path = optarg;
			break;
		case OPT_HELP:
		case 'h':
			usage(program);
			return 0;
		case OPT_VERSION:
			printf("%s %s, schema %s\n", program->name, DEFERRED_VERSION, migrate_versions());
			return 0;
		case '?':
			if (meant)
				fprintf(stderr, "%s: option '--%s' is abbreviated\nhint: write --%s\n", program->name,
					meant, meant);
			else
				fprintf(stderr, "Try '%s --help'.\n", program->name);
			return EX_USAGE;
		default:
			if (give(line, opt, optarg ? optarg : "1") < 0)
				return EX_OSERR;
			if (optarg && strcmp(program->options[opt].setting, "database.conninfo") == 0)
				secret_hide_argument(optarg);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "%s: unexpected argument '%s'\nTry '%s --help'.\n", program->name, argv[optind], program->name);
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

static bool given(const struct program_line *line, const char *setting)
{
	for (size_t i = 0; i < line->program->options_len; i++)
		if (line->given[i] && strcmp(line->program->options[i].setting, setting) == 0)
			return true;
	return false;
}

int program_load_config(const struct program_line *line, struct config **config, struct deferred_error *err)
{
	int rc;

	*config = NULL;
	config_reader_beside_program();
	rc = config_load(config, line->config_path, err);
	if (rc < 0)
		return rc == DEFERRED_ENOMEM || rc == DEFERRED_ESYSTEM ? EX_OSERR : EX_CONFIG;
	for (size_t i = 0; i < line->program->options_len; i++) {
		const struct program_option *o = &line->program->options[i];
		char option[32];

		snprintf(option, sizeof(option), "--%s", o->option);
		if (line->given[i] && config_override(*config, o->setting, line->given[i], option, err) < 0)
			return EX_USAGE;
	}
	if (given(line, "database.shard") && given(line, "database.conninfo")) {
		error_set(err, DEFERRED_ECONFIG, "config", "options --db and --shard name two databases");
		return EX_USAGE;
	}
	if (given(line, "database.shard"))
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
		log_line(LOG_L_ERROR, "%s (%s)", err->message, err->hint);
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
	prctl(PR_SET_DUMPABLE, 0); /* nor to a program that the kernel would pipe a core to: the limit does not count there */
}
