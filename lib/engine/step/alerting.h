/* SPDX-License-Identifier: MIT */
/* alerting - reports problems to operators, and pauses functions that crash. */
#ifndef ALERTING_H
#define ALERTING_H

#include "port/config.h"
#include "port/pg.h"

struct alerting {
	char *settings; /* as store_alert() takes them; NULL: alerts are off */
	bool due;       /* housekeeping was done */
};

void alerting_set_up(struct alerting *alerting, const struct config *config); /* at the start and after a reload */
void alerting_clear(struct alerting *alerting);
void alerting_set_due(struct alerting *alerting); /* housekeeping was done */
int alerting_run(struct alerting *alerting, struct pg *pg,
		 struct deferred_error *err); /* if due; 0 or DEFERRED_ELOST */
/* n crashes of a function were recorded. Returns 1 if the breaker has paused it, 0 or DEFERRED_ELOST. */
int alerting_crashed(struct pg *pg, const struct config *config, const char *fn, int64_t n, struct deferred_error *err);
void alerting_at_end(const struct alerting *alerting, struct pg *pg, bool folded); /* of a run */

#endif
