/* SPDX-License-Identifier: MIT */
/* ending - how the first call of a runner ended, by its board, its texts, or the death of the runner. */
#ifndef ENDING_H
#define ENDING_H

#include "run/calls.h"
#include "run/runner_output.h"

/* The answer of a call that the board says is done. */
enum ending_answer {
	ENDING_WHOLE,
	ENDING_SHORT, /* some texts did not arrive */
	ENDING_TORN   /* something that is not a frame came right behind it */
};

/* Why we killed the runner. */
struct ending_kill {
	bool killed;
	int64_t job; /* the job that was meant */
	enum job_outcome outcome;
	char text[256];
};

/* said: a copy of its slot of the board, which a function may change at any time. */
struct attempt *ending_done(struct calls *calls, struct runner_output *output, const struct board_slot *said,
			    enum ending_answer answer);

/* The runner has died with this wait status while it ran the call. */
struct attempt *ending_died(struct calls *calls, struct runner_output *output, const struct ending_kill *kill,
			    int status);

#endif
