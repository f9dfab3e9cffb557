/* SPDX-License-Identifier: MIT */
/* A plugin that dies while it is loaded: once where a file "once" is in the folder HOME, as long as there is a file
 * "always". While there is a file "begun" it does not end to load, and writes to that file. */
#include "deferred_plugin.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int steady(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

__attribute__((constructor)) static void die(void)
{
	const char *home = getenv("HOME");
	char once[4096], always[4096], begun[4096];

	snprintf(once, sizeof(once), "%s/once", home ? home : "");
	snprintf(always, sizeof(always), "%s/always", home ? home : "");
	snprintf(begun, sizeof(begun), "%s/begun", home ? home : "");
	while (access(begun, F_OK) == 0 && truncate(begun, 1) == 0)
		usleep(10000);
	if (unlink(once) == 0 || access(always, F_OK) == 0)
		raise(SIGKILL); /* as the kernel does when memory runs out */
}

static const struct deferred_function functions[] = { { .name = "steady", .run = steady } };

DEFERRED_PLUGIN("unsteady", "1.0", functions);
