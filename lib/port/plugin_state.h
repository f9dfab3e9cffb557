/* SPDX-License-Identifier: MIT */
/*
 * plugin_state - a set of plugins as the files of plugin.h see it. Each of them calls only those to the right of it:
 *
 *     plugin.c -> plugin_names.c, plugin_file.c -> trusted.c
 */
#ifndef PLUGIN_STATE_H
#define PLUGIN_STATE_H

#include "port/plugin.h"

#include <sys/stat.h>

/* The file is no plugin of ours. Positive, so that it cannot be taken for a DEFERRED_E... code. */
#define PLUGIN_UNFIT 1

struct plugin_file {
	char *file;     /* name in the folder */
	char *title;    /* "NAME VERSION BUILDID" */
	char *name;     /* of the plugin */
	int fd;         /* our copy; open while it is loaded, for glibc identifies objects by path first */
	char *path;     /* of the file, to be loaded instead of the copy; NULL: the copy is */
	struct stat st; /* of the file it was copied from, or of the last change that was reported */
	void *handle;   /* NULL: not loaded yet */
	struct plugin_function *functions;
	size_t len;
};

struct plugin_name {
	char *name;
	const struct plugin_file *file;
	const struct plugin_function *fn;
};

struct plugin_set {
	int dir_fd;
	struct plugin_file **files;
	size_t files_len;
	struct plugin_name *names; /* sorted once all files are loaded */
	size_t names_len, names_cap;
	struct plugin_clash {
		char *name, *text;
	} * clashes; /* names that more than one function has */
	size_t clashes_len;
};

/* Copy a file of the folder and add it to the set. Returns 0, PLUGIN_UNFIT, DEFERRED_EPLUGIN for its ownership, or
 * DEFERRED_ENOMEM. */
int plugin_file_open(struct plugin_set *set, const char *file, unsigned int owner_uid, struct deferred_error *err);

/* Load the copy and read its table. Returns 0, PLUGIN_UNFIT or DEFERRED_ENOMEM. */
int plugin_file_load(struct plugin_file *file, struct deferred_error *err);
bool plugin_file_same(const struct stat *a, const struct stat *b);
void plugin_file_free(struct plugin_file *file);

/* May a plugin have this name? It is that of a function without dots. */
bool plugin_name_ok(const char *name);

/* Make the functions of all files searchable by name. */
int plugin_names_index(struct plugin_set *set, struct deferred_error *err);
void plugin_names_free(struct plugin_set *set);

#endif
