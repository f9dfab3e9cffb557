/* SPDX-License-Identifier: MIT */
/*
 * Under a held snapshot the index of delayed jobs begins with all that were due since the snapshot was taken. A look
 * that takes long is followed by looks that begin where the first live job was found, for a hundred times as long.
 *
 * A delayed job can only be due before that if its transaction took longer than the delay and MARGIN_US. The next whole
 * look finds such a job.
 */
#include "engine/step/delayed.h"

#include "base/clock.h"

#define LONG_US 5000
#define MARGIN_US (10 * INT64_C(1000000))
#define PAUSE_FACTOR 100
#define PAUSE_MAX_NS (60 * NS_PER_S)
#define LOST_LATE_MS 10000          /* leases that ended this recently are looked for each time, */
#define LOST_ALL_NS (10 * NS_PER_S) /* and all ended leases this often */

void delayed_forget(struct delayed *d)
{
	d->from_us = INT64_MIN;
	d->whole_ns = d->lost_ns = 0;
}

void delayed_look_at_all_leases(struct delayed *d)
{
	d->lost_ns = 0;
}

void delayed_begin(struct delayed *d, uint64_t now)
{
	if (now >= d->whole_ns)
		d->from_us = INT64_MIN;
}

int delayed_add(struct delayed *d, struct store_cycle *cycle, int64_t worker, int32_t max_attempts, uint64_t now,
		struct deferred_error *err)
{
	bool all = now >= d->lost_ns;
	int rc;

	if (all)
		d->lost_ns = now + LOST_ALL_NS;
	delayed_begin(d, now);
	rc = store_cycle_lost(cycle, max_attempts, all ? 0 : LOST_LATE_MS, err);
	if (rc == 0)
		rc = store_cycle_promote(cycle, d->from_us, err);
	return rc == 0 ? store_cycle_next_due(cycle, worker, d->from_us, err) : rc;
}

void delayed_after(struct delayed *d, const struct store_cycle *cycle)
{
	const struct store_due *due = &cycle->due;
	int64_t latest_us = due->now_us - MARGIN_US;

	if (!cycle->promotes || !due->known)
		return;
	if (d->from_us == INT64_MIN) {
		uint64_t pause_ns = due->took_us < LONG_US ? 0 : (uint64_t)due->took_us * 1000 * PAUSE_FACTOR;

		d->whole_ns = cycle->sent_ns + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
	}
	if (d->whole_ns > cycle->sent_ns)
		d->from_us = due->first_us < latest_us ? due->first_us : latest_us;
}
