/* SPDX-License-Identifier: MIT */
/*
 * Other workers: which of them have died? Each holds an advisory lock for its session, where that is its own
 * (store_register()). The lock goes with the session, at once when its process is killed. A service tries the locks of
 * the others while there are some.
 *
 * A lost session is no proof of death: the network may be cut, and the worker at its jobs. A lease is good for the time
 * it was granted for. It ends before only if the kernel shows that its holder has ended (is_dead() of struct
 * worker_setup). Jobs of such a worker are ready again. What any other worker holds is waited for. That worker stops
 * its functions before its leases end (lease.c). One that holds nothing is taken for gone, and registers again if it
 * comes back. After a restart of the server all come back, so nobody is suspected for a while.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/plural.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_NS (800 * NS_PER_MS)
#define DEAD_NS (1100 * NS_PER_MS) /* longer than one that lives waits until it tries to connect again: link.c */
#define ALONE_NS (5 * NS_PER_S)    /* nobody else was there: at a turn that is made anyway */
#define AGAIN_NS NS_PER_S          /* our own lock could not be taken */
/* all have so long to come back, with a host among theirs that does not answer: link.c */
#define RETURN_NS (15 * NS_PER_S)

int32_t worker_watch_number(struct worker *w)
{
	return (int32_t)(worker_random(w) % INT32_MAX) + 1;
}

void worker_watch_connected(struct worker *w, uint64_t now)
{
	w->watch.suspects = 0;
	w->watch.again = false; /* a new lock was taken with the session */
	w->watch.again_ns = 0;
	w->watch.look_ns = now + RETURN_NS;
}

uint64_t worker_watch_due_ns(const struct worker *w)
{
	const struct worker_watch *watch = &w->watch;

	if (!w->loop || w->stopping)
		return UINT64_MAX;
	return watch->again ? watch->again_ns : watch->others ? watch->look_ns : UINT64_MAX;
}

/* ---- what is said -------------------------------------------------------------------------------- */

static void tell_one(const struct store_lost *l)
{
	if (l->recorded)
		log_line(LOG_L_WARNING, "job %lld %s attempt %d: lost; %s", (long long)l->id, l->fn, l->attempt,
			 l->final ? "dead" : "ready again");
}

void worker_tell_losses(const struct store_losses *losses, const char *why)
{
	for (size_t i = 0, end; i < losses->len; i = end) {
		size_t back = 0, lost = 0, dead = 0;

		for (end = i; end < losses->len && losses->row[end].worker == losses->row[i].worker; end++) {
			const struct store_lost *l = &losses->row[end];

			back += l->id && !l->final;
			lost += l->recorded;
			dead += l->final;
			tell_one(l);
		}
		log_line(LOG_L_WARNING,
			 "worker %lld (%s) %s: %zu job%s of it came back, %zu attempt%s lost, %zu job%s dead",
			 (long long)losses->row[i].worker, losses->row[i].who, why, back, plural(back), lost,
			 lost == 1 ? " was" : "s were", dead, dead == 1 ? " is" : "s are");
	}
}

/* ---- suspects ------------------------------------------------------------------------------------ */

static uint64_t suspected_ns(const struct worker_watch *watch, const struct store_silent *who, uint64_t now)
{
	for (size_t i = 0; i < watch->suspects; i++)
		if (watch->suspect[i].who.worker == who->worker && watch->suspect[i].who.dead == who->dead)
			return watch->suspect[i].since_ns;
	return now;
}

/* Keeps those that are gone still. Those that have been for too long come first in seen; returns how many. */
static size_t learn(struct worker_watch *watch, struct store_seen *seen, uint64_t now)
{
	struct worker_watch fresh = { .suspects = 0 };
	size_t overdue = 0;

	for (size_t i = 0; i < seen->len; i++) {
		struct store_silent who = seen->silent[i];
		uint64_t since_ns = suspected_ns(watch, &who, now);

		if (now >= since_ns + DEAD_NS) {
			seen->silent[i] = seen->silent[overdue];
			seen->silent[overdue++] = who;
		} else if (fresh.suspects < WATCH_SUSPECTS) {
			fresh.suspect[fresh.suspects].who = who;
			fresh.suspect[fresh.suspects++].since_ns = since_ns;
		}
	}
	memcpy(watch->suspect, fresh.suspect, sizeof(fresh.suspect));
	watch->suspects = fresh.suspects;
	return overdue;
}

static uint64_t next_look_ns(const struct worker_watch *watch, uint64_t now)
{
	uint64_t ns = now + (watch->others ? LOOK_NS : ALONE_NS);

	for (size_t i = 0; i < watch->suspects; i++)
		if (watch->suspect[i].since_ns + DEAD_NS < ns)
			ns = watch->suspect[i].since_ns + DEAD_NS;
	return ns;
}

static int bury(struct worker *w, const struct store_silent *silent, size_t n, struct deferred_error *err)
{
	struct store_losses losses = { 0 };
	int64_t *worker = malloc(n * sizeof(*worker));
	size_t dead = 0, rest = n;
	int rc;

	if (!worker)
		return error_set(err, DEFERRED_ENOMEM, "watch", "out of memory");
	for (size_t i = 0; i < n; i++)
		worker[silent[i].dead ? dead++ : --rest] = silent[i].worker;
	rc = store_bury(w->pg, worker, n, dead, w->scope.max_attempts, &losses, err);
	if (rc == 0)
		worker_tell_losses(&losses, "is gone");
	if (rc == 0 && losses.len > 0)
		plan_delayed(&w->plan);
	free(losses.row);
	free(worker);
	return rc;
}

static int look(struct worker *w, uint64_t now, struct deferred_error *err)
{
	struct store_seen seen = { 0 };
	int rc = store_look(w->pg, w->worker_id, w->setup->is_dead, w->setup->data, &seen, err);
	size_t overdue;

	if (rc == 0 && seen.silent) {
		w->watch.others = seen.others > 0;
		overdue = learn(&w->watch, &seen, now);
		if (overdue > 0)
			rc = bury(w, seen.silent, overdue, err);
	}
	w->watch.look_ns = next_look_ns(&w->watch, now);
	free(seen.silent);
	return rc;
}

/* Without it others would take us for gone. */
static int take_again(struct worker *w, uint64_t now, struct deferred_error *err)
{
	int rc = store_watch(w->pg, w->worker_id, err);

	w->watch.again = rc < 0;
	w->watch.again_ns = rc < 0 ? now + AGAIN_NS : 0;
	return rc;
}

void worker_watch(struct worker *w, uint64_t now)
{
	struct deferred_error err = { 0 };
	bool again = w->watch.again && now >= w->watch.again_ns, looks = w->loop && now >= w->watch.look_ns;
	int rc = 0;

	if (w->stopping || !(again || looks))
		return;
	if (again)
		rc = take_again(w, now, &err);
	if (rc == 0 && looks)
		rc = look(w, now, &err);
	if (rc < 0 && pg_broken(w->pg))
		worker_lose_connection(w, &err, now);
	else if (rc < 0)
		log_line(LOG_L_WARNING, "cannot see who of the other workers lives, next try soon: %s", err.message);
}
