/* SPDX-License-Identifier: MIT */
/*
 * How workers of the same queues keep out of each other's way. A few need nothing: each draws among more jobs than the others
 * hold. Many would look at each other's jobs more than at those that are ready, and would draw the same ones: they claim in
 * turn, and begin behind what the others hold. What is ready before that place is left to claims that read everything, of which
 * each worker makes one now and then, and always before it believes that nothing is ready.
 */
#include "worker_state.h"

#define CROWD_WORKERS 4           /* are many */
#define CROWD_JOBS 32             /* claims of fewer do not hold enough to be in anybody's way */
#define CROWD_CLAIMS 100          /* to be made in turn by a worker that met many others in one */
#define WHOLE_NS (10 * NS_PER_S)  /* from one claim that reads everything to the next */
#define APART_NS (10 * NS_PER_S)  /* a worker whose turn did not come goes without for so long */
#define WINDOW_MIN 1000
#define WINDOW_MAX 1000000

/* Jobs to draw among. In turn one other at most draws at the same time. Where all that was seen was locked by others, four times as many. */
static int window(const struct worker *w, const struct store_claim *claim)
{
	int64_t x = config_int(w->config, "window"), least = claim->queue_up ? 2 * claim->n : 100 * w->live_workers;

	if (x == 0)
		x = least > WINDOW_MIN ? least : WINDOW_MIN;
	x <<= 2 * w->empty_handed;
	return x < WINDOW_MAX ? (int)x : WINDOW_MAX;
}

void worker_crowd_claim(struct worker *w, struct store_claim *claim, uint64_t now)
{
	struct worker_crowd *crowd = &w->crowd;
	bool large = claim->n >= CROWD_JOBS, many = crowd->claims > 0 || (large && w->live_workers >= CROWD_WORKERS);

	if (claim->n == 0)
		return; /* for jobs under limits only */
	if (crowd->claims > 0)
		crowd->claims--;
	claim->queue_up = many && now >= crowd->apart_ns;
	claim->front = crowd->front = many && large && now < crowd->whole_ns;
	if (!claim->front)
		crowd->whole_ns = now + WHOLE_NS;
	claim->window = window(w, claim);
}

void worker_crowd_claimed(struct worker *w)
{
	size_t got = w->cycle.claimed_len;

	if (w->cycle.seen > (int64_t)got && got < w->last_unlimited / 2)
		w->crowd.claims = CROWD_CLAIMS;
	if (got < w->last_unlimited / 2)
		w->crowd.whole_ns = 0; /* what is left may lie before the front */
}

void worker_crowd_locked(struct worker *w, uint64_t now)
{
	w->crowd.claims = 0;
	w->crowd.apart_ns = now + APART_NS;
}
