/* SPDX-License-Identifier: MIT */
/*
 * The rule of deferred_coordinator.h between processes and hosts. The head of deferred.__track_move() (sql/functions)
 * states the invariants. This side of them:
 *
 * - Jobs claimed in the current round, less those given back, never exceed the steps of the round: balance_left()
 *   limits each claim. The server grants a round as a whole, so claims need not ask. One statement a round asks, in a
 *   cycle that is sent anyway.
 * - A worker reports only attempts that have begun as made. A job in hand may still be given back, but a reported step
 *   cannot. Jobs that are given back are steps to be made again in the same round.
 * - The reported number is absolute and belongs to a round, so a report with a lost answer is repeated.
 * - A worker that sees nothing ready leaves the group, so that no other worker waits for it. It comes back with the
 *   next job it gets. Meanwhile it may claim the rest of its last round: then it is behind the others, never ahead.
 * - A worker that waits asks at growing intervals. The track of a killed worker ends after `lease`, three quarters of
 *   the setting. That leaves the others a quarter to notice.
 */
#include "engine/step/balance.h"

#include "base/clock.h"
#include "base/log.h"

#define POLL_FLOOR_MS 5
#define POLL_CEILING_MS 1000

static int64_t track_lease_ms(const struct balance_in *in)
{
	return in->lease_ms * 3 / 4;
}

static int64_t claimed_in_round(const struct balance *b, int64_t charged)
{
	/* Below the base, jobs of earlier rounds were given back. They make no room, since those rounds are over. */
	return charged > b->base ? charged - b->base : 0;
}

static int64_t made_in_round(const struct balance *b, const struct balance_in *in)
{
	int64_t made = claimed_in_round(b, in->charged) - in->not_begun;

	return made > 0 ? made : 0;
}

int64_t balance_left(const struct balance *b, int64_t charged)
{
	int64_t left = b->steps - claimed_in_round(b, charged);

	if (!b->on)
		return INT64_MAX;
	return left > 0 ? left : 0;
}

/* Others have reason to wait for this worker. */
static bool wants_in(const struct balance *b, const struct balance_in *in)
{
	return in->wanted && !b->idle;
}

static bool waits_for_round(const struct balance *b, const struct balance_in *in)
{
	return b->live ? made_in_round(b, in) >= b->steps : wants_in(b, in);
}

uint64_t balance_due_ns(const struct balance *b, const struct balance_in *in)
{
	if (!b->on || (!b->live && !wants_in(b, in)))
		return UINT64_MAX;
	if (b->live && !wants_in(b, in))
		return 0; /* leave */
	if (waits_for_round(b, in))
		return b->next_ns;
	return b->sent_ns + (uint64_t)track_lease_ms(in) * NS_PER_MS / 3;
}

static struct store_track report_of(const struct balance *b, const struct balance_in *in)
{
	return (struct store_track){
		.worker = in->worker,
		.group = b->group,
		.range = b->range,
		.lease_ms = track_lease_ms(in),
		.live = wants_in(b, in),
		.round = b->round,
		.made = made_in_round(b, in),
	};
}

void balance_after_report(struct balance *b, const struct store_track *answer, uint64_t sent_ns,
			  const struct balance_in *in)
{
	b->live = answer->live;
	b->sent_ns = sent_ns;
	if (answer->live && (answer->round != b->round || answer->steps != b->steps)) {
		if (answer->steps < b->range && b->steps != answer->steps)
			log_line(LOG_L_WARNING,
				 "balance group '%s' uses range %lld, the smallest of its workers; here it is %lld",
				 b->group, (long long)answer->steps, (long long)b->range);
		/* The jobs of this cycle are charged after this, so they count in the new round. That is safe. */
		if (answer->round != b->round)
			b->base = in->charged - answer->made;
		b->round = answer->round;
		b->steps = answer->steps;
		log_line(LOG_L_DEBUG, "balance group '%s': round %lld", b->group, (long long)b->round);
	}
	if (waits_for_round(b, in)) {
		b->next_ns = sent_ns + (uint64_t)deferred_backoff_empty(&b->backoff) * NS_PER_MS;
	} else {
		deferred_backoff_hit(&b->backoff);
		b->next_ns = 0;
	}
}

int balance_begin(struct balance *b, struct pg *pg, const struct config *config, const struct balance_in *in,
		  struct deferred_error *err)
{
	struct store_track track;
	uint64_t now = clock_ns();
	int64_t ceiling_ms = in->lease_ms / 8 < POLL_CEILING_MS ? in->lease_ms / 8 : POLL_CEILING_MS;
	int rc;

	b->on = config_balance(config, b->group, sizeof(b->group), &b->range);
	if (!b->on)
		return 0;
	b->round = -1;
	b->backoff = (struct deferred_backoff){ POLL_FLOOR_MS, ceiling_ms, 2, 0, 0 };
	track = report_of(b, in);
	rc = store_track_move(pg, &track, err);
	if (rc == 0)
		balance_after_report(b, &track, now, in);
	return rc;
}

int balance_add(const struct balance *b, struct store_cycle *cycle, const struct balance_in *in,
		struct deferred_error *err)
{
	struct store_track track = report_of(b, in);

	return store_cycle_track(cycle, &track, err);
}

void balance_after_claim(struct balance *b, bool got_some, bool idle)
{
	if (got_some)
		b->idle = false;
	else if (idle)
		b->idle = true;
}
