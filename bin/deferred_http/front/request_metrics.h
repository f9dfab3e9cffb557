/* SPDX-License-Identifier: MIT */
/*
 * request_metrics - counts requests of this process by operation and status, and how long they took. Any thread may
 * call it.
 */
#ifndef REQUEST_METRICS_H
#define REQUEST_METRICS_H

#include "protocol/operation.h"

#include <stdbool.h>
#include <stdint.h>

struct request_metrics;
struct request_metrics *request_metrics_new(void); /* NULL: no memory */
void request_metrics_free(struct request_metrics *t);

/* NULL for op means no operation of the protocol. A status of 0 means that there was no answer. The time runs from the
 * request line to the end of the answer. */
void request_metrics_add(struct request_metrics *t, const struct operation *op, int status, int64_t us);

/* As exposition.h has it, given: free(). NULL: no memory. */
char *request_metrics_text(struct request_metrics *t, bool open);

#endif
