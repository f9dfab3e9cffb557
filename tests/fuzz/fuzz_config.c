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

static void write_list(FILE *f, const char *name, const char *const *list)
{
	fprintf(f, "%s = {", name);
	for (size_t i = 0; list[i]; i++) {
		write_quoted(f, list[i]);
		putc(',', f);
	}
	fputs("} ", f);
}

static void write_command(FILE *f, const struct config_command *c)
{
	fprintf(f, "function %s { timeout = %lldms ", c->name, (long long)c->timeout_ms);
	if (c->program)
		fprintf(f, "program = %s ", c->program);
	else
		fprintf(f, "new_privileges = %d ", c->new_privileges);
	if (!c->program)
		write_list(f, "command", c->argv);
	if (c->max_attempts)
		fprintf(f, "max_attempts = %d ", c->max_attempts);
	if (c->batch)
		fprintf(f, "batch = %d batch_wait = %dms ", c->batch, c->batch_wait_ms);
	fputs("}\n", f);
}

static void write_program(FILE *f, const struct config_program *p)
{
	fprintf(f, "program %s { max_memory = %.9fk start_timeout = %lldms timeout = %lldms ", p->name,
		(double)p->max_memory / 1024, (long long)p->start_timeout_ms, (long long)p->timeout_ms);
	write_list(f, "command", p->argv);
	write_list(f, "watch", p->watch);
	if (p->directory) {
		fputs("directory = ", f);
		write_quoted(f, p->directory);
	}
	if (p->max_jobs >= 0)
		fprintf(f, "max_jobs = %lld ", (long long)p->max_jobs);
	if (p->max_attempts)
		fprintf(f, "max_attempts = %d ", p->max_attempts);
	fputs("}\n", f);
}

/* All that the file says. Given: free(). */
static char *write_config(const struct config *config, size_t *size)
{
	const struct config_command *commands;
	const struct config_program *programs;
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
	programs = config_programs(config, &n);
	for (size_t i = 0; i < n; i++)
		write_program(f, &programs[i]);
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
