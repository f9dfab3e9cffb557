/* SPDX-License-Identifier: MIT */
/* attempt_log - the log lines of attempts. */
#ifndef ATTEMPT_LOG_H
#define ATTEMPT_LOG_H

#include "base/attempt.h"
#include "run/pool/pool.h"

#define ATTEMPT_LOG_TEXTS 64

struct attempt_log {
	const char *who; /* " (pidfile ..., queue ...)", or "": see struct worker_setup */
	int64_t gap_ms;  /* from our start to the next start; 0: there was none yet */
	struct {
		char *text;
		uint64_t again_ns; /* not to be logged before */
	} text[ATTEMPT_LOG_TEXTS]; /* what is missing here, by the words of functions */
	size_t len;
};

void attempt_log_set_up(struct attempt_log *log, const char *who);
void attempt_log_next_start(struct attempt_log *log, uint64_t gap_ns); /* it came so long after ours */
void attempt_log_write(struct attempt_log *log, const struct pool *pool, const struct attempt *attempt);
void attempt_log_forget(struct attempt_log *log); /* texts that are logged once an hour are logged again */

#endif
