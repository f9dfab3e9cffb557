/* SPDX-License-Identifier: MIT */
/*
 * Workers of a group kept level: the rule of deferred_coordinator.h between processes and hosts. The invariants stand
 * in front of deferred.__track_move() (sql/functions). This side of them:
 *
 * - Jobs claimed in the round under way, less those given back, never exceed its steps: `left` bounds each claim.
 *   The round was granted as a whole, so no claim has to ask; one statement a round does, in the cycle that is
 *   sent anyway.
 * - Reported as made are only attempts that have begun: what still lies here may be given back, and a step that
 *   was reported cannot be. Jobs given back are steps to be made again, in the same round.
 * - The number reported is absolute and belongs to a round, so a report whose answer was lost is simply repeated.
 * - A worker that sees nothing ready leaves the group, so that it holds up nobody, and comes back with the next job
 *   it gets. Meanwhile it still may claim what was left of its last round: then it is behind the others, never ahead.
 * - A worker that waits asks at growing intervals; it never spins. One that is killed is reported no more, and
 *   its track ends after `lease`, three quarters of the setting, which leaves the others a quarter to find out.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

#define POLL_FLOOR_MS 5
#define POLL_CEILING_MS 1000

static int64_t track_lease_ms(const struct worker *w)
{
	return w->lease_ms * 3 / 4;
}

/* Jobs here that may yet be given back. */
static int64_t not_begun(const struct worker *w)
{
	return (int64_t)(pool_unstarted(&w->pool) + w->ledger.n[LEDGER_RETURNED] + w->ledger.n[LEDGER_RETURNING]);
}

static int64_t claimed_in_round(const struct worker *w)
{
	/* Below the base: jobs of earlier rounds were given back. They make no room, those rounds are over. */
	return w->charged > w->balance.base ? w->charged - w->balance.base : 0;
}

static int64_t made_in_round(const struct worker *w)
{
	int64_t made = claimed_in_round(w) - not_begun(w);

	return made > 0 ? made : 0;
}

int64_t worker_balance_left(const struct worker *w)
{
	int64_t left = w->balance.steps - claimed_in_round(w);

	if (!w->balance.on)
		return INT64_MAX;
	return left > 0 ? left : 0;
}

/* Is there reason to be waited for by others? */
static bool wants_in(const struct worker *w)
{
	return !w->stopping && !w->plan.exhausted && !w->balance.idle && !(w->cnt > 0 && w->charged >= w->cnt);
}

static bool waits(const struct worker *w)
{
	return w->balance.live ? made_in_round(w) >= w->balance.steps : wants_in(w);
}

/* When the next report is due; UINT64_MAX: nothing to report. */
uint64_t worker_balance_due_ns(const struct worker *w)
{
	const struct balance *b = &w->balance;

	if (!b->on || (!b->live && !wants_in(w)))
		return UINT64_MAX;
	if (b->live && !wants_in(w))
		return 0; /* leave */
	if (waits(w))
		return b->next_ns;
	return b->sent_ns + (uint64_t)track_lease_ms(w) * NS_PER_MS / 3;
}

static struct store_track report(const struct worker *w)
{
	return (struct store_track){
		.worker = w->worker_id,
		.group = w->balance.group,
		.range = w->balance.range,
		.lease_ms = track_lease_ms(w),
		.live = wants_in(w),
		.round = w->balance.round,
		.made = made_in_round(w),
	};
}

/* Takes in the answer to a report sent at sent_ns. */
static void take_answer(struct worker *w, const struct store_track *answer, uint64_t sent_ns)
{
	struct balance *b = &w->balance;

	b->live = answer->live;
	b->sent_ns = sent_ns;
	if (answer->live && (answer->round != b->round || answer->steps != b->steps)) {
		if (answer->steps < b->range && b->steps != answer->steps)
			log_line(LOG_L_WARNING,
				 "group %s goes by range %lld, the smallest of its workers; here it is %lld", b->group,
				 (long long)answer->steps, (long long)b->range);
		/* What came with this very cycle is claimed after this, and counts in the new round: the careful way.
		 * */
		if (answer->round != b->round)
			b->base = w->charged - answer->made;
		b->round = answer->round;
		b->steps = answer->steps;
		log_line(LOG_L_DEBUG, "group %s: round %lld", b->group, (long long)b->round);
	}
	if (waits(w)) {
		b->next_ns = sent_ns + (uint64_t)deferred_backoff_empty(&b->backoff) * NS_PER_MS;
	} else {
		deferred_backoff_hit(&b->backoff);
		b->next_ns = 0;
	}
}

int worker_balance_begin(struct worker *w, struct deferred_error *err)
{
	struct balance *b = &w->balance;
	struct store_track track;
	uint64_t now = clock_ns();
	int64_t ceiling_ms = w->lease_ms / 8 < POLL_CEILING_MS ? w->lease_ms / 8 : POLL_CEILING_MS;
	int rc;

	b->on = config_balance(w->config, b->group, sizeof(b->group), &b->range);
	if (!b->on)
		return 0;
	b->round = -1;
	b->backoff = (struct deferred_backoff){ POLL_FLOOR_MS, ceiling_ms, 2, 0, 0 };
	track = report(w);
	rc = store_track_move(w->pg, &track, err);
	if (rc == 0)
		take_answer(w, &track, now);
	return rc;
}

int worker_balance_add(struct worker *w, struct deferred_error *err)
{
	struct store_track track = report(w);

	return store_cycle_track(&w->cycle, &track, err);
}

void worker_balance_after_report(struct worker *w)
{
	if (w->cycle.tracks)
		take_answer(w, &w->cycle.track, w->cycle.sent_ns);
}

void worker_balance_after_claim(struct worker *w)
{
	if (w->cycle.claimed_len + w->cycle.limited_len > 0)
		w->balance.idle = false;
	else if ((w->cycle.claims || w->cycle.claims_limited) && plan_idle(&w->plan, w->cycle.sent_ns))
		w->balance.idle = true;
}
