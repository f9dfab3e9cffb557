/* SPDX-License-Identifier: MIT */
/*
 * functions - what the runners of a pool have loaded.
 *
 * Two plugins may have a function of the same name. Such a function clashes: it is refused, and the others are served.
 */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include "run/passed_over.h"

struct runner_function {
	char *name;
	char *plugin; /* "NAME VERSION BUILD", or "command"; of a clash: why it is refused */
	bool clash;   /* refused: it exists twice, or others can write its command */
	int64_t timeout_ms;
	int32_t max_attempts; /* -1: it clashes */
	uint32_t flags;
	size_t batch;          /* jobs of a call, at most */
	int64_t batch_wait_ms; /* a job waits so long for a full batch */
	size_t ready;          /* for pool_dispatch(): jobs that need not wait */
};

void runner_functions_free(struct runner_function *functions, size_t len);

struct functions {
	struct runner_function *served, *clashes; /* sorted by name */
	size_t served_len, clashes_len;
	struct functions_old { /* replaced lists: attempts may still name their plugins */
		struct functions_old *next;
		struct runner_function *served;
		size_t len;
	} * old;
	bool known;
	bool wait; /* some served function has batch_wait_ms */
};

/*
 * Take over what a runner that has become ready has loaded. Functions that disappeared while a plugin is skipped count
 * as clashes. Otherwise somebody would be asked to install that plugin.
 */
void functions_learn(struct functions *functions, struct runner_function *list, size_t len,
		     const struct passed_over *skipped);
const struct runner_function *functions_find(const struct functions *functions, const char *name);

/* Why this function is refused; NULL: it is not. */
const char *functions_clash(const struct functions *functions, const char *name);
void functions_clear(struct functions *functions);

#endif
