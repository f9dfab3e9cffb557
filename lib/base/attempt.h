/* SPDX-License-Identifier: MIT */
/* attempt - how one try at a job ended. */
#ifndef ATTEMPT_H
#define ATTEMPT_H

#include "base/step.h"

struct runner_call { /* a call deferred by a function, with its success */
	struct runner_call *next;
	const char *fn, *params, *opts; /* opts NULL if none */
	char text[];
};

struct runner_path {
	struct runner_path *next;
	char path[];
};

/* How an attempt ended. */
struct attempt {
	struct attempt *next;
	struct job *job;
	enum job_outcome outcome;
	bool dead;              /* failed for good */
	bool unready;           /* what it needs is missing here, and no fault of the job's */
	int64_t retry_after_ms; /* -1: the usual back-off */
	int exit_code;          /* -1: none */
	int signal;             /* 0: none */
	uint64_t started_ns, finished_ns;
	uint64_t user_us, sys_us, max_rss_kb;
	unsigned int batch;   /* jobs of the call */
	bool shared;          /* the call was cut off, and nobody knows which of several jobs is at fault */
	const char *plugin;   /* borrowed from the runner_functions in force; NULL: unknown */
	char *error, *result; /* valid UTF-8; NULL if none */
	size_t error_len, result_len;
	struct runner_call *follow; /* to be deferred with a success */
	struct runner_path *remove; /* to be removed after a recorded success */
	struct job_step *step;      /* saved by the function, and not yet known to be stored; NULL: none */
	size_t held;                /* bytes of all these texts, as attempt_hold() counted them */
	/* set by the worker, which decides what becomes of the job */
	bool final;        /* the job leaves the queue */
	int64_t delay_ms;  /* else it is due again after this */
	bool counts;       /* against the number allowed: one that ended for our sake does not */
	bool suspect;      /* the job is claimed next with a lease of its own, and run alone */
	bool sent_before;  /* the answer to an earlier recording was lost */
	bool resent;       /* and it was sent again */
	bool refused;      /* though it was sent once only */
	uint64_t again_ns; /* set apart: not to be sent before */
	int tries;         /* set apart: refused so often for a passing reason */
	bool replaced;     /* its texts could not be stored and were replaced */
};
/* Count what it holds, its texts and ask_bytes for follow and remove, until it is freed; and what all attempts hold
 * together. */
void attempt_hold(struct attempt *attempt, size_t ask_bytes);
size_t attempt_held_bytes(void);

void attempt_free(struct attempt *attempt); /* with its job; NULL is accepted */

/* Texts are made fit for a text column: valid UTF-8, no NUL, at most JOB_TEXT_MAX bytes. */
void attempt_set_text(char **text, size_t *text_len, const char *data, size_t len);
void attempt_set_error(struct attempt *attempt, const char *text);
void attempt_drop_follow(struct attempt *attempt);

#endif
