/* SPDX-License-Identifier: MIT */
/*
 * push - sends spans to a collector over OTLP/HTTP, in JSON.
 *
 * A batch is sent until the collector has answered that it took it or refuses it. So a batch comes twice only if the
 * answer was lost. The ids of spans are the same then.
 */
#ifndef PUSH_H
#define PUSH_H

#include "cmd.h"
#include "otlp.h"

#include <signal.h>

struct push;

/* endpoint: of otlp.endpoint or the command line. patient: wait for the collector without end. *ended: stop waiting.
 * Returns 0 or the exit code, the error having been reported. */
int push_open(struct push **push, const struct cli *cli, const char *endpoint, bool patient,
	      const volatile sig_atomic_t *ended);

/* Returns 0 when the collector has the spans, or has refused some for their content, which was reported. 1: *ended was
 * set before. */
int push_send(struct push *p, const struct otlp_span *spans, size_t n, struct deferred_error *err);

void push_close(struct push *p);

#endif
