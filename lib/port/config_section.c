/* SPDX-License-Identifier: MIT */
#include "port/config_section.h"

#include "deferred_plugin.h"

#include <stdlib.h>
#include <string.h>

struct config_section *config_section_add(struct config_list *list, const char *name)
{
	struct config_section *p = NULL;
	char *copy = strdup(name);

	if (copy && list->len < CONFIG_LIST_MAX)
		p = realloc(list->p, (list->len + 1) * sizeof(*p));
	if (!p) {
		free(copy);
		return NULL;
	}
	list->p = p;
	p[list->len] = (struct config_section){ .name = copy };
	return &p[list->len++];
}

struct config_section *config_section_find(const struct config_list *list, const char *name)
{
	for (size_t i = 0; i < list->len; i++)
		if (strcmp(list->p[i].name, name) == 0)
			return &list->p[i];
	return NULL;
}

const char *config_section_get(const struct config_section *section, const char *name)
{
	for (size_t i = 0; i < section->len; i++)
		if (strcmp(section->members[i].name, name) == 0)
			return section->members[i].value;
	return NULL;
}

bool config_section_put(struct config_section *section, const char *name, const char *value)
{
	struct config_member *members = NULL, member = { strdup(name), strdup(value) };

	if (member.name && member.value && section->len < CONFIG_LIST_MAX)
		members = realloc(section->members, (section->len + 1) * sizeof(*members));
	if (!members) {
		free(member.name);
		free(member.value);
		return false;
	}
	section->members = members;
	members[section->len++] = member;
	return true;
}

void config_section_drop(struct config_section *section, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < section->len; i++) {
		struct config_member member = section->members[i];

		if (strcmp(member.name, name) != 0) {
			section->members[kept++] = member;
			continue;
		}
		free(member.name);
		free(member.value);
	}
	section->len = kept;
}

void config_section_clear(struct config_list *list)
{
	for (size_t i = 0; i < list->len; i++) {
		for (size_t k = 0; k < list->p[i].len; k++) {
			free(list->p[i].members[k].name);
			free(list->p[i].members[k].value);
		}
		free(list->p[i].members);
		free(list->p[i].name);
	}
	free(list->p);
}

/* ---- functions and programs -------------------------------------------------------------------- */

static const struct config_setting function_settings[] = {
	{ .name = "batch", .type = CONFIG_INT, .min = 1, .max = DEFERRED_BATCH_MAX },
	{ .name = "batch_wait", .type = CONFIG_MS, .min = 0, .max = DEFERRED_BATCH_WAIT_MAX_MS },
};

static const struct config_setting program_settings[] = {
	{ .name = "max_jobs", .type = CONFIG_INT, .min = 0, .max = 1e9 },
	{ .name = "max_memory", .type = CONFIG_BYTES, .min = 0, .max = 1e15 },
	{ .name = "start_timeout", .type = CONFIG_MS, .min = 100, .max = 600e3 },
};

const struct config_setting *config_section_setting(enum config_kind kind, const char *name)
{
	const struct config_setting *list = kind == CONFIG_FUNCTION ? function_settings : program_settings;
	size_t n = kind == CONFIG_FUNCTION ? sizeof(function_settings) / sizeof(function_settings[0])
					   : sizeof(program_settings) / sizeof(program_settings[0]);

	if (kind != CONFIG_FUNCTION && kind != CONFIG_PROGRAM)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return strcmp(name, "timeout") == 0 || strcmp(name, "max_attempts") == 0 ? config_setting(name) : NULL;
}

struct config_program *config_section_find_program(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->programs_len; i++)
		if (strcmp(config->programs[i].name, name) == 0)
			return &config->programs[i];
	return NULL;
}

/* The value of a member that was checked when it was read, or a default. */
static int64_t section_number(enum config_kind kind, const struct config_section *section, const char *name,
			      int64_t number)
{
	const char *text = config_section_get(section, name);
	struct config_value value = { 0 };
	struct deferred_error err = { 0 };

	if (text && config_value_parse(config_section_setting(kind, name), text, &value, name, &err) == 0)
		number = value.number;
	free(value.text);
	return number;
}

/* That was checked too. */
static bool section_flag(const struct config_section *section, const char *name)
{
	const char *text = config_section_get(section, name);

	return text && strcmp(text, "1") == 0;
}

/* The values of a list, and NULL behind them. NULL: out of memory. */
static const char **section_list(const struct config_section *section, const char *name)
{
	const char **list = calloc(section->len + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; list && i < section->len; i++)
		if (strcmp(section->members[i].name, name) == 0)
			list[n++] = section->members[i].value;
	return list;
}

int config_section_command(struct config *config, const struct config_section *section, struct deferred_error *err)
{
	const char *program = config_section_get(section, "program");
	const char **argv = program ? NULL : section_list(section, "command");
	struct config_command *p =
		argv || program ? realloc(config->commands, (config->commands_len + 1) * sizeof(*p)) : NULL;

	if (!p) {
		free(argv);
		return error_set(err, DEFERRED_ENOMEM, "config", "cannot read the settings: out of memory");
	}
	config->commands = p;
	p[config->commands_len++] = (struct config_command){
		.name = section->name,
		.argv = argv,
		.program = program,
		.timeout_ms = section_number(CONFIG_FUNCTION, section, "timeout", 0),
		.max_attempts = (int32_t)section_number(CONFIG_FUNCTION, section, "max_attempts", 0),
		.batch = (int32_t)section_number(CONFIG_FUNCTION, section, "batch", 0),
		.batch_wait_ms = (int32_t)section_number(CONFIG_FUNCTION, section, "batch_wait", 0),
		.new_privileges = section_flag(section, "new_privileges"),
		.progress_resets = section_flag(section, "progress_resets"),
	};
	return 0;
}

int config_section_program(struct config *config, const struct config_section *section, struct deferred_error *err)
{
	const char **argv = section_list(section, "command"), **watch = section_list(section, "watch");
	struct config_program *p =
		argv && watch ? realloc(config->programs, (config->programs_len + 1) * sizeof(*p)) : NULL;

	if (!p) {
		free(argv);
		free(watch);
		return error_set(err, DEFERRED_ENOMEM, "config", "cannot read the settings: out of memory");
	}
	config->programs = p;
	p[config->programs_len++] = (struct config_program){
		.name = section->name,
		.argv = argv,
		.watch = watch,
		.directory = config_section_get(section, "directory"),
		.max_jobs = section_number(CONFIG_PROGRAM, section, "max_jobs", -1),
		.max_memory = section_number(CONFIG_PROGRAM, section, "max_memory", 0),
		.start_timeout_ms = section_number(CONFIG_PROGRAM, section, "start_timeout", 30000),
		.timeout_ms = section_number(CONFIG_PROGRAM, section, "timeout", 0),
		.max_attempts = (int32_t)section_number(CONFIG_PROGRAM, section, "max_attempts", 0),
	};
	return 0;
}
