/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "base/clock.h"

#define HOLD_US 25000.0     /* jobs are claimed for so much time ahead, for each runner */
#define START_US 20000.0    /* jobs under a rate are to start that soon after their claim */
#define HAND_OVER_US 200.0  /* and each takes a runner so long at least */
#define PROMOTE_NS NS_PER_S /* how often delayed jobs are looked at while there is other work */
#define KEY_RUN_MAX 32      /* jobs of one key in a claim, at most */
#define KEYS_EACH 8         /* and keys for each runner, at least */
#define EMPTY_HANDED_MAX 7
#define SINGLE_LEASE_MAX 64 /* jobs with leases of their own, where it is noted which have begun: a reboot loses that */
#define LOOK_PAUSE 20       /* all lanes are looked at again after this many times as long as that took, */
#define LOOK_PAUSE_MAX_NS (250 * NS_PER_MS) /* but not later than that, */
#define LOOK_MORE_MAX_NS (50 * NS_PER_MS)   /* and where some of them were left, not later than that */
#define LIMITED_PAUSE 50             /* as LOOK_PAUSE, for queues under limits where a claim leaves some of them */
#define PARAMS_MAX (16 << 20)        /* bytes of params that wait here: 8 KiB for each job of the largest usual batch */
#define RATE_WAIT_NS (60 * NS_PER_S) /* a run without end waits so long for a rate or a lock to allow the next job, */
#define RATE_LOOK_NS NS_PER_S        /* and looks for others meanwhile */

