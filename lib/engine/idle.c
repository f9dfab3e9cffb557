/* SPDX-License-Identifier: MIT */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/migrate.h"
#include "store/admin.h"

#define KEEP_NS (30 * NS_PER_S) /* workers not seen for 5 minutes are taken for dead */
#define FOLD_NS NS_PER_S        /* sooner, where one slice of the log was not all */

/* A queue is made by the first job deferred to it, so one that is not there may be misspelt, or early. */
void worker_tell_missing_queues(struct worker *w)
{
	for (size_t i = 0; i < w->scope.queues_len; i++) {
		struct pg_result *res;

		if (admin_queue_ls_exec(w->pg, w->scope.queues[i], &res, NULL) < 0)
			return; /* what comes next tells why */
		if (pg_rows(res) == 0)
			log_line(LOG_L_WARNING,
				 "queue '%s' does not exist yet; the first job deferred to it creates it",
				 w->scope.queues[i]);
		pg_result_free(res);
	}
}

void worker_idle_set_up(struct worker *w)
{
	const struct config *c = w->config;

	w->idle.interval.interval_floor_ms = config_int(c, "interval_floor");
	w->idle.interval.interval_ceiling_ms = config_int(c, "interval_ceiling");
	w->idle.interval.exponent = config_real(c, "exponent");
	w->idle.interval.gradual_decrease = config_flag(c, "gradual_decrease");
	/* A reload looks at once, and begins anew: the sleep under way may be longer than the new ceiling. */
	w->idle.poll_ns = 0;
	w->idle.interval.interval_ms = 0;
	w->listen.wanted = config_flag(c, "listen");
	if (w->pg && !w->worker_id)
		worker_tell_missing_queues(w); /* the run begins: no cycle is under way */
}

/* ---- when to look again ------------------------------------------------------------------------- */

uint64_t worker_idle_look_ns(const struct worker *w)
{
	uint64_t ns = w->idle.poll_ns;

	if (!w->loop)
		return UINT64_MAX;
	if (w->idle.due_ns && w->idle.due_ns < ns)
		ns = w->idle.due_ns;
	return w->plan.rate_ns && w->plan.rate_ns < ns ? w->plan.rate_ns : ns;
}

static void learn_next_due(struct worker *w)
{
	int64_t ms = w->cycle.due.next_ms, lease_ms = w->cycle.due.lease_ms;

	/* A worker may die without being seen to: what it holds is free at the end of its lease, not a look later. */
	if (lease_ms > 0 && (ms <= 0 || lease_ms < ms))
		ms = lease_ms;
	/* One that is due and could not be taken is locked by somebody: the next look is soon enough. */
	w->idle.due_ns = ms > 0 ? clock_ns() + (uint64_t)ms * NS_PER_MS : 0;
}

void worker_idle_done(struct worker *w, uint64_t now)
{
	struct worker_idle *idle = &w->idle;

	if (!w->loop)
		return;
	if (w->cycle.due.known)
		learn_next_due(w);
	if (!w->cycle.claims && !w->cycle.claims_limited)
		return;
	if (w->cycle.claimed_len + w->cycle.limited_len > 0) {
		deferred_backoff_hit(&idle->interval);
		idle->poll_ns = 0;
	}
	/* Looks in between, because an attempt ended or a job was due, leave the rhythm alone. */
	if (w->plan.exhausted && now >= idle->poll_ns)
		idle->poll_ns = now + (uint64_t)deferred_backoff_empty(&idle->interval) * NS_PER_MS;
}

/* ---- housekeeping ------------------------------------------------------------------------------- */

int worker_idle_keep(struct worker *w, uint64_t now, struct deferred_error *err)
{
	int rc;

	store_cycle_begin(&w->cycle, w->pg);
	w->idle.keep_ns = now + KEEP_NS;
	w->idle.keeping = true;
	rc = store_cycle_keep(&w->cycle, &w->scope, w->worker_id, w->delayed.from_us, err);
	if (rc == 0)
		rc = store_cycle_send(&w->cycle, err);
	if (rc == 0)
		w->db = DB_BUSY;
	return rc;
}

void worker_idle_keep_failed(struct worker *w, const struct deferred_error *err)
{
	w->idle.keeping = false;
	log_line(LOG_L_WARNING, "housekeeping failed, next try in %d s: %s", (int)(KEEP_NS / NS_PER_S), err->message);
}

int worker_idle_kept(struct worker *w, struct deferred_error *err)
{
	struct store_kept kept = w->cycle.kept;
	int rc = migrate_accepts(kept.schema_version, err);

	w->idle.keeping = false;
	w->tell.due = true;
	learn_next_due(w);
	if (kept.fold_more)
		w->idle.keep_ns = clock_ns() + FOLD_NS;
	worker_tick_learn(w);
	if (rc == 0 && !kept.registered) {
		store_cycle_clear(&w->cycle);
		rc = worker_register_again(w, err);
	}
	return rc;
}
