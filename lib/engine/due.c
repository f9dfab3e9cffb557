/* SPDX-License-Identifier: MIT */
#include "engine/due.h"

#include "base/clock.h"
#include "engine/state.h"

#define CONNECT_NS (100 * NS_PER_MS)
#define FENCED_NS (10 * NS_PER_MS)
#define GATHER_NS (20 * NS_PER_MS) /* a result waits at most that long for company */

struct view {
	const struct worker *w;
	uint64_t now;
	struct worker_oldest oldest;
};

static uint64_t when(bool holds, uint64_t ns)
{
	return holds ? ns : UINT64_MAX;
}

static uint64_t fence(const struct view *v)
{
	bool all_done = v->w->fenced && v->oldest.fence_ns <= v->now;

	return when(v->oldest.n > 0, all_done ? v->now + FENCED_NS : v->oldest.fence_ns);
}

static uint64_t stop(const struct view *v)
{
	return when(v->w->stopping && v->w->stop_ns > v->now, v->w->stop_ns);
}

static uint64_t stuck(const struct view *v)
{
	return when(v->oldest.n > 0 && pool_unstarted(&v->w->pool) > 0, v->now + POOL_STUCK_NS);
}

static uint64_t retry(const struct view *v)
{
	return when(v->w->db == DB_WAITING || v->w->retry_ns > v->now, v->w->retry_ns);
}

static uint64_t connecting(const struct view *v)
{
	return when(v->w->db == DB_CONNECTING || (v->w->lost_ns && !v->w->loop), v->now + CONNECT_NS);
}

static uint64_t silent(const struct view *v)
{
	return v->w->db == DB_BUSY ? v->w->cycle.sent_ns + worker_fence_after_ns(v->w) : UINT64_MAX;
}

static uint64_t scale(const struct view *v)
{
	return worker_scale_deadline(v->w);
}

static uint64_t alive(const struct view *v)
{
	return when(v->w->setup->alive_ms > 0, v->w->alive_ns);
}

/* Leases are renewed in time, at once on a new connection, and when a job of ours is said to have been cancelled: the
 * answer tells. */
static uint64_t renew(const struct view *v)
{
	uint64_t check_ns = v->w->listen.check_ns, ns = v->w->renew_first ? 0 : v->oldest.renew_ns;

	return when(v->oldest.n > 0, check_ns && check_ns < ns ? check_ns : ns);
}

/* Short jobs come in crowds: their results gather, while there are others to be run. */
static uint64_t record(const struct view *v)
{
	const struct worker *w = v->w;
	bool gathers = !w->stopping && pool_unstarted(&w->pool) > 0 && pool_run_us(&w->pool, v->now) < PLAN_SHORT_US;

	return when(w->ledger.n[LEDGER_ENDED] > 0, gathers ? w->ledger.ended_ns + GATHER_NS : 0);
}

static uint64_t ask(const struct view *v)
{
	return when(v->w->ledger.n[LEDGER_REFUSED] > 0, 0);
}

static uint64_t parents(const struct view *v)
{
	return when(v->w->ledger.n[LEDGER_CHILD] > 0, 0);
}

static uint64_t apart(const struct view *v)
{
	return ledger_due_ns(&v->w->ledger, LEDGER_APART);
}

static uint64_t give_back(const struct view *v)
{
	return ledger_due_ns(&v->w->ledger, LEDGER_RETURNED);
}

static uint64_t balance(const struct view *v)
{
	return worker_balance_due_ns(v->w);
}

static uint64_t claim(const struct view *v)
{
	return when(v->w->plan.claim_ns > v->now, v->w->plan.claim_ns);
}

static uint64_t keep(const struct view *v)
{
	return when(v->w->loop && !v->w->stopping, v->w->idle.keep_ns);
}

static uint64_t look(const struct view *v)
{
	return when(wake_asleep(&v->w->plan, v->w->stopping), worker_idle_look_ns(v->w));
}

static uint64_t listens(const struct view *v)
{
	return wake_deadline(&v->w->listen.wake, wake_asleep(&v->w->plan, v->w->stopping));
}

static uint64_t tick(const struct view *v)
{
	return when(!v->w->stopping, v->w->tick.ns);
}

static uint64_t watch(const struct view *v)
{
	return worker_watch_due_ns(v->w);
}

static const struct {
	uint64_t (*ns)(const struct view *view);
	bool sends;
} reasons[DUE_REASONS] = {
	[DUE_FENCE] = { fence, false },
	[DUE_STOP] = { stop, false },
	[DUE_STUCK] = { stuck, false },
	[DUE_RETRY] = { retry, false },
	[DUE_CONNECT] = { connecting, false },
	[DUE_SILENT] = { silent, false },
	[DUE_SCALE] = { scale, false },
	[DUE_ALIVE] = { alive, false },
	[DUE_RENEW] = { renew, true },
	[DUE_RECORD] = { record, true },
	[DUE_ASK] = { ask, true },
	[DUE_PARENTS] = { parents, true },
	[DUE_APART] = { apart, true },
	[DUE_RETURN] = { give_back, true },
	[DUE_BALANCE] = { balance, true },
	[DUE_CLAIM] = { claim, true },
	[DUE_KEEP] = { keep, true },
	[DUE_LOOK] = { look, true },
	[DUE_LISTEN] = { listens, true },
	[DUE_TICK] = { tick, true },
	[DUE_WATCH] = { watch, true },
};

void due_look(struct due *due, const struct worker *w, uint64_t now)
{
	struct view view = { w, now, worker_oldest_lease(w) };
	bool can_send = w->db == DB_READY && now >= w->retry_ns;

	for (int i = 0; i < DUE_REASONS; i++)
		due->ns[i] = reasons[i].sends && !can_send ? UINT64_MAX : reasons[i].ns(&view);
	due->leases = view.oldest.n > 0;
}

bool due_now(const struct due *due, enum due_reason reason, uint64_t now)
{
	return due->ns[reason] <= now;
}

uint64_t due_first_ns(const struct due *due)
{
	uint64_t ns = UINT64_MAX;

	for (int i = 0; i < DUE_REASONS; i++)
		ns = due->ns[i] < ns ? due->ns[i] : ns;
	return ns;
}
