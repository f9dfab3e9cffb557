/* SPDX-License-Identifier: MIT */
/*
 * probes - answers probes over HTTP while a service runs: GET /live and GET /ready, see check_deferred(1).
 *
 * A thread of its own answers, so that a probe neither waits for the loop of the worker nor holds it up. The server of
 * lib/http limits connections, time and bytes.
 */
#ifndef PROBES_H
#define PROBES_H

#include "engine/worker.h"

/* Listens on the addresses of health.listen, if there are any. pulse is shown by the worker that runs with this lease.
 * Returns 0, DEFERRED_ECONFIG or DEFERRED_ESYSTEM. */
int probes_start(const struct config *config, const struct worker_pulse *pulse, struct deferred_error *err);

/* Cuts off slow clients. Call it every few seconds. Without it they are cut off when others come. */
void probes_tick(void);

void probes_stop(void);

#endif
