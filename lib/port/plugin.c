/* SPDX-License-Identifier: MIT */
#include "port/plugin_state.h"

#include "base/text/names.h"
#include "port/trusted.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_dir(const char *dir, unsigned int owner_uid, int *dir_fd, struct deferred_error *err)
{
	int fd = -1, rc = trusted_open(dir, owner_uid, &fd, err);

	*dir_fd = rc == 0 ? openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (rc != DEFERRED_EPLUGIN && *dir_fd < 0) {
		rc = error_errno(err, DEFERRED_EPLUGIN, "plugin", "cannot open plugin folder '%.300s'", dir);
		error_hint(err, "set plugin_dir to the folder that holds the plugins");
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

int plugin_dir_check(const char *dir, unsigned int owner_uid, struct deferred_error *err)
{
	int fd, rc;

	if ((rc = open_dir(dir, owner_uid, &fd, err)) == 0)
		close(fd);
	return rc;
}

static char default_dir[PATH_MAX];

static void find_default_dir(void)
{
	/* In the build tree, in an installation that was moved, in the folder of an installed library. */
	static const char *const places[] = { "../plugins", "../lib/deferred/plugins", "deferred/plugins" };
	char object[PATH_MAX], file[2 * PATH_MAX], *slash;
	struct link_map *map = NULL;
	Dl_info info;

	if (dladdr1((void *)plugin_default_dir, &info, (void **)&map, RTLD_DL_LINKMAP) && map &&
	    realpath(map->l_name[0] ? map->l_name : "/proc/self/exe", object) && (slash = strrchr(object, '/'))) {
		*slash = '\0';
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			/* Another project may have a folder of that name; ours has this file. */
			snprintf(file, sizeof(file), "%s/%s/send_mail.so", object, places[i]);
			if (access(file, F_OK) == 0 && realpath(file, default_dir)) {
				*strrchr(default_dir, '/') = '\0';
				return;
			}
		}
	}
	snprintf(default_dir, sizeof(default_dir), "%s", DEFERRED_PLUGINDIR);
}

const char *plugin_default_dir(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_default_dir);
	return default_dir;
}

