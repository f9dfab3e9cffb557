/* SPDX-License-Identifier: MIT */
/* runner_setup - what every runner of a run is started with. */
#ifndef RUNNER_SETUP_H
#define RUNNER_SETUP_H

#include "port/config.h"
#include "run/frame.h"
#include "run/passed_over.h"

#include <limits.h>

#include <sys/types.h>

#define RUNNER_TOOL_MAX 24
struct runner_setup {
	const struct config *config;
	const char *program;    /* path of deferred_runner */
	const char *plugin_dir; /* NULL: no plugins, only commands */
	const char *instance;   /* for DEFERRED_INSTANCE */
	bool probe;             /* for `deferred doctor`: start all programs, and report what is wrong with them */
	uint8_t debug;          /* FRAME_DEBUG_STOP, FRAME_DEBUG_HERE or 0 */
	/* A command that runs the runner, at most RUNNER_TOOL_MAX words and NULL: a debugger, for example. It has our
	 * terminal, and all output goes to our standard error. NULL: none. */
	const char *const *tool;
	bool switch_user;
	uid_t uid; /* where switch_user */
	gid_t gid;
	const char *user;
	char home[512], shell[256]; /* of that user */
	struct passed_over passed_over;
};

/* Path of deferred_runner: in the folder of the running program if it was built there, else in libexec. */
const char *runner_setup_program(char path[static PATH_MAX]);

/* Append the frames that a runner reads before its first call. Returns 0, or -1 when out of memory. */
int runner_setup_send(const struct runner_setup *setup, struct frame_buf *out);

#endif