static int64_t at_least_0(int64_t n)
{
	return n > 0 ? n : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t per_call(const struct plan_in *in)
{
	return in->per_call > 1 ? (int64_t)in->per_call : 1;
}

static bool jobs_take_long(const struct plan_in *in)
{
	return in->run_us < 0 || in->run_us * (double)per_call(in) >= HOLD_US; /* or nothing is known yet */
}

/* Jobs that need a runner. One that waits for another of its key does not: it runs when that one has ended. */
static int64_t need_runner(const struct plan_in *in)
{
	return (int64_t)in->unstarted - (int64_t)in->held;
}

/* Calls that will be made of these. */
static int64_t unstarted_calls(const struct plan_in *in)
{
	return (need_runner(in) + per_call(in) - 1) / per_call(in);
}

/* A job with a lease of its own must begin when it is claimed, or our death would count as its attempt. So there is one
 * for each runner that is free, or soon will be. Where it is noted which have begun, more of them may wait here. */
static int64_t single_lease_room(const struct plan_in *in)
{
	if (jobs_take_long(in))
		return at_least_0((int64_t)in->room - unstarted_calls(in));
	return at_least_0((in->notes_begun ? SINGLE_LEASE_MAX : (int64_t)in->runners) - (int64_t)in->single_lease);
}

/* Jobs under a rate must start when they are claimed: no more than there are runners for. Short ones start one after
 * the other within START_US, and behind short jobs of others a runner is free soon. */
static int64_t startable(const struct plan_in *in)
{
	double us = in->run_us < HAND_OVER_US ? HAND_OVER_US : in->run_us;

	if (jobs_take_long(in))
		return at_least_0((int64_t)in->idle - unstarted_calls(in));
	return at_least_0((int64_t)((double)in->runners * (in->run_us < START_US ? START_US / us : 1)) -
			  (int64_t)in->limited);
}

/* So many that the runners have work for HOLD_US; not more than twice as many as last time, for the next ones may take
 * longer. */
static int64_t jobs_ahead(const struct plan *p, const struct plan_in *in)
{
	int64_t n = smaller((int64_t)((double)in->runners * HOLD_US / (in->run_us < 1 ? 1 : in->run_us)), in->batch);
	int64_t twice = 2 * (int64_t)p->asked, least = smaller((int64_t)in->runners * per_call(in), in->batch);

	return n > twice && n > least ? (twice > least ? twice : least) : n;
}

/* Enough to keep the runners busy while the database works, but no job that another worker could run earlier. */
static int64_t jobs_wanted(const struct plan *p, const struct plan_in *in)
{
	int64_t n;

	if (in->closed || in->hold || p->exhausted || (in->now < p->claim_ns && p->ended == 0) ||
	    (p->single_lease_only && single_lease_room(in) == 0))
		return 0;
	/* Where there is no room for params, jobs are claimed one by one, for runners that have nothing to do. */
	if (in->params >= PARAMS_MAX && in->idle <= in->unstarted)
		return 0;
	if (jobs_take_long(in))
		n = smaller((int64_t)in->room * per_call(in) - need_runner(in),
			    in->batch); /* the others with the next claim, which follows at once */
	else
		n = (int64_t)in->unstarted > jobs_ahead(p, in)
			    ? 0
			    : jobs_ahead(p, in); /* one batch in work, the next one on its way */
	return at_least_0(smaller(n, in->left));
}

/* Of n jobs, how many are asked for among those under limits, which are claimed by a statement of their own. */
static int64_t limited_share(const struct plan *p, int64_t n, uint64_t now)
{
	if (!p->limits || (p->free_got > 0 && now < p->limited_ns))
		return 0;
	if (n == 1)
		return p->limited_turn;
	if (p->limited_got == 0)
		return 1; /* to notice when there are some */
	return p->dry ? n - 1 : n / 2;
}

/* How many jobs of one key a claim may take. They run one after the other, so the runners need jobs of several keys. */
static int64_t key_run(const struct plan *p, const struct plan_in *in, int64_t limited)
{
	int64_t run = smaller(limited / ((int64_t)in->runners * KEYS_EACH), p->key_run);

	return jobs_take_long(in) || run < 1 ? 1 : run;
}

struct plan_ask plan_next(const struct plan *p, const struct plan_in *in)
{
	struct plan_ask ask = { .wanted = jobs_wanted(p, in) };
	int64_t n = ask.wanted;

	/* With results in work an empty-handed claim would only be repeated. */
	if (n < (int64_t)p->asked / 2 && in->load > 0 && in->run_us < PLAN_SHORT_US)
		n = 0;
	if (n == 0)
		return ask;
	ask.limited = limited_share(p, n, in->now);
	ask.free = n - ask.limited;
	ask.rated = (int)startable(in);
	ask.run = (int)key_run(p, in, ask.limited);
	ask.single_lease = (int)single_lease_room(in);
	ask.bytes = (int)at_least_0(PARAMS_MAX - in->params);
	ask.promote = p->look_at_delayed || (in->now >= p->promoted_ns + PROMOTE_NS && !p->woken);
	ask.look = !in->lanes || in->now >= p->lanes_ns;
	ask.new_round = !p->round || p->ended > 0;
	ask.new_lanes_round = !p->lanes_round || p->ended > 0;
	return ask;
}

void plan_sent(struct plan *p, const struct plan_ask *ask, bool adds, uint64_t now)
{
	p->adds = adds;
	if (ask->promote)
		p->promoted_ns = now;
	if (ask->free + ask->limited == 0)
		return;
	p->woken = false;
	p->asked = (size_t)(ask->free + ask->limited);
	p->asked_free = (size_t)ask->free;
	if (p->ended > 0)
		plan_heard(p);
	p->ended = 0;
	p->round |= ask->limited > 0;
	p->lanes_round |= ask->free > 0 && ask->look;
	p->adds = false; /* it sees what goes before it */
	p->limited_turn = !p->limited_turn;
}

static uint64_t pause_end_ns(const struct plan_got *got, uint64_t pause_us, uint64_t most_ns)
{
	uint64_t pause_ns = pause_us * 1000;

	return got->sent_ns + (pause_ns < most_ns ? pause_ns : most_ns);
}

/* Where the lanes that are known have nothing, others are looked for when it is time to. */
static void learn_lanes(struct plan *p, const struct plan_got *got)
{
	if (got->looked)
		p->lanes_ns =
			pause_end_ns(got, got->look_us * LOOK_PAUSE, got->more ? LOOK_MORE_MAX_NS : LOOK_PAUSE_MAX_NS);
	else if (got->free_n == 0 && !got->more)
		p->claim_ns = p->lanes_ns;
}

static void learn_free(struct plan *p, const struct plan_got *got)
{
	learn_lanes(p, got);
	if (!got->busy)
		p->free_got = got->free_n;
	p->lanes_round = p->lanes_round && got->free_n == 0 && !got->busy;
	p->dry = got->free_n == 0 && !got->busy && !got->more && got->looked;
	if (got->cut) {
		/* The next one need not ask for many more than it can take. */
		p->asked = got->free_n + got->limited_n;
		p->asked_free = got->free_n;
	}
	if (got->free_n > 0)
		p->single_lease_only = got->cut && got->single_lease_n == got->free_n;
	p->limits = got->limits;
	if (!p->limits)
		p->rate_ns = 0;
}

/* A claim that meets other limits takes one job of each key, so it would get few jobs if it asked for several. Where
 * jobs fail, those behind them were claimed in vain. */
static void learn_key_run(struct plan *p, const struct plan_got *got)
{
	int run = p->key_run > 1 ? p->key_run : 1;

	if (!got->limited_keyed)
		p->key_run = 1;
	else if (got->dropped > got->limited_n / 4)
		p->key_run = run / 2;
	else
		p->key_run = run < KEY_RUN_MAX / 2 ? 2 * run : KEY_RUN_MAX;
}

static void learn_limited(struct plan *p, const struct plan_got *got)
{
	p->limited_dry = got->limited_n == 0 && got->limited_seen == 0 && !got->more;
	p->round = p->round && got->limited_n == 0 && got->limited_seen == 0;
	p->limited_got = got->limited_n;
	if (got->limited_n > 0)
		learn_key_run(p, got);
	/* One role can make many queues that give nothing. */
	if (p->round && got->more)
		p->limited_ns = pause_end_ns(got, got->limited_us * LIMITED_PAUSE, LOOK_PAUSE_MAX_NS);
	else
		p->limited_ns = 0;
	/* Kept: where claims of the two kinds take turns, the last one before the sleep may be the other. */
	p->rate_ns = got->wait_ms > 0 ? got->sent_ns + (uint64_t)got->wait_ms * NS_PER_MS : 0;
}

/* Jobs are ready, and a rate holds them back: a run that is to go on until nothing is ready waits for its next turn. A
 * service sleeps until then as it does for delayed jobs. */
static void wait_for_rate(struct plan *p, const struct plan_got *got)
{
	uint64_t rate_ns = p->rate_ns, look_ns = got->sent_ns + RATE_LOOK_NS;

	if (!p->exhausted || !got->waits || !rate_ns || rate_ns > got->sent_ns + RATE_WAIT_NS)
		return;
	plan_again(p);
	p->claim_ns = rate_ns < look_ns ? rate_ns : look_ns;
}

/* Others were quicker with these jobs: ask again, but not for ever, because a transaction that stays open may hold the
 * lock. A run that is to go on until nothing is ready has more patience than a service, which looks again anyway. */
static int64_t wait_for_lock(struct plan *p, const struct plan_got *got)
{
	if (p->empty_handed++ == 0)
		p->empty_ns = got->sent_ns;
	p->exhausted = got->waits ? got->sent_ns > p->empty_ns + RATE_WAIT_NS : p->empty_handed >= EMPTY_HANDED_MAX;
	if (p->exhausted)
		return 0;
	return 20 << (p->empty_handed < EMPTY_HANDED_MAX ? p->empty_handed : EMPTY_HANDED_MAX - 1);
}

int64_t plan_learn(struct plan *p, const struct plan_got *got)
{
	size_t claimed = got->free_n + got->limited_n;
	bool busy = got->busy || got->limited_seen > 0;
	int64_t pause_ms = 0;

	if (got->free)
		learn_free(p, got);
	if (got->limited)
		learn_limited(p, got);
	/* They may lie where this round has been, or be of the other kind. */
	if (got->made_ready)
		p->dry = p->limited_dry = p->round = p->lanes_round = false;
	if (got->free || got->limited) {
		/* Attempts that ended meanwhile may make jobs ready when they are recorded. */
		bool empty = claimed == 0 && !busy && !got->unrecorded, nothing = empty && !got->more;

		p->exhausted = nothing && got->promoted && p->ended == 0 && p->dry && (p->limited_dry || !p->limits);
		/* The last claim of a round looks at delayed jobs too, and the one after a claim that got too few. */
		p->look_at_delayed = (empty && (got->more || !got->promoted)) || (claimed > 0 && claimed < p->asked);
		wait_for_rate(p, got);
		if (claimed > 0 || !busy)
			p->empty_handed = 0;
		else
			pause_ms = wait_for_lock(p, got);
	}
	if (p->adds) {
		plan_heard(p);
		p->exhausted = false;
	}
	return pause_ms;
}

void plan_again(struct plan *p)
{
	p->exhausted = p->dry = p->limited_dry = p->round = p->lanes_round = false;
	p->rate_ns = 0;
}

void plan_delayed(struct plan *p)
{
	plan_again(p);
	p->look_at_delayed = true;
}

void plan_woken(struct plan *p, bool in_vain)
{
	plan_again(p);
	p->woken = true;
	p->look_at_delayed = in_vain;
}

void plan_ended(struct plan *p)
{
	p->exhausted = false;
	p->ended++;
}

void plan_lanes_lost(struct plan *p)
{
	p->lanes_ns = 0;
}

void plan_heard(struct plan *p)
{
	p->dry = p->limited_dry = p->round = p->lanes_round = false;
	p->claim_ns = 0; /* they may lie in any lane */
}

bool plan_idle(const struct plan *p, uint64_t sent_ns)
{
	/* One that waits for a rate is idle too. */
	return (p->dry && (p->limited_dry || !p->limits)) || p->claim_ns > sent_ns;
}
