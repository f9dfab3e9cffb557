/* SPDX-License-Identifier: MIT */
#include "wake.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX
#define DISARM_NS (5 * NS_PER_MS)  /* a service that is not asleep for so long has enough to do */
#define REARM_MS 10                /* first pause after another session held the lock: mostly a producer that looked */
#define LOOK_MS 2                  /* first pause between two looks at open transactions, */
#define LOOK_MAX_MS 1000           /* and the longest: what commits later begins that late */
#define STAGGER_NS (2 * NS_PER_MS) /* the second in rank reacts so much later, the third twice that */
#define STAGGER_DOUBLINGS_MAX 6
#define USELESS_MAX 3           /* this many useless notifications in a row are reacted to at once, */
#define USELESS_DOUBLINGS_MAX 6 /* then 1, 2, 4 ... 64 ms later */

/* Which steps are possible. The first that is due is taken. */
static const struct {
	enum wake_state state;
	bool asleep;
	enum wake_step step;
} table[] = {
	{ WAKE_AWAKE, true, WAKE_ARM },
	{ WAKE_AWAKE, true, WAKE_CLAIM },
	{ WAKE_ARMED, true, WAKE_CLAIM },
	{ WAKE_ARMED, true, WAKE_LOOK },
	{ WAKE_ARMED, false, WAKE_DISARM },
};
#define ROWS (sizeof(table) / sizeof(table[0]))

static bool is_possible(const struct wake *k, bool asleep, size_t row)
{
	return table[row].state == k->state && table[row].asleep == asleep;
}

static void clear_steps(struct wake *k)
{
	for (int step = 0; step < WAKE_STEPS; step++)
		k->at[step] = NEVER;
	k->woken = false;
	k->useless = 0;
	k->open.len = 0;
}

void wake_on(struct wake *k, const struct deferred_backoff *interval)
{
	int64_t ceiling_ms = interval->interval_ceiling_ms;

	clear_steps(k);
	/* While the locks cannot be had, jobs are polled for anyway. */
	k->arm = (struct deferred_backoff){ REARM_MS, ceiling_ms > REARM_MS ? ceiling_ms : REARM_MS, 2, 0, 0 };
	k->look = (struct deferred_backoff){ LOOK_MS, LOOK_MAX_MS, 2, 0, 0 };
	k->state = WAKE_AWAKE;
	k->at[WAKE_ARM] = 0;
}

void wake_off(struct wake *k)
{
	clear_steps(k);
	k->state = WAKE_OFF;
}

bool wake_asleep(const struct plan *plan, bool stopping)
{
	return plan->exhausted && !stopping;
}

static enum wake_step reaction(const struct wake *k)
{
	return k->state == WAKE_ARMED && k->rank > 0 ? WAKE_PEEK : WAKE_CLAIM;
}

/* waits: the plan is about to look for further lanes, and has no other use for a job until then. */
static enum wake_step take_due_step(struct wake *k, bool asleep, bool waits, uint64_t now)
{
	if (asleep || waits || k->state != WAKE_ARMED)
		k->at[WAKE_DISARM] = NEVER;
	else if (k->at[WAKE_DISARM] == NEVER)
		k->at[WAKE_DISARM] = now + DISARM_NS;
	for (size_t i = 0; i < ROWS; i++)
		if (is_possible(k, asleep, i) && now >= k->at[table[i].step])
			return table[i].step == WAKE_CLAIM ? reaction(k) : table[i].step;
	return WAKE_NOTHING;
}

/* A notification came after the last claim was sent. */
static bool has_news(const struct wake *k)
{
	return k->state != WAKE_OFF && k->at[WAKE_CLAIM] != NEVER;
}

enum wake_step wake_next(struct wake *k, struct plan *plan, bool stopping, uint64_t poll_ns, uint64_t now)
{
	enum wake_step step = take_due_step(k, wake_asleep(plan, stopping), plan->claim_ns > now, now);

	if (step == WAKE_CLAIM)
		plan_woken(plan, k->useless > 0);
	else if (step == WAKE_ARM || (plan->exhausted && now >= poll_ns))
		plan_delayed(plan);
	/* Earlier claims say nothing about a job that was made ready later. */
	if (!plan->exhausted && has_news(k))
		plan_heard(plan);
	return step;
}

uint64_t wake_deadline(const struct wake *k, bool asleep)
{
	uint64_t ns = NEVER;

	for (size_t i = 0; i < ROWS; i++)
		if (is_possible(k, asleep, i) && k->at[table[i].step] < ns)
			ns = k->at[table[i].step];
	return ns;
}

/* One job needs one worker: the first in rank takes it, and the others look a little later whether there are more.
 * Useless notifications, whoever sends them, must not keep us busy. */
static uint64_t reaction_ns(const struct wake *k)
{
	int late = k->useless - USELESS_MAX;
	uint64_t ns = 0;

	if (k->rank > 0)
		ns = STAGGER_NS << (k->rank - 1 < STAGGER_DOUBLINGS_MAX ? k->rank - 1 : STAGGER_DOUBLINGS_MAX);
	if (late >= 0)
		ns += NS_PER_MS << late;
	return ns;
}

void wake_notified(struct wake *k, uint64_t now)
{
	if (k->at[WAKE_CLAIM] == NEVER)
		k->at[WAKE_CLAIM] = now + reaction_ns(k);
}

void wake_sent(struct wake *k, enum wake_step step)
{
	if (step == WAKE_CLAIM)
		k->woken |= has_news(k);
	if (step == WAKE_CLAIM || step == WAKE_PEEK)
		k->at[WAKE_CLAIM] = NEVER;
	if (step == WAKE_DISARM)
		wake_rearm(k);
}

static void look_later(struct wake *k, uint64_t now)
{
	k->at[WAKE_LOOK] = k->open.len > 0 ? now + (uint64_t)deferred_backoff_empty(&k->look) * NS_PER_MS : NEVER;
}

void wake_answered_arm(struct wake *k, bool armed, int rank, struct store_ids *open, uint64_t now)
{
	if (!armed) {
		k->at[WAKE_ARM] = now + (uint64_t)deferred_backoff_empty(&k->arm) * NS_PER_MS;
		return;
	}
	k->state = WAKE_ARMED;
	k->rank = rank;
	free(k->open.id);
	k->open = *open;
	memset(open, 0, sizeof(*open));
	deferred_backoff_hit(&k->arm);
	deferred_backoff_hit(&k->look);
	look_later(k, now);
}

void wake_answered_look(struct wake *k, struct plan *plan, const struct store_ids *open, uint64_t now)
{
	size_t before = k->open.len, left = 0;

	for (size_t i = 0; i < before; i++)
		if (store_ids_have(open, k->open.id[i]))
			k->open.id[left++] = k->open.id[i];
	k->open.len = left;
	if (left < before) {
		deferred_backoff_hit(&k->look);
		plan_delayed(plan);
	}
	look_later(k, now);
}

void wake_answered_peek(struct wake *k, struct plan *plan, bool work)
{
	k->woken = work;
	if (work)
		plan_woken(plan, k->useless > 0);
}

void wake_answered_claim(struct wake *k, bool got_some)
{
	if (got_some)
		k->useless = 0;
	else if (k->woken && k->useless < USELESS_MAX + USELESS_DOUBLINGS_MAX)
		k->useless++;
	k->woken = false;
}

void wake_rearm(struct wake *k)
{
	if (k->state == WAKE_OFF)
		return;
	k->state = WAKE_AWAKE;
	k->at[WAKE_ARM] = 0;
}
