/* SPDX-License-Identifier: MIT */
/* offer - reports to the database which functions there are here. People read that, and jobs that were set aside
 * because no worker had their function become ready. */
#ifndef OFFER_H
#define OFFER_H

#include "run/pool/pool.h"
#include "store/store_worker.h"

#define OFFER_PLACE_MAX 1024

struct offer {
	char place[OFFER_PLACE_MAX];             /* where the functions come from: plugin folder and config file */
	int64_t catalog;                         /* hash of what the database was sent within the hour; 0: nothing */
	const struct runner_function *functions; /* those that were compared with it last */
	uint64_t again_ns;                       /* they are sent again then */
};

void offer_set_up(struct offer *offer, const struct runner_setup *runners);
void offer_forget(struct offer *offer); /* it is sent again at once */
/* Between cycles. Returns 1 if something was sent, so jobs may be ready, 0 or DEFERRED_ELOST. */
int offer_run(struct offer *offer, struct pg *pg, const struct pool *pool, const char *host, uint64_t now,
	      struct deferred_error *err);

#endif
