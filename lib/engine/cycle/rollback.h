/* SPDX-License-Identifier: MIT */
/* rollback - what becomes of a cycle that was rolled back, or could not be sent. */
#ifndef ROLLBACK_H
#define ROLLBACK_H

#include "engine/cycle/trip.h"

/* Returns 0 if the run goes on, DEFERRED_ELOST if the connection is to be given up, else the code the run ends with. */
int rollback_cycle(struct trip *t, struct deferred_error *err, uint64_t now);

#endif
