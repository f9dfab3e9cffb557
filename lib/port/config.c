/* SPDX-License-Identifier: MIT */
#include "port/config.h"
#include "port/config_file.h"
#include "port/plugin.h"

#include "base/job.h"
#include "base/span.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHERE "config"

bool config_late_queue(const struct config *config, const char **at, char name[static CONFIG_QUEUE_SIZE], int64_t *ms)
{
	double span;

	if (!*at)
		*at = config_text(config, "alert.late_queues");
	if (!*at || config_value_late_queue(at, name, &span) <= 0)
		return false;
	*ms = (int64_t)(span + 0.5);
	return true;
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
		rc = config_value_set(config->values, s, text, place, err);
	}
	return rc;
}

/* ---- public */

static int set_defaults(struct config *config, struct deferred_error *err)
{
	int rc = 0;

	for (const struct config_setting *s = config_settings; rc == 0 && s->name; s++)
		if (s->def)
			rc = config_value_set(config->values, s, s->def, s->name, err);
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

/* The hook is a function, but no producer can call a function of this name. */
static int add_hook(struct config *config, struct deferred_error *err)
{
	struct config_section *hook = config_section_add(&config->sections[CONFIG_FUNCTION], JOB_HOOK_FN);

	if (!hook || !config_section_put(hook, "command", config_text(config, "alert.command")))
		return error_set(err, DEFERRED_ENOMEM, WHERE, "cannot read the settings: out of memory");
	return config_section_command(config, hook, err);
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
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "cannot read the settings: out of memory");
	if (rc == 0)
		rc = set_defaults(config, err);
	if (rc == 0 && config->path)
		rc = config_file_read(config, err);
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
	for (int kind = 0; kind < CONFIG_KINDS; kind++)
		config_section_clear(&config->sections[kind]);
	for (size_t i = 0; i < config->commands_len; i++)
		if (!config->commands[i].program)
			free((void *)config->commands[i].argv);
	for (size_t i = 0; i < config->programs_len; i++) {
		free((void *)config->programs[i].argv);
		free((void *)config->programs[i].watch);
	}
	free(config->commands);
	free(config->programs);
	free(config->shards);
	free(config->values);
	free(config->path);
	free(config);
}

int config_override(struct config *config, const char *name, const char *value, const char *option,
		    struct deferred_error *err)
{
	const struct config_setting *s = config_setting(name);
	char place[128];

	assert(s);
	snprintf(place, sizeof(place), "option '%s'", option);
	if (s->type == CONFIG_MS && span_lacks_unit(value)) {
		error_set(err, DEFERRED_ECONFIG, WHERE, "%s: value '%.64s' has no unit", place, value);
		error_hint(err, SPAN_HINT);
		return DEFERRED_ECONFIG;
	}
	return hint_settings(config_value_set(config->values, s, value, place, err), err);
}

static const struct config_value *value_of(const struct config *config, const char *name)
{
	const struct config_setting *s = config_setting(name);

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
	if (!text || config_value_balance(text, &len, range) || len >= size)
		return false;
	memcpy(group, text, len);
	group[len] = '\0';
	return true;
}

bool config_given(const struct config *config, const char *name)
{
	return value_of(config, name)->given;
}

static int each_member(const struct config_section *plugin, size_t k,
		       int (*f)(void *data, const char *name, const char *value), void *data)
{
	char *name;
	int rc;

	if (asprintf(&name, "settings.%s.%s", plugin->name, plugin->members[k].name) < 0)
		return DEFERRED_ENOMEM;
	rc = f(data, name, plugin->members[k].value);
	free(name);
	return rc;
}

/* Of section http, the function of this name has some settings. */
static bool is_public_setting(const char *name)
{
	static const char *const sections[] = { "database.", "http.", "web.", "otlp.", "alert.", "breaker." };
	static const char *const names[] = { "http.allow", "http.secrets", "http.ca_file" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (strncmp(name, sections[i], strlen(sections[i])) == 0)
			return false;
	return true;
}

int config_each_public(const struct config *config, int (*f)(void *data, const char *name, const char *value),
		       void *data)
{
	const struct config_list *plugins = &config->sections[CONFIG_SETTINGS];
	int rc = 0;

	for (size_t i = 0; rc == 0 && config_settings[i].name; i++)
		if (config->values[i].text && is_public_setting(config_settings[i].name))
			rc = f(data, config_settings[i].name, config->values[i].text);
	for (size_t i = 0; i < plugins->len; i++)
		for (size_t k = 0; rc == 0 && k < plugins->p[i].len; k++)
			rc = each_member(&plugins->p[i], k, f, data);
	return rc;
}

const struct config_section *config_schedules(const struct config *config, size_t *len)
{
	*len = config->sections[CONFIG_SCHEDULE].len;
	return config->sections[CONFIG_SCHEDULE].p;
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
		return config_value_set(config->values, config_setting("database.conninfo"), shard->conninfo, "shard",
					err);
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

const struct config_program *config_programs(const struct config *config, size_t *len)
{
	*len = config->programs_len;
	return config->programs;
}

bool config_has_functions(const struct config *config)
{
	return config->commands_len + config->programs_len > 0;
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
