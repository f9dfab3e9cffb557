/* SPDX-License-Identifier: MIT */
/*
 * Each worker holds an advisory lock for its session, where that session is its own (store_register()). The lock goes
 * with the session, at once when the process is killed. A service tries the locks of the others while there are others.
 *
 * A lost session does not prove a death: the network may be cut while the worker runs its jobs. A lease is good for the
 * time it was granted for. It ends before only if the kernel shows that its holder has ended (is_dead() of struct
 * worker_setup). Jobs of such a worker are ready again. The jobs of any other worker are waited for. That worker stops
 * its functions before its leases end (lease.c). A worker that holds nothing is taken for gone, and registers again if
 * it comes back. After a restart of the server all come back, so no worker is suspected for a while.
 */
#include "engine/step/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/plural.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_NS (800 * NS_PER_MS)
#define DEAD_NS (1100 * NS_PER_MS) /* longer than a live worker waits until it connects again: connection.c */
#define ALONE_NS (5 * NS_PER_S)    /* no other worker was there: at a turn that is made anyway */
#define AGAIN_NS NS_PER_S          /* our own lock could not be taken */
/* all have this long to come back, also with a host that does not answer in their conninfo: connection.c */
#define RETURN_NS (15 * NS_PER_S)

void watch_connected(struct watch *watch, uint64_t now)
{
	watch->suspects = 0;
	watch->again = false; /* a new lock was taken with the session */
	watch->again_ns = 0;
	watch->look_ns = now + RETURN_NS;
}

void watch_unlocked(struct watch *watch)
{
	watch->again = true;
}

uint64_t watch_due_ns(const struct watch *watch)
{
	return watch->again ? watch->again_ns : watch->others ? watch->look_ns : UINT64_MAX;
}

static void log_loss(const struct store_lost *l)
{
	if (l->recorded)
		log_line(LOG_L_WARNING, "job %lld %s attempt %d: lost; %s", (long long)l->id, l->fn, l->attempt,
			 l->final ? "dead" : "ready again");
}

void watch_log_losses(const struct store_losses *losses, const char *why)
{
	for (size_t i = 0, end; i < losses->len; i = end) {
		size_t back = 0, lost = 0, dead = 0;

		for (end = i; end < losses->len && losses->row[end].worker == losses->row[i].worker; end++) {
			const struct store_lost *l = &losses->row[end];

			back += l->id && !l->final;
			lost += l->recorded;
			dead += l->final;
			log_loss(l);
		}
		log_line(LOG_L_WARNING, "worker %lld (%s) %s: %zu job%s came back, %zu attempt%s lost, %zu job%s dead",
			 (long long)losses->row[i].worker, losses->row[i].who, why, back, plural(back), lost,
			 lost == 1 ? " was" : "s were", dead, dead == 1 ? " is" : "s are");
	}
}

/* ---- suspects ------------------------------------------------------------------------------------ */

static uint64_t suspected_ns(const struct watch *watch, const struct store_silent *who, uint64_t now)
{
	for (size_t i = 0; i < watch->suspects; i++)
		if (watch->suspect[i].who.worker == who->worker && watch->suspect[i].who.dead == who->dead)
			return watch->suspect[i].since_ns;
	return now;
}

/* Keeps the suspects that are still gone. Those gone for too long come first in seen; returns their number. */
static size_t update_suspects(struct watch *watch, struct store_seen *seen, uint64_t now)
{
	struct watch fresh = { .suspects = 0 };
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

static uint64_t next_look_ns(const struct watch *watch, uint64_t now)
{
	uint64_t ns = now + (watch->others ? LOOK_NS : ALONE_NS);

	for (size_t i = 0; i < watch->suspects; i++)
		if (watch->suspect[i].since_ns + DEAD_NS < ns)
			ns = watch->suspect[i].since_ns + DEAD_NS;
	return ns;
}

static int bury_workers(const struct watch_in *in, const struct store_silent *silent, size_t n,
			struct deferred_error *err)
{
	struct store_losses losses = { 0 };
	int64_t *worker = malloc(n * sizeof(*worker));
	size_t dead = 0, rest = n;
	int rc;

	if (!worker)
		return error_set(err, DEFERRED_ENOMEM, "watch", "out of memory");
	for (size_t i = 0; i < n; i++)
		worker[silent[i].dead ? dead++ : --rest] = silent[i].worker;
	rc = store_bury(in->pg, worker, n, dead, in->max_attempts, &losses, err);
	if (rc == 0)
		watch_log_losses(&losses, "is gone");
	if (rc == 0 && losses.len > 0)
		rc = 1;
	free(losses.row);
	free(worker);
	return rc;
}

static int look_at_others(struct watch *watch, const struct watch_in *in, uint64_t now, struct deferred_error *err)
{
	struct store_seen seen = { 0 };
	int rc = store_look(in->pg, in->worker, in->is_dead, in->data, &seen, err);
	size_t overdue;

	if (rc == 0 && seen.silent) {
		watch->others = seen.others > 0;
		overdue = update_suspects(watch, &seen, now);
		if (overdue > 0)
			rc = bury_workers(in, seen.silent, overdue, err);
	}
	watch->look_ns = next_look_ns(watch, now);
	free(seen.silent);
	return rc;
}

/* Without the lock others would take this worker for gone. */
static int take_lock_again(struct watch *watch, const struct watch_in *in, uint64_t now, struct deferred_error *err)
{
	int rc = store_watch(in->pg, in->worker, err);

	watch->again = rc < 0;
	watch->again_ns = rc < 0 ? now + AGAIN_NS : 0;
	return rc;
}

int watch_run(struct watch *watch, const struct watch_in *in, uint64_t now, struct deferred_error *err)
{
	bool again = watch->again && now >= watch->again_ns, looks = in->looks && now >= watch->look_ns;
	int rc = 0;

	if (again)
		rc = take_lock_again(watch, in, now, err);
	if (rc == 0 && looks)
		rc = look_at_others(watch, in, now, err);
	if (rc < 0 && pg_broken(in->pg))
		return DEFERRED_ELOST;
	if (rc < 0)
		log_error(LOG_L_WARNING, err, "other workers: cannot see which of them live, trying again soon");
	return rc > 0;
}
