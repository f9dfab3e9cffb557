/* SPDX-License-Identifier: MIT */
/* progress - what a function that runs said last of how far it is. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "base/job.h"

#include <stdint.h>

#define PROGRESS_TEXT_MAX 200

struct job_progress {
	struct job *job;
	uint32_t number;                  /* of the report, never 0; another one for each */
	int64_t done, total;              /* below 0: not told */
	uint64_t reported_ns;             /* within the life of the claim */
	char text[PROGRESS_TEXT_MAX + 1]; /* fit for a text column */
};

#endif
