/* SPDX-License-Identifier: MIT */
/* trip - everything that a round trip to the database is composed of: the settings, the jobs, and the state of each
 * step. Each file of engine/step changes only the struct that bears its name. */
#ifndef TRIP_H
#define TRIP_H

#include "engine/pure/due.h"
#include "engine/pure/verdict.h"
#include "engine/step/alerting.h"
#include "engine/step/attempt_log.h"
#include "engine/step/balance.h"
#include "engine/step/connection.h"
#include "engine/step/delayed.h"
#include "engine/step/housekeeping.h"
#include "engine/step/lease.h"
#include "engine/step/listening.h"
#include "engine/step/offer.h"
#include "engine/step/polling.h"
#include "engine/step/record.h"
#include "engine/step/scale.h"
#include "engine/step/tick.h"
#include "engine/step/unknown_function.h"
#include "engine/step/watch.h"
#include "engine/worker.h"

struct trip {
	const struct worker_setup *setup;
	const struct config *config;
	struct store_scope scope;
	struct verdict_in rules; /* and whether the worker is stopping */
	bool loop;
	int64_t cnt, lease_ms, batch, worker_id;
	int64_t charged; /* attempts made, or to be made with jobs in hand */
	uint64_t random; /* state of the generator */

	struct pool pool;
	struct ledger ledger;
	struct plan plan;
	struct begun begun; /* jobs with leases of their own, for the next start */
	struct store_cycle cycle;
	bool single;                 /* the current cycle records one attempt that was set aside */
	char round[ROUND_MAX];       /* store_cycle.round of the last claim under limits */
	char lanes_round[ROUND_MAX]; /* store_cycle.lanes_round of the last claim of all lanes */
	struct lanes lanes;          /* those that gave something to the last claim */

	struct {
		int tries;         /* of this cycle */
		uint64_t first_ns; /* when the server refused one first, */
		uint64_t last_ns;  /* and last */
		uint64_t log_ns;   /* when that was logged last; 0: it was not */
	} rollback;

	struct alerting alerting;
	struct attempt_log attempt_log;
	struct balance balance;
	struct connection connection;
	struct delayed delayed;
	struct housekeeping housekeeping;
	struct lease lease;
	struct listening listening;
	struct offer offer;
	struct polling polling;
	struct record record;
	struct scale scale;
	struct tick tick;
	struct unknown_function unknown;
	struct watch watch;
	uint64_t progress_ns; /* reports of progress are not looked for before */
};

#endif
