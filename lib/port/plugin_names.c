/* SPDX-License-Identifier: MIT */
#include "port/plugin_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_name(struct plugin_set *set, const struct plugin_file *f, const struct plugin_function *fn,
		    const char *qualifier, const char *name, struct deferred_error *err)
{
	struct plugin_name *n;

	if (set->names_len == set->names_cap) {
		size_t cap = set->names_cap ? 2 * set->names_cap : 32;
		struct plugin_name *names = realloc(set->names, cap * sizeof(*names));

		if (!names)
			return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
		set->names = names;
		set->names_cap = cap;
	}
	n = &set->names[set->names_len];
	if (asprintf(&n->name, "%s%s%s", qualifier, qualifier[0] ? "." : "", name) < 0)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	n->file = f;
	n->fn = fn;
	set->names_len++;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct plugin_name *)a)->name, ((const struct plugin_name *)b)->name);
}

static void clear_names(struct plugin_set *set)
{
	for (size_t i = 0; i < set->names_len; i++)
		free(set->names[i].name);
	set->names_len = 0;
}

static void clear_clashes(struct plugin_set *set)
{
	for (size_t i = 0; i < set->clashes_len; i++) {
		free(set->clashes[i].name);
		free(set->clashes[i].text);
	}
	set->clashes_len = 0;
}

/* Names [from, to) are one name. Returns the first that stands for another function than the first, `to` where there is
 * none. */
static size_t find_rival(const struct plugin_set *set, size_t from, size_t to)
{
	size_t i = from + 1;

	while (i < to && set->names[i].fn == set->names[from].fn)
		i++;
	return i;
}

static int add_clash(struct plugin_set *set, const struct plugin_name *a, const struct plugin_name *b,
		     struct deferred_error *err)
{
	struct plugin_clash *clashes = realloc(set->clashes, (set->clashes_len + 1) * sizeof(*clashes)), *c;

	if (!clashes)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	set->clashes = clashes;
	c = &clashes[set->clashes_len];
	if (asprintf(&c->text, "function '%s' is both in plugin '%.150s' and in plugin '%.150s'", a->name,
		     a->file->file, b->file->file) < 0)
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	c->name = strdup(a->name);
	if (!c->name) {
		free(c->text);
		return error_set(err, DEFERRED_ENOMEM, "plugin", "out of memory");
	}
	set->clashes_len++;
	return 0;
}

/* A name that stands for two functions stands for none: neither is what its caller surely meant. */
static int drop_clashes(struct plugin_set *set, struct deferred_error *err)
{
	size_t kept = 0, to;
	int rc = 0;

	for (size_t from = 0; from < set->names_len; from = to) {
		size_t rival;

		for (to = from + 1; to < set->names_len && compare_names(&set->names[from], &set->names[to]) == 0;)
			to++;
		rival = find_rival(set, from, to);
		if (rival < to && rc == 0)
			rc = add_clash(set, &set->names[from], &set->names[rival], err);
		for (size_t i = from; i < to; i++) {
			if (rival < to)
				free(set->names[i].name);
			else
				set->names[kept++] = set->names[i];
		}
	}
	set->names_len = kept;
	return rc;
}

int plugin_names_index(struct plugin_set *set, struct deferred_error *err)
{
	int rc = 0;

	clear_names(set);
	clear_clashes(set);
	for (size_t i = 0; i < set->files_len; i++) {
		const struct plugin_file *f = set->files[i];

		for (size_t j = 0; j < f->len && rc == 0; j++) {
			const struct plugin_function *fn = &f->functions[j];

			rc = add_name(set, f, fn, "", fn->fn.name, err);
			if (rc == 0)
				rc = add_name(set, f, fn, f->name, fn->fn.name, err);
			for (const char *const *a = fn->fn.aliases; a && *a && rc == 0; a++)
				rc = add_name(set, f, fn, "", *a, err);
		}
	}
	if (rc < 0 || set->names_len == 0)
		return rc;
	qsort(set->names, set->names_len, sizeof(set->names[0]), compare_names);
	return drop_clashes(set, err);
}

void plugin_names_free(struct plugin_set *set)
{
	clear_names(set);
	free(set->names);
	clear_clashes(set);
	free(set->clashes);
}

const struct plugin_function *plugin_find(const struct plugin_set *set, const char *name)
{
	struct plugin_name key = { .name = (char *)name };
	const struct plugin_name *found;

	if (!set->names_len)
		return NULL;
	found = bsearch(&key, set->names, set->names_len, sizeof(key), compare_names);
	return found ? found->fn : NULL;
}

void plugin_each(const struct plugin_set *set,
		 void (*f)(void *data, const char *name, const struct plugin_function *fn), void *data)
{
	for (size_t i = 0; i < set->names_len; i++)
		if (i == 0 || strcmp(set->names[i - 1].name, set->names[i].name) != 0)
			f(data, set->names[i].name, set->names[i].fn);
}

void plugin_each_clash(const struct plugin_set *set, void (*f)(void *data, const char *name, const char *text),
		       void *data)
{
	for (size_t i = 0; i < set->clashes_len; i++)
		f(data, set->clashes[i].name, set->clashes[i].text);
}
