/* SPDX-License-Identifier: MIT */
#include "run/passed_over.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_NS NS_PER_S
#define HUNG_NS (60 * NS_PER_S) /* a hanging plugin may occupy a runner until its time to load is up */
#define MOST_NS (300 * NS_PER_S)

void passed_over_clear(struct passed_over *list)
{
	for (size_t i = 0; i < list->len; i++)
		free(list->plugin[i].file);
	free(list->plugin);
	*list = (struct passed_over){ 0 };
}

static struct passed_over_plugin *find_plugin(struct passed_over *list, const char *file)
{
	struct passed_over_plugin *bigger;

	for (size_t i = 0; i < list->len; i++)
		if (strcmp(list->plugin[i].file, file) == 0)
			return &list->plugin[i];
	bigger = realloc(list->plugin, (list->len + 1) * sizeof(*bigger));
	if (!bigger)
		return NULL;
	list->plugin = bigger;
	bigger[list->len] = (struct passed_over_plugin){ .file = strdup(file) };
	return bigger[list->len].file ? &bigger[list->len++] : NULL;
}

void passed_over_add(struct passed_over *list, const char *file, bool hung)
{
	struct passed_over_plugin *p = find_plugin(list, file);
	uint64_t wait_ns = hung ? HUNG_NS : FIRST_NS;

	if (!p) {
		log_line(LOG_L_ERROR, "plugin '%s' not loaded: out of memory", file);
		return;
	}
	for (unsigned int i = 0; i < p->times && wait_ns < MOST_NS; i++)
		wait_ns *= 2;
	wait_ns = wait_ns > MOST_NS ? MOST_NS : wait_ns;
	p->times++;
	p->until_ns = clock_ns() + wait_ns;
	log_line(LOG_L_ERROR, "plugin '%s' not loaded: its runner %s while loading it; trying again in %.0f s", file,
		 hung ? "hung" : "died", (double)wait_ns / 1e9);
}

bool passed_over_drop(struct passed_over *list, uint64_t spawned_ns)
{
	size_t left = 0, len = list->len;

	for (size_t i = 0; i < len; i++)
		if (list->plugin[i].until_ns <= spawned_ns)
			free(list->plugin[i].file);
		else
			list->plugin[left++] = list->plugin[i];
	list->len = left;
	return left < len;
}

bool passed_over_due(const struct passed_over *list, uint64_t now)
{
	for (size_t i = 0; i < list->len; i++)
		if (list->plugin[i].until_ns <= now)
			return true;
	return false;
}

uint64_t passed_over_next_ns(const struct passed_over *list, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < list->len; i++)
		if (list->plugin[i].until_ns > now && list->plugin[i].until_ns < next)
			next = list->plugin[i].until_ns;
	return next;
}
