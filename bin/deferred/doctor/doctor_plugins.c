/* SPDX-License-Identifier: MIT */
#include "doctor_here.h"

#include "port/plugin.h"
#include "port/trusted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- in the child ---------------------------------------------------------------------------------- */

static int out; /* callbacks tell there */

static bool doctor_plugins_on_loading(void *data, const char *file)
{
	(void)data;
	doctor_tell(out, 'l', file);
	return true;
}

static void doctor_plugins_on_refused(void *data, const char *file, const char *text)
{
	char both[1200];

	(void)data;
	snprintf(both, sizeof(both), "%.200s: %.900s", file, text);
	doctor_tell(out, 'r', both);
}

static void doctor_plugins_on_function(void *data, const char *name, const struct plugin_function *fn)
{
	(void)data;
	(void)fn;
	doctor_tell(out, 'f', name);
}

static void doctor_plugins_on_clash(void *data, const char *name, const char *text)
{
	(void)data;
	(void)name;
	doctor_tell(out, 'c', text);
}

static void doctor_plugins_load(struct doctor *d, int fd)
{
	/* In the process that starts runners it is the owner of that process whose files are trusted: root here, if it
	 * is root's. */
	unsigned int owner = d->host->user.switch_user ? 0 : geteuid();
	struct deferred_error err = { 0 };
	struct plugin_set *set = NULL;

	out = fd;
	if (plugin_open_dir(&set, config_plugin_dir(d->host->cli->config), owner, doctor_plugins_on_refused, NULL,
			    &err) < 0 ||
	    plugin_load_all(set, doctor_plugins_on_loading, doctor_plugins_on_refused, NULL, &err) < 0) {
		doctor_tell(fd, 'e', err.message);
		if (err.hint[0])
			doctor_tell(fd, 'h', err.hint);
	}
	doctor_tell(fd, 'l', "");
	if (set && !err.code) {
		plugin_each_clash(set, doctor_plugins_on_clash, NULL);
		plugin_each(set, doctor_plugins_on_function, NULL);
	}
}

/* ---- here -------------------------------------------------------------------------------------------- */

static char loading[256]; /* file being loaded; "": none */

static void add_function(struct doctor *d, const char *name)
{
	char **bigger = realloc(d->functions, (d->functions_len + 1) * sizeof(*bigger));

	if (!bigger)
		return;
	d->functions = bigger;
	if ((bigger[d->functions_len] = strdup(name)))
		d->functions_len++;
}

static void doctor_plugins_take(struct doctor *d, char letter, const char *text)
{
	switch (letter) {
	case 'l':
		snprintf(loading, sizeof(loading), "%s", text);
		break;
	case 'r':
		doctor_warn(d, "%s", text);
		doctor_why(d, "its functions are not offered here, and their jobs wait");
		doctor_do(d, "correct it, or move the file out of '%s'", config_plugin_dir(d->host->cli->config));
		break;
	case 'c':
		doctor_fail(d, "%s", text);
		doctor_why(d, "neither is called, and its jobs wait");
		doctor_do(d, "remove one of the two from '%s'", config_plugin_dir(d->host->cli->config));
		break;
	case 'e':
		doctor_fail(d, "%s", text);
		doctor_why(d, "no plugin is loaded until that is fixed");
		break;
	case 'h':
		doctor_do(d, "%s", text);
		break;
	case 'f':
		add_function(d, text);
		break;
	}
}

static int doctor_plugins_by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_commands(struct doctor *d)
{
	size_t n, plugins = d->functions_len;
	const struct config_command *commands = config_commands(d->host->cli->config, &n);
	unsigned int owner = d->host->user.switch_user ? d->host->user.uid : geteuid();
	struct deferred_error err = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (commands[i].program)
			continue; /* doctor_programs() has it */
		for (size_t j = 0; j < plugins; j++) {
			if (strcmp(d->functions[j], commands[i].name) != 0)
				continue;
			doctor_fail(d, "function '%s' is both a command of the config file and in a plugin",
				    commands[i].name);
			doctor_why(d, "it is not clear which of the two is meant, so neither is called");
			doctor_do(d, "rename one of the two");
		}
		if (trusted_check_program(commands[i].argv[0], owner, &err) < 0) {
			doctor_fail(d, "function '%s': %s", commands[i].name, err.message);
			doctor_why(d, "users who can write it could run programs as the user of functions, so the "
				      "function is refused");
			doctor_do(d, "%s", err.hint);
			error_clear(&err);
		} else if (access(commands[i].argv[0], X_OK) < 0) {
			doctor_warn(d, "command of function '%s': %s: %s", commands[i].name, commands[i].argv[0],
				    strerror(errno));
			doctor_why(d, "each of its attempts fails");
			doctor_do(d, "install that program, or correct the path in the config file");
		}
		add_function(d, commands[i].name);
	}
}

void doctor_plugins(struct doctor *d)
{
	const char *dir = config_plugin_dir(d->host->cli->config), *why;
	struct stat st;

	if (stat(dir, &st) < 0 &&
	    (!config_has_functions(d->host->cli->config) || config_text(d->host->cli->config, "plugin_dir"))) {
		doctor_fail(d, "cannot use plugin folder '%s': %s", dir, strerror(errno));
		doctor_why(d, "check_deferred does not start without it");
		doctor_do(d, "set plugin_dir, --plugin-dir or DEFERRED_PLUGIN_DIR to the folder of the plugins");
	} else if (stat(dir, &st) == 0 && (why = doctor_in_child(d, doctor_plugins_load, doctor_plugins_take))) {
		doctor_fail(d, "%s%s%s", loading[0] ? loading : "the plugins",
			    loading[0] ? ", when it is loaded, " : " ", why);
		doctor_why(d, "each runner that loads it ends the same way");
		doctor_do(d, "correct it, or move the file out of '%s'", dir);
	}
	add_commands(d);
	doctor_programs(d, add_function);
	if (d->functions_len > 0)
		qsort(d->functions, d->functions_len, sizeof(*d->functions), doctor_plugins_by_name);
	d->knows_functions = true;
}
