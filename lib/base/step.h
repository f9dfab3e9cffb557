/* SPDX-License-Identifier: MIT */
/* step - what a running function has saved, on its way to the database. */
#ifndef STEP_H
#define STEP_H

#include "base/job.h"

#include <stdint.h>

#define STEP_VALUE_MAX 65536 /* bytes; how much a job may save in all: sql/functions/step/__step_save.sql */

struct job_step {
	struct job *job;
	uint32_t number;   /* of the call's steps, from 1 */
	bool resets;       /* the attempt does not count if the step is new */
	uint64_t asked_ns; /* when it came */
	uint64_t again_ns; /* not to be sent before: the row of its job was locked */
	const char *name, *value;
	char text[];
};

#endif
