/* SPDX-License-Identifier: MIT */
#include "run/functions.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASHES_LOGGED 5

static void clear_function(struct runner_function *f)
{
	free(f->name);
	free(f->plugin);
}

void runner_functions_free(struct runner_function *functions, size_t len)
{
	for (size_t i = 0; i < len; i++)
		clear_function(&functions[i]);
	free(functions);
}

static int functions_compare(const void *a, const void *b)
{
	return strcmp(((const struct runner_function *)a)->name, ((const struct runner_function *)b)->name);
}

static const struct runner_function *functions_find_in(const struct runner_function *list, size_t len, const char *name)
{
	struct runner_function key = { .name = (char *)name };

	return len == 0 ? NULL : bsearch(&key, list, len, sizeof(key), functions_compare);
}

static bool are_served(const struct functions *functions, const struct runner_function *list, size_t len)
{
	if (!functions->known || len != functions->served_len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (strcmp(list[i].name, functions->served[i].name) != 0 ||
		    strcmp(list[i].plugin, functions->served[i].plugin) != 0 ||
		    list[i].batch != functions->served[i].batch ||
		    list[i].batch_wait_ms != functions->served[i].batch_wait_ms)
			return false;
	return true;
}

/* Each clash is logged once, not by each runner. A copy of a plugin makes all its functions clash. */
static void log_clashes(const struct functions *functions, const struct runner_function *list, size_t len)
{
	size_t news = 0;

	for (size_t i = 0; i < len; i++)
		if (!functions_clash(functions, list[i].name) && ++news <= CLASHES_LOGGED)
			log_line(LOG_L_WARNING, "%s: refused; the other functions run", list[i].plugin);
	if (news > CLASHES_LOGGED)
		log_line(LOG_L_WARNING, "and %zu more functions like these", news - CLASHES_LOGGED);
}

static bool make_missing(struct runner_function *f, const char *name, const char *file)
{
	*f = (struct runner_function){ .name = strdup(name), .clash = true, .max_attempts = -1 };
	if (asprintf(&f->plugin, "function '%s': plugin '%s' is not loaded, for a runner died while loading it", name,
		     file) < 0)
		f->plugin = NULL;
	if (f->name && f->plugin)
		return true;
	clear_function(f);
	return false;
}

/* Add functions that were there before a plugin was skipped. */
static void add_missing(const struct functions *functions, const struct passed_over *skipped,
			struct runner_function **list, size_t *n)
{
	const struct runner_function *const before[] = { functions->served, functions->clashes };
	const size_t len[] = { functions->served_len, functions->clashes_len };
	struct runner_function *all = *list;
	size_t known = *n;

	if (skipped->len == 0)
		return;
	all = realloc(all, (known + len[0] + len[1] + 1) * sizeof(*all));
	if (!all)
		return;
	*list = all;
	for (size_t b = 0; b < 2; b++)
		for (size_t i = 0; i < len[b]; i++)
			if (!functions_find_in(all, known, before[b][i].name))
				*n += make_missing(&all[*n], before[b][i].name, skipped->plugin[0].file);
	qsort(all, *n, sizeof(*all), functions_compare);
}

/* Move the clashes out of the list. Returns how many functions are left. */
static size_t take_clashes(struct functions *functions, struct runner_function *list, size_t len)
{
	size_t left = 0, clashes_len = 0;
	struct runner_function *clashes;

	for (size_t i = 0; i < len; i++)
		clashes_len += list[i].clash;
	clashes = clashes_len ? malloc(clashes_len * sizeof(*clashes)) : NULL;
	clashes_len = 0;
	for (size_t i = 0; i < len; i++)
		if (!list[i].clash)
			list[left++] = list[i];
		else if (clashes)
			clashes[clashes_len++] = list[i];
		else /* out of memory: the function counts as unknown */
			clear_function(&list[i]);
	log_clashes(functions, clashes, clashes_len);
	runner_functions_free(functions->clashes, functions->clashes_len);
	functions->clashes = clashes;
	functions->clashes_len = clashes_len;
	return left;
}

void functions_learn(struct functions *functions, struct runner_function *list, size_t len,
		     const struct passed_over *skipped)
{
	struct functions_old *old;

	if (len > 1)
		qsort(list, len, sizeof(*list), functions_compare);
	add_missing(functions, skipped, &list, &len);
	len = take_clashes(functions, list, len);
	if (are_served(functions, list, len)) {
		runner_functions_free(list, len);
		return;
	}
	old = functions->known ? malloc(sizeof(*old)) : NULL;
	if (old) {
		*old = (struct functions_old){ functions->old, functions->served, functions->served_len };
		functions->old = old;
	}
	functions->served = list;
	functions->served_len = len;
	functions->known = true;
	functions->wait = false;
	for (size_t i = 0; i < len; i++)
		functions->wait |= list[i].batch_wait_ms > 0;
}

const struct runner_function *functions_find(const struct functions *functions, const char *name)
{
	return functions_find_in(functions->served, functions->served_len, name);
}

const char *functions_clash(const struct functions *functions, const char *name)
{
	const struct runner_function *f = functions_find_in(functions->clashes, functions->clashes_len, name);

	return f ? f->plugin : NULL;
}

void functions_clear(struct functions *functions)
{
	runner_functions_free(functions->served, functions->served_len);
	runner_functions_free(functions->clashes, functions->clashes_len);
	while (functions->old) {
		struct functions_old *old = functions->old;

		functions->old = old->next;
		runner_functions_free(old->served, old->len);
		free(old);
	}
	*functions = (struct functions){ 0 };
}
