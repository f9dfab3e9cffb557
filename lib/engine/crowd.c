/* SPDX-License-Identifier: MIT */
/*
 * How workers of the same queues keep out of each other's way. A few need little: each draws among more jobs than the others
 * hold. Many would look at each other's jobs more than at those that are ready, and would draw the same ones. Those that hold
 * jobs by the hundred claim in turn, two at a time, each from its half of the jobs, and all begin behind what the others
 * hold. What is ready before that place is left to claims that read everything, of which each worker makes one now and then,
 * and always after one that did not find enough.
 *
 * Reading everything takes long where somebody holds a job, or has it locked, while very much dies behind it: beside a worker that
 * stalls, or a cancel not yet committed. There few workers too begin where the ready jobs do (cursor.h), but for one claim in fifty.
 * Many look for that place only when they read everything: each would walk over all that the others hold.
 */
#include "engine/state.h"

#define CROWD_WORKERS 4           /* are many */
#define CROWD_JOBS 32             /* claims of fewer do not hold enough to be in anybody's way: they are not made in turn */
#define CROWD_CLAIMS 100          /* to be made in turn by a worker that met many others in one */
#define WHOLE_NS (2 * NS_PER_S)   /* from one claim that reads everything to the next, for each worker there is, */
#define WHOLE_MIN_NS (10 * NS_PER_S) /* but not less, */
#define WHOLE_MAX_NS (60 * NS_PER_S) /* and not more */
#define LONG_NS (5 * NS_PER_MS)   /* a claim that read everything and took longer */
#define LONG_FACTOR 50            /* is followed by others for so many times as long, */
#define LONG_MAX_NS (60 * NS_PER_S) /* but not longer than that */
#define TURN_MAX_MS 10000         /* a turn is waited for so long at most: a run does not know how many have started after it */
#define APART_NS (10 * NS_PER_S)  /* a worker whose turn did not come goes without for so long */
#define WINDOW_MIN 1000
#define WINDOW_MAX 1000000

static bool many(const struct worker *w)
{
	return w->live_workers >= CROWD_WORKERS;
}

/* Jobs to draw among. Where all that was drawn was locked by others, four times as many. */
static int window(const struct worker *w, const struct store_claim *claim)
{
	int64_t x = config_int(w->config, "window");

	if (x == 0 && claim->front) {
		x = claim->in_turn ? claim->n : 4 * claim->n * w->live_workers; /* in turn nobody else takes from there */
	} else if (x == 0) {
		x = claim->in_turn ? WINDOW_MIN : 100 * w->live_workers;
		if (x < WINDOW_MIN)
			x = WINDOW_MIN;
		if (x < 2 * claim->n)
			x = 2 * claim->n;
	}
	x <<= 2 * w->empty_handed;
	return x < WINDOW_MAX ? (int)x : WINDOW_MAX;
}

static int64_t turn_ms(const struct worker *w)
{
	int64_t ms = (int64_t)(worker_fence_after_ns(w) / NS_PER_MS / 8); /* leases are to be renewed meanwhile */

	return ms < TURN_MAX_MS ? ms : TURN_MAX_MS;
}

bool worker_crowd_in_turn(const struct worker *w, int64_t n, uint64_t now)
{
	return (w->crowd.claims > 0 || (n >= CROWD_JOBS && many(w))) && now >= w->crowd.apart_ns;
}

void worker_crowd_claim(struct worker *w, struct store_claim *claim, uint64_t now)
{
	struct worker_crowd *crowd = &w->crowd;

	if (claim->n == 0)
		return; /* for jobs under limits only */
	claim->in_turn = worker_crowd_in_turn(w, claim->n, now);
	claim->turn_ms = turn_ms(w);
	/* One after the other, not at random: what lags behind in one half keeps the cursor from passing what is dead in the other. */
	if (claim->in_turn)
		claim->half = (int)((w->worker_id + crowd->turns++) & 1);
	if (crowd->claims > 0)
		crowd->claims--;
	claim->whole = crowd->whole = !crowd->plenty || now >= crowd->whole_ns;
	claim->front = !claim->whole && (claim->in_turn || many(w));
	claim->look_ready = claim->whole || !many(w);
	if (claim->whole && (claim->in_turn || many(w))) {
		uint64_t ns = WHOLE_NS * (uint64_t)w->live_workers;

		crowd->whole_ns = now + (ns < WHOLE_MIN_NS ? WHOLE_MIN_NS : ns > WHOLE_MAX_NS ? WHOLE_MAX_NS : ns);
	}
	claim->window = window(w, claim);
	crowd->asked = (size_t)(claim->n < claim->window ? claim->n : claim->window);
	claim->drawn = claim->n < claim->window >> 2 * w->empty_handed ? claim->n << 2 * w->empty_handed : claim->window;
}

void worker_crowd_claimed(struct worker *w, uint64_t now)
{
	uint64_t took_ns = now > w->cycle.sent_ns ? now - w->cycle.sent_ns : 0, pause_ns = LONG_FACTOR * took_ns;
	size_t got = w->cycle.claimed_len;

	if (w->crowd.whole && took_ns >= LONG_NS && now + pause_ns > w->crowd.whole_ns)
		w->crowd.whole_ns = now + (pause_ns < LONG_MAX_NS ? pause_ns : LONG_MAX_NS);
	w->crowd.plenty = w->cycle.cut || (got > 0 && got >= w->crowd.asked / 2);
	if (!w->crowd.plenty && w->cycle.seen > (int64_t)got)
		w->crowd.claims = CROWD_CLAIMS;
}

void worker_crowd_locked(struct worker *w, uint64_t now)
{
	w->crowd.claims = 0;
	w->crowd.apart_ns = now + APART_NS;
}
