/* SPDX-License-Identifier: MIT */
/* config_section - what settings are stored as: values, and the sections of the file that have a title. */
#ifndef CONFIG_SECTION_H
#define CONFIG_SECTION_H

#include "port/config_value.h"

enum config_kind { CONFIG_FUNCTION, CONFIG_PROGRAM, CONFIG_SETTINGS, CONFIG_SCHEDULE, CONFIG_SHARD, CONFIG_KINDS };

struct config {
	char *path;
	struct config_value *values; /* one for each of config_settings */
	struct config_list {
		struct config_section *p;
		size_t len;
	} sections[CONFIG_KINDS];
	/* Sections of three kinds, converted. The sections keep the texts. */
	struct config_command *commands;
	size_t commands_len;
	struct config_program *programs;
	size_t programs_len;
	struct config_shard *shards;
	size_t shards_len;
};

/* A list is limited, because each new name is compared with all others. */
#define CONFIG_LIST_MAX 20000

/* Add an empty section. NULL: out of memory, or the list is full. */
struct config_section *config_section_add(struct config_list *list, const char *name);

/* NULL: there is none. A member that occurs several times is a list, and this is its first value. */
struct config_section *config_section_find(const struct config_list *list, const char *name);
const char *config_section_get(const struct config_section *section, const char *name);

/* Add a member. False: out of memory, or the section is full. */
bool config_section_put(struct config_section *section, const char *name, const char *value);

/* Remove all members of that name. */
void config_section_drop(struct config_section *section, const char *name);

void config_section_clear(struct config_list *list);

/* Add the function or the program that a section describes. The section has been checked. */
int config_section_command(struct config *config, const struct config_section *section, struct deferred_error *err);
int config_section_program(struct config *config, const struct config_section *section, struct deferred_error *err);

/* The table entry of a member that a section of this kind checks as a setting; NULL: none. */
const struct config_setting *config_section_setting(enum config_kind kind, const char *name);

/* The program of that name; NULL: there is none. */
struct config_program *config_section_find_program(const struct config *config, const char *name);

#endif
