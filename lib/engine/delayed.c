/* SPDX-License-Identifier: MIT */
/*
 * worker_delayed - where to begin to look for delayed jobs that are due. Under a held snapshot their index begins with
 * all that were due since it was taken, the longer the more: a look that takes long is followed by looks that begin
 * where the first live one was found, for a hundred times as long.
 *
 * What a transaction defers with a delay can only be due before that if it took longer than the delay and MARGIN_US:
 * the next whole look finds it.
 */
#include "base/clock.h"
#include "engine/state.h"

#define LONG_US 5000
#define MARGIN_US (10 * INT64_C(1000000))
#define PAUSE_FACTOR 100
#define PAUSE_MAX_NS (60 * NS_PER_S)

void worker_delayed_forget(struct worker *w)
{
	w->delayed.from_us = INT64_MIN;
	w->delayed.whole_ns = w->delayed.lost_ns = 0;
}

void worker_delayed_begin(struct worker *w, uint64_t now)
{
	if (now >= w->delayed.whole_ns)
		w->delayed.from_us = INT64_MIN;
}

void worker_delayed_learn(struct worker *w)
{
	const struct store_due *due = &w->cycle.due;

	if (!w->cycle.promotes || !due->known)
		return;
	if (w->delayed.from_us == INT64_MIN) {
		uint64_t pause_ns = due->took_us < LONG_US ? 0 : (uint64_t)due->took_us * 1000 * PAUSE_FACTOR;

		w->delayed.whole_ns = w->cycle.sent_ns + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
	}
	if (w->delayed.whole_ns > w->cycle.sent_ns)
		w->delayed.from_us = due->first_us < due->now_us - MARGIN_US ? due->first_us : due->now_us - MARGIN_US;
}
