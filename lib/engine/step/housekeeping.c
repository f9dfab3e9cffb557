/* SPDX-License-Identifier: MIT */
#include "engine/step/housekeeping.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/migrate.h"

#define PAUSE_NS (30 * NS_PER_S) /* a worker that was not seen for 5 minutes is taken for dead */
#define FOLD_NS NS_PER_S         /* the pause when more of the log is left to be folded */

int housekeeping_add(struct housekeeping *h, struct store_cycle *cycle, const struct store_scope *scope, int64_t worker,
		     int64_t from_us, uint64_t now, struct deferred_error *err)
{
	h->ns = now + PAUSE_NS;
	h->under_way = true;
	return store_cycle_keep(cycle, scope, worker, from_us, err);
}

int housekeeping_after(struct housekeeping *h, const struct store_cycle *cycle, struct deferred_error *err)
{
	int rc = migrate_accepts(cycle->kept.schema_version, cycle->kept.schema_oldest, err);

	h->under_way = false;
	if (cycle->kept.fold_more)
		h->ns = clock_ns() + FOLD_NS;
	return rc == 0 ? !cycle->kept.registered : rc;
}

void housekeeping_at_once(struct housekeeping *h)
{
	h->ns = 0;
}

void housekeeping_lost(struct housekeeping *h)
{
	h->under_way = false;
}

void housekeeping_failed(struct housekeeping *h, const struct deferred_error *err)
{
	h->under_way = false;
	if (!err)
		h->ns = 0;
	else
		log_error(LOG_L_WARNING, err, "housekeeping failed, trying again in %d s", (int)(PAUSE_NS / NS_PER_S));
}