static int is_plugin_file(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return len > 3 && d->d_name[0] != '.' && strcmp(d->d_name + len - 3, ".so") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void report(plugin_refused_fn *refused, void *data, const char *file, const struct deferred_error *why)
{
	char text[sizeof(why->message) + sizeof(why->hint) + 9];

	snprintf(text, sizeof(text), "%s%s%s", why->message, why->hint[0] ? "; hint: " : "", why->hint);
	if (refused)
		refused(data, file, text);
}

/* A set without files. */
static int new_set(struct plugin_set **set, const char *dir, unsigned int owner_uid, struct deferred_error *err)
{
	struct plugin_set *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	s->dir_fd = -1;
	rc = open_dir(dir, owner_uid, &s->dir_fd, err);
	if (rc == 0)
		*set = s;
	else
		plugin_set_free(s);
	return rc;
}

int plugin_open_dir(struct plugin_set **set, const char *dir, unsigned int owner_uid, plugin_refused_fn *refused,
		    void *data, struct deferred_error *err)
{
	struct plugin_set *s = NULL;
	struct dirent **entries = NULL;
	int n = 0, rc;

	if ((rc = new_set(&s, dir, owner_uid, err)) < 0)
		goto out;
	if ((n = scandirat(s->dir_fd, ".", &entries, is_plugin_file, by_bytes)) < 0) {
		rc = error_errno(err, DEFERRED_EPLUGIN, "plugin",
				 "cannot read plugin folder '%.300s'\nmake it readable, or correct plugin_dir", dir);
		goto out;
	}
	for (int i = 0; i < n; i++) {
		const char *file = entries[i]->d_name;
		struct deferred_error why = { 0 };

		rc = plugin_file_open(s, file, owner_uid, &why);
		if (rc < 0) {
			if (err)
				*err = why;
			goto out;
		}
		if (rc == PLUGIN_UNFIT)
			report(refused, data, file, &why);
	}
	rc = 0;
out:
	for (int i = 0; i < n; i++)
		free(entries[i]);
	free(entries);
	if (rc == 0)
		*set = s;
	else
		plugin_set_free(s);
	return rc;
}

int plugin_load_all(struct plugin_set *set, plugin_loading_fn *loading, plugin_refused_fn *refused, void *data,
		    struct deferred_error *err)
{
	size_t kept = 0;
	int rc = 0;

	for (size_t i = 0; i < set->files_len; i++) {
		struct plugin_file *f = set->files[i];
		struct deferred_error why = { 0 };
		bool wanted = rc == 0 && (!loading || loading(data, f->file));

		if (wanted && (rc = plugin_file_load(f, &why)) == PLUGIN_UNFIT) {
			report(refused, data, f->file, &why);
			rc = 0;
			wanted = false;
		}
		if (rc < 0 && why.code && err)
			*err = why;
		if (wanted && rc == 0)
			set->files[kept++] = f;
		else
			plugin_file_free(f);
	}
	set->files_len = kept;
	return rc < 0 ? rc : plugin_names_index(set, err);
}

static int load_unfit(struct deferred_error *err, const char *file, int rc)
{
	if (rc != PLUGIN_UNFIT)
		return rc;
	if (err) {
		error_prefix(err, "plugin '%.300s'", file);
		err->code = DEFERRED_EPLUGIN;
	}
	return DEFERRED_EPLUGIN;
}

int plugin_load_file(struct plugin_set *set, const char *file, struct deferred_error *err)
{
	for (size_t i = 0; i < set->files_len; i++) {
		struct plugin_file *f = set->files[i];
		int rc;

		if (strcmp(f->file, file) != 0)
			continue;
		if (f->handle)
			return 0;
		rc = plugin_file_load(f, err);
		if (rc == 0)
			return plugin_names_index(set, err);
		set->files[i] = set->files[--set->files_len]; /* not to be tried again */
		plugin_file_free(f);
		return load_unfit(err, file, rc);
	}
	return error_set(err, DEFERRED_EPLUGIN, "plugin", "plugin '%.300s' does not exist\ninstall it in plugin_dir",
			 file);
}

int plugin_set_in_place(struct plugin_set *set, struct deferred_error *err)
{
	char link[32], dir[PATH_MAX] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", set->dir_fd);
	if (readlink(link, dir, sizeof(dir) - 1) < 0)
		return error_errno(err, DEFERRED_ENOMEM, "plugin", "the path of the plugin folder is unknown");
	for (size_t i = 0; i < set->files_len; i++)
		if (asprintf(&set->files[i]->path, "%s/%s", dir, set->files[i]->file) < 0)
			return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	return 0;
}

int plugin_load_one(struct plugin_set **set, const char *dir, const char *name, unsigned int owner_uid,
		    struct deferred_error *err)
{
	struct plugin_set *s = NULL;
	struct deferred_error why = { 0 };
	char file[NAMES_FUNCTION_MAX + 4], path[PATH_MAX];
	int rc;

	if (!plugin_name_ok(name))
		return error_set(err, DEFERRED_EINVAL, "plugin",
				 "plugin name '%.150s' is invalid\nuse letters, digits and '_', and no suffix", name);
	snprintf(file, sizeof(file), "%s.so", name);
	if ((rc = new_set(&s, dir, owner_uid, err)) < 0)
		return rc;
	rc = plugin_file_open(s, file, owner_uid, &why);
	if (rc == 0)
		rc = plugin_file_load(s->files[0], &why);
	if (rc == 0)
		rc = plugin_names_index(s, &why);
	if (rc == 0) {
		*set = s;
		return 0;
	}
	plugin_set_free(s);
	snprintf(path, sizeof(path), "%.150s/%s", dir, file);
	rc = load_unfit(&why, path, rc);
	if (err)
		*err = why;
	return rc;
}

void plugin_each_changed(struct plugin_set *set, void (*f)(void *data, const char *file, bool gone), void *data)
{
	for (size_t i = 0; i < set->files_len; i++) {
		struct plugin_file *file = set->files[i];
		struct stat st = { 0 };
		bool gone = fstatat(set->dir_fd, file->file, &st, AT_SYMLINK_NOFOLLOW) < 0;

		if ((gone && errno != ENOENT) || plugin_file_same(&st, &file->st))
			continue;
		file->st = st;
		f(data, file->file, gone);
	}
}

void *plugin_symbol(const struct plugin_set *set, const char *name)
{
	return set->files_len > 0 && set->files[0]->handle ? dlsym(set->files[0]->handle, name) : NULL;
}

void plugin_set_free(struct plugin_set *set)
{
	if (!set)
		return;
	plugin_names_free(set);
	for (size_t i = 0; i < set->files_len; i++)
		plugin_file_free(set->files[i]);
	free(set->files);
	if (set->dir_fd >= 0)
		close(set->dir_fd);
	free(set);
}
