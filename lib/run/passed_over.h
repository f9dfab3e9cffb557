/* SPDX-License-Identifier: MIT */
/*
 * passed_over - plugins that a runner died of, or hung in, while loading them.
 *
 * Runners skip such a plugin for a while, and then one of them tries again. Each further death doubles the pause,
 * because the plugin may not have been at fault for the first one.
 */
#ifndef PASSED_OVER_H
#define PASSED_OVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct passed_over {
	struct passed_over_plugin {
		char *file;
		unsigned int times; /* in a row */
		uint64_t until_ns;  /* runners started from then on load it */
	} * plugin;
	size_t len;
};

void passed_over_add(struct passed_over *list, const char *file, bool hung);
void passed_over_clear(struct passed_over *list);

/* A runner started at this time has become ready: it has loaded the plugins that were due, or refused them with a
 * reason. They leave the list. Returns whether there were any. */
bool passed_over_drop(struct passed_over *list, uint64_t spawned_ns);

/* Is one of them to be loaded again? */
bool passed_over_due(const struct passed_over *list, uint64_t now);

/* When the next one will be; UINT64_MAX: none. */
uint64_t passed_over_next_ns(const struct passed_over *list, uint64_t now);

#endif
