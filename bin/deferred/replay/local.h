/* SPDX-License-Identifier: MIT */
/* local - one job in a runner below this process. Nothing is recorded: it is printed. For `run` and `replay`. */
#ifndef LOCAL_H
#define LOCAL_H

#include "base/job.h"
#include "cmd.h"

struct local {
	const char *unsaved;          /* why nothing is recorded */
	const char *plugin;           /* what ran it once: a warning is printed if it is another one now. "": unknown */
	const char *const *tool;      /* see struct runner_setup; there is no time limit below it. NULL: none */
	uint8_t debug;                /* the same */
	bool removes;                 /* files that the function wants removed after its success */
	int failed, crashed, timeout; /* exit codes */
};

/* Run the job with the settings of cli->config, and print how it ended. The job is freed. Returns the exit code. */
int local_run(struct cli *cli, const struct local *local, struct job *job);

#endif
