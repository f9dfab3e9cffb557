/* SPDX-License-Identifier: MIT */
/*
 * plugin - load plugins, check their ABI, and find a function.
 *
 *     plugin.c        the folder: which files are opened and loaded
 *     plugin_file.c   one file, its copy and its table; only it and plugin.c include dlfcn.h
 *     plugin_names.c  the names of all functions
 *
 * A plugin is trusted code, so a file is loaded only if nobody but root and our user could have written it. The file,
 * its folder and all folders above belong to root or our user and are writable by nobody else. A sticky folder such as
 * /tmp may be above it. The file is opened without following links and copied into memory, and the copy is loaded.
 * Later changes of the file therefore have no effect.
 *
 * Called in a runner, and by deferred_send_mail() in the process of the application.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#include "deferred_plugin.h"
#include "base/error.h"

#include <stdbool.h>

struct plugin_set;

/* The folder of the stock plugins. It is found from the path of this program or library, as built or as installed;
 * otherwise it is that of `make install`. Never freed. */
const char *plugin_default_dir(void);

/* Why a file of the folder was not taken; the rest goes on. `text` says what and the remedy. */
typedef void plugin_refused_fn(void *data, const char *file, const char *text);
/* Called right before a file is loaded: its constructors may crash. Returns false to pass the file over. */
typedef bool plugin_loading_fn(void *data, const char *file);

/*
 * Check owner and mode of the plugin folder, before any plugin is loaded. owner_uid: a second user,
 * besides root, that may own it. Returns 0 or DEFERRED_EPLUGIN (quotes the path, and the remedy).
 */
int plugin_dir_check(const char *dir, unsigned int owner_uid, struct deferred_error *err);

/*
 * Open and check every *.so of the folder, but load none. Later the checked files are loaded, whatever has replaced
 * them. refused() reports files that cannot be opened, and they are left out. Returns 0; DEFERRED_EPLUGIN if the folder
 * or a file is refused for its ownership; DEFERRED_ENOMEM.
 */
int plugin_open_dir(struct plugin_set **set, const char *dir, unsigned int owner_uid, plugin_refused_fn *refused,
		    void *data, struct deferred_error *err);

/* The files themselves are loaded from now on, not copies: debuggers do not find the symbols of a copy. A file must not
 * be changed while it is loaded. Returns 0 or DEFERRED_ENOMEM. */
int plugin_set_in_place(struct plugin_set *set, struct deferred_error *err);

/*
 * Load all of them, in order of names. Files that cannot be loaded, or are no plugin, or of another ABI, are
 * reported by refused() and left out. A name that two functions have is not found: plugin_each_clash() tells. Returns
 * 0;
 * DEFERRED_ENOMEM.
 */
int plugin_load_all(struct plugin_set *set, plugin_loading_fn *loading, plugin_refused_fn *refused, void *data,
		    struct deferred_error *err);

/* Load one of them; its functions are added to those that are found. Returns 0, DEFERRED_EPLUGIN where it cannot be
 * loaded, DEFERRED_ENOMEM. */
int plugin_load_file(struct plugin_set *set, const char *file, struct deferred_error *err);

/* Open and load one file of the folder, NAME.so. */
int plugin_load_one(struct plugin_set **set, const char *dir, const char *name, unsigned int owner_uid,
		    struct deferred_error *err);

/* Call f for each file that was replaced, written to or removed since the set was opened or f was called for it. Loaded
 * plugins stay. */
void plugin_each_changed(struct plugin_set *set, void (*f)(void *data, const char *file, bool gone), void *data);

/* A symbol that the first file of the set exports besides its table. NULL: none of that name. */
void *plugin_symbol(const struct plugin_set *set, const char *name);

void plugin_set_free(struct plugin_set *set); /* unloads; NULL is accepted */

/* A function as loaded: the newest members of the table are zero for a plugin built with an older header. */
struct plugin_function {
	struct deferred_function fn;
	const char *plugin; /* "NAME VERSION BUILDID", for the log */
	const char *file;   /* name in the folder */
};

/* Look up NAME, PLUGIN.NAME or an alias. NULL: unknown. */
const struct plugin_function *plugin_find(const struct plugin_set *set, const char *name);

/* Call f for each name that more than one function has; text says which files. */
void plugin_each_clash(const struct plugin_set *set, void (*f)(void *data, const char *name, const char *text),
		       void *data);

/* Call f for each name that plugin_find() knows, the qualified ones included. */
void plugin_each(const struct plugin_set *set,
		 void (*f)(void *data, const char *name, const struct plugin_function *fn), void *data);

#endif
