/* SPDX-License-Identifier: MIT */
/*
 * Other workers: who of them is dead? Each holds an advisory lock for its session, where that is its own (store_register()). The lock goes
 * with the session, at once when its process is killed. A service tries the locks of the others while there are some; one that is free,
 * and still is a little later, was that of a worker that has died: what it held is ready again, and need not wait for its lease.
 *
 * One whose session was ended, and that lives, is back sooner than that, with a new lock. If it is not, for it alone cannot reach the server, its
 * jobs may be run elsewhere while it is still at them, until it is back: its results are refused then. But not those of which no more than so many may run
 * at once: their leases are waited for, for it gives them up before (lease.c). After a restart of the server all have to come back, so nobody is
 * suspected for a while.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_NS (800 * NS_PER_MS)
#define DEAD_NS (1100 * NS_PER_MS)    /* longer than one that lives waits until it tries to connect again: link.c */
#define ALONE_NS (5 * NS_PER_S)       /* nobody else was there: at a turn that is made anyway */
#define AGAIN_NS NS_PER_S             /* our own lock could not be taken */
#define RETURN_NS (15 * NS_PER_S)     /* all have so long to come back, with a host among theirs that does not answer: link.c */

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
		log_line(LOG_L_WARNING, "job %lld %s attempt %d: lost; %s", (long long)l->id, l->fn, l->attempt, l->final ? "dead" : "ready again");
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
		log_line(LOG_L_WARNING, "worker %lld (%s) %s: %zu job%s of it came back, %zu attempt%s lost, %zu job%s dead", (long long)losses->row[i].worker,
			 losses->row[i].who, why, back, back == 1 ? "" : "s", lost, lost == 1 ? " was" : "s were", dead, dead == 1 ? " is" : "s are");
	}
}

/* ---- suspects ------------------------------------------------------------------------------------ */

static uint64_t suspected_ns(const struct worker_watch *watch, int32_t number, uint64_t now)
{
	for (size_t i = 0; i < watch->suspects; i++)
		if (watch->suspect[i].watch == number)
			return watch->suspect[i].since_ns;
	return now;
}

/* Keeps those that are gone still; returns how many have been for too long, which come first in seen. */
static size_t learn(struct worker_watch *watch, struct store_seen *seen, uint64_t now)
{
	struct worker_watch fresh = { .suspects = 0 };
	size_t dead = 0;

	for (size_t i = 0; i < seen->len; i++) {
		int32_t number = seen->watch[i];
		uint64_t since_ns = suspected_ns(watch, number, now);

		if (now >= since_ns + DEAD_NS) {
			seen->watch[i] = seen->watch[dead];
			seen->watch[dead++] = number;
		} else if (fresh.suspects < WATCH_SUSPECTS) {
			fresh.suspect[fresh.suspects].watch = number;
			fresh.suspect[fresh.suspects++].since_ns = since_ns;
		}
	}
	memcpy(watch->suspect, fresh.suspect, sizeof(fresh.suspect));
	watch->suspects = fresh.suspects;
	return dead;
}

static uint64_t next_look_ns(const struct worker_watch *watch, uint64_t now)
{
	uint64_t ns = now + (watch->others ? LOOK_NS : ALONE_NS);

	for (size_t i = 0; i < watch->suspects; i++)
		if (watch->suspect[i].since_ns + DEAD_NS < ns)
			ns = watch->suspect[i].since_ns + DEAD_NS;
	return ns;
}

static int bury(struct worker *w, const int32_t *dead, size_t n, struct deferred_error *err)
{
	struct store_losses losses = { 0 };
	int rc = store_bury(w->pg, dead, n, w->scope.max_attempts, &losses, err);

	if (rc == 0)
		worker_tell_losses(&losses, "is dead, its session is gone");
	if (rc == 0 && losses.len > 0)
		plan_delayed(&w->plan);
	free(losses.row);
	return rc;
}

static int look(struct worker *w, uint64_t now, struct deferred_error *err)
{
	struct store_seen seen;
	int rc = store_look(w->pg, w->worker_id, &seen, err);
	size_t dead;

	if (rc == 0 && seen.watch) {
		w->watch.others = seen.others > 0;
		dead = learn(&w->watch, &seen, now);
		if (dead > 0)
			rc = bury(w, seen.watch, dead, err);
	}
	w->watch.look_ns = next_look_ns(&w->watch, now);
	free(seen.watch);
	return rc;
}

/* Without it others would take us for dead. */
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
