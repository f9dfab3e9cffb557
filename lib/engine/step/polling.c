/* SPDX-License-Identifier: MIT */
#include "engine/step/polling.h"

#include "base/clock.h"

void polling_set_up(struct polling *p, const struct config *config)
{
	p->interval.interval_floor_ms = config_int(config, "interval_floor");
	p->interval.interval_ceiling_ms = config_int(config, "interval_ceiling");
	p->interval.exponent = config_real(config, "exponent");
	p->interval.gradual_decrease = config_flag(config, "gradual_decrease");
	/* A reload looks at once: the current sleep may be longer than the new ceiling. */
	p->poll_ns = 0;
	p->interval.interval_ms = 0;
}

uint64_t polling_due_ns(const struct polling *p, uint64_t rate_ns)
{
	uint64_t ns = p->poll_ns;

	if (p->due_ns && p->due_ns < ns)
		ns = p->due_ns;
	return rate_ns && rate_ns < ns ? rate_ns : ns;
}

void polling_learn(struct polling *p, const struct store_due *due)
{
	int64_t ms = due->next_ms;

	if (!due->known)
		return;
	/* A worker may die unseen. The jobs it holds are free when its lease ends, not one look later. */
	if (due->lease_ms > 0 && (ms <= 0 || due->lease_ms < ms))
		ms = due->lease_ms;
	/* A job that is due and was not taken is locked by somebody: the next look is soon enough. */
	p->due_ns = ms > 0 ? clock_ns() + (uint64_t)ms * NS_PER_MS : 0;
}

void polling_after_claim(struct polling *p, bool got_some, bool exhausted, uint64_t now)
{
	if (got_some) {
		deferred_backoff_hit(&p->interval);
		p->poll_ns = 0;
	}
	/* Looks in between, because an attempt ended or a job was due, do not change the interval. */
	if (exhausted && now >= p->poll_ns)
		p->poll_ns = now + (uint64_t)deferred_backoff_empty(&p->interval) * NS_PER_MS;
}
