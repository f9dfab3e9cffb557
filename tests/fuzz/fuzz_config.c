/* SPDX-License-Identifier: MIT */
/* A config file is refused with a message, or its settings survive being written to a file and read again. */
#include "fuzz.h"

#include "base/job.h"
#include "port/config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL: refused. */
static struct config *load(const char *text, size_t size)
{
	int fd = memfd_create("config", MFD_CLOEXEC);
	struct deferred_error err = { 0 };
	struct config *config = NULL;
	char path[64];

	HOLDS(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, text, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (config_load(&config, path, &err) < 0) {
		HOLDS(err.code == DEFERRED_ECONFIG && err.message[0] && err.hint[0] && !config);
		config = NULL;
	}
	close(fd);
	return config;
}

static void write_quoted(FILE *f, const char *text)
{
	putc('"', f);
	for (; *text; text++) {
		if (strchr("\"\\$", *text))
			putc('\\', f);
		putc(*text, f);
	}
	fputs("\" ", f);
}

static void write_setting(FILE *f, const struct config *config, const struct config_setting *s)
{
	const char *dot = strchr(s->name, '.');

	if (dot)
		fprintf(f, "%.*s { ", (int)(dot - s->name), s->name);
	fprintf(f, "%s = ", dot ? dot + 1 : s->name);
	if (s->type == CONFIG_MS)
		fprintf(f, "%lldms", (long long)config_int(config, s->name));
	else if (s->type == CONFIG_BYTES)
		fprintf(f, "%.9fk", (double)config_int(config, s->name) / 1024);
	else
		write_quoted(f, config_text(config, s->name) ? config_text(config, s->name) : "");
	fputs(dot ? " }\n" : "\n", f);
}

struct pairs {
	FILE *f;
	int n;
};

/* "settings.TITLE.NAME": the title becomes a number. */
static int write_pair(void *data, const char *name, const char *value)
{
	struct pairs *p = data;

	if (strncmp(name, "settings.", 9) != 0)
		return 0;
	fprintf(p->f, "settings %d { ", p->n++);
	write_quoted(p->f, strchr(name + 9, '.') + 1);
	fputs("= ", p->f);
	write_quoted(p->f, value);
	fputs("}\n", p->f);
	return 0;
}

static void write_command(FILE *f, const struct config_command *c)
{
	fprintf(f, "function %s { timeout = %lldms new_privileges = %d command = {", c->name, (long long)c->timeout_ms,
		c->new_privileges);
	for (size_t i = 0; c->argv[i]; i++) {
		write_quoted(f, c->argv[i]);
		putc(',', f);
	}
	if (c->max_attempts)
		fprintf(f, "} max_attempts = %d }\n", c->max_attempts);
	else
		fputs("} }\n", f);
}

/* All that the file says. Given: free(). */
static char *write_config(const struct config *config, size_t *size)
{
	const struct config_command *commands;
	const struct config_section *schedules;
	const struct config_shard *shards;
	char *text;
	FILE *f = open_memstream(&text, size);
	struct pairs pairs = { f, 0 };
	size_t n;

	for (const struct config_setting *s = config_settings; s->name; s++)
		if (config_given(config, s->name))
			write_setting(f, config, s);
	config_each_public(config, write_pair, &pairs);
	commands = config_commands(config, &n);
	for (size_t i = 0; i < n; i++)
		if (strcmp(commands[i].name, JOB_HOOK_FN) != 0)
			write_command(f, &commands[i]);
	schedules = config_schedules(config, &n);
	for (size_t i = 0; i < n; i++) {
		fputs("schedule ", f);
		write_quoted(f, schedules[i].name);
		fputs("{ ", f);
		for (size_t k = 0; k < schedules[i].len; k++) {
			fprintf(f, "%s = ", schedules[i].members[k].name);
			write_quoted(f, schedules[i].members[k].value);
		}
		fputs("}\n", f);
	}
	shards = config_shards(config, &n);
	for (size_t i = 0; i < n; i++) {
		fprintf(f, "shard %s { number = %d accepting = %d conninfo = ", shards[i].name, shards[i].number,
			shards[i].accepting);
		write_quoted(f, shards[i].conninfo);
		fputs("}\n", f);
	}
	fclose(f);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *config, *again;
	char *text, *text_again;
	size_t len, len_again;

	setenv("SET", "a value", 1);
	if (!(config = load((const char *)data, size)))
		return 0;
	text = write_config(config, &len);
	again = load(text, len);
	HOLDS(again);
	text_again = write_config(again, &len_again);
	HOLDS(len == len_again && memcmp(text, text_again, len) == 0);
	config_free(config);
	config_free(again);
	free(text);
	free(text_again);
	return 0;
}
