/* SPDX-License-Identifier: MIT */
#include "port/config_section.h"

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

/* Without that member, *number is not changed. */
static int read_limit(const struct config_section *section, const char *name, int64_t *number,
		      struct deferred_error *err)
{
	const char *text = config_section_get(section, name);
	struct config_value value = { 0 };
	int rc = text ? config_value_parse(config_setting(name), text, &value, name, err) : 0;

	if (text && rc == 0)
		*number = value.number;
	free(value.text);
	return rc;
}

int config_section_command(struct config *config, const struct config_section *section, struct deferred_error *err)
{
	const char *gains = config_section_get(section, "new_privileges");
	const char **argv = calloc(section->len + 1, sizeof(*argv));
	struct config_command *p = argv ? realloc(config->commands, (config->commands_len + 1) * sizeof(*p)) : NULL;
	int64_t timeout_ms = 0, max_attempts = 0;
	int rc;

	if (!p) {
		free(argv);
		return error_set(err, DEFERRED_ENOMEM, "config", "cannot read the settings: out of memory");
	}
	config->commands = p;
	p += config->commands_len++;
	*p = (struct config_command){ .name = section->name, .argv = argv };
	for (size_t i = 0; i < section->len; i++)
		if (strcmp(section->members[i].name, "command") == 0)
			*argv++ = section->members[i].value;
	rc = read_limit(section, "timeout", &timeout_ms, err);
	if (rc == 0)
		rc = read_limit(section, "max_attempts", &max_attempts, err);
	p->timeout_ms = timeout_ms;
	p->max_attempts = (int32_t)max_attempts;
	p->new_privileges = gains && strcmp(gains, "1") == 0;
	return rc;
}
