/* SPDX-License-Identifier: MIT */
/*
 * plan - how many jobs to ask for, of which kind, and what the answers mean. Pure.
 *
 * Claims are of two kinds: of jobs without limits ("free"), and of jobs under limits. A kind is dry when its last claim
 * found nothing and nothing has changed since. Nothing is ready ("exhausted") when both kinds are dry, delayed jobs
 * were looked at in the same cycle, and no attempt has ended meanwhile. An attempt may have deferred more.
 */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_SHORT_US 1000 /* jobs that take less come in crowds: a round trip for a few of them is not worth it */

struct plan {
	bool exhausted; /* nothing is ready */
	bool dry, limited_dry;
	bool limits;              /* there may be jobs under limits */
	size_t asked, asked_free; /* jobs that the last claim was for, and the free ones among them */
	size_t free_got;          /* jobs that the last claim of free ones got */
	size_t limited_got;       /* jobs that the last claim of limited ones got */
	int key_run;              /* at most this many jobs of one key are asked for; 0: one */
	bool round, lanes_round;  /* through all queues with limits, and all lanes: no news came since it began */
	bool limited_turn;        /* the next claim for one job asks for a limited one */
	bool single_lease_only;   /* the last jobs had leases of their own, and more of these are ready */
	int empty_handed;         /* claims in a row that got none of the jobs they saw, */
	uint64_t empty_ns;        /* since */
	size_t ended;             /* attempts that ended after the last claim was sent */
	bool adds;                /* the cycle makes jobs ready, and claims none */
	bool look_at_delayed;     /* nothing seemed ready: look at delayed jobs too before believing it */
	bool woken;               /* by a notification, and no claim was sent since: delayed jobs can wait */
	uint64_t promoted_ns;     /* the last look at delayed jobs */
	uint64_t rate_ns;         /* a rate allows the next job then; 0: not known */
	uint64_t limited_ns;      /* while there are free jobs, limited ones need not be asked for before */
	uint64_t claim_ns;        /* no claim before, unless an attempt ends */
	uint64_t lanes_ns;        /* no search for unknown lanes before */
};

/* The facts when a claim is considered. */
struct plan_in {
	uint64_t now;
	bool closed;  /* nothing is to begin any more */
	bool hold;    /* leases are renewed first */
	int64_t left; /* jobs that may still be claimed */
	int64_t batch;
	double run_us;       /* recent run time of a job; < 0: not known */
	size_t runners;      /* at most */
	size_t per_call;     /* jobs that a runner takes at once, at most; 0: one */
	size_t room;         /* runners free, or that would be added */
	size_t idle;         /* runners free now */
	size_t unstarted;    /* jobs in hand that no runner has begun, */
	size_t load;         /* and those with the ones that run */
	size_t held;         /* of the unstarted ones, jobs that wait for a running one of their key */
	size_t single_lease; /* of these, jobs with leases of their own */
	size_t limited;      /* of these, jobs under limits */
	bool notes_begun;    /* the next start will know which jobs with leases of their own had begun */
	int64_t params;      /* bytes of params in hand */
	bool lanes;          /* some lanes are known */
};

struct plan_ask {
	int64_t wanted;        /* jobs that could be used: ended attempts are sent with the claim of these */
	int64_t free, limited; /* jobs to claim now */
	int rated;             /* at most this many of the limited ones may be under a rate: these start at once */
	int run;               /* at most this many may have one key */
	int single_lease;      /* at most this many may have a lease of their own */
	int bytes;             /* of params */
	bool promote;          /* delayed jobs and ended leases are looked at */
	bool new_round, new_lanes_round; /* a round through the queues with limits begins, and one through all lanes */
	bool look;                       /* all lanes are asked, not only the known ones */
};

/* The answer of a cycle. */
struct plan_got {
	uint64_t sent_ns;
	bool free, limited; /* jobs of that kind were asked for */
	bool promoted;
	bool made_ready;          /* the look at delayed jobs and ended leases made some ready */
	bool looked;              /* all lanes were asked, */
	uint64_t look_us;         /* which took this long */
	size_t free_n, limited_n; /* jobs claimed */
	bool limited_keyed;       /* nothing but keys limits the limited ones */
	size_t dropped;           /* jobs given back since the last claim, because one of their key had failed */
	size_t single_lease_n;    /* of the free ones, those with leases of their own */
	bool busy;                /* another worker had a lane locked */
	bool more;                /* some were not looked at, of either kind */
	bool cut;                 /* jobs were left because of plan_ask.bytes or plan_ask.single_lease */
	bool limits;              /* some queue has jobs under limits */
	size_t limited_seen;      /* jobs under limits that other workers took first */
	uint64_t limited_us;      /* asking for limited jobs took this long */
	int64_t wait_ms;          /* until a rate allows the next; 0: not known */
	bool unrecorded;          /* attempts that have ended wait to be recorded */
	bool waits;               /* the run ends when nothing is ready, and may wait for a rate or for a lock */
};

struct plan_ask plan_next(const struct plan *plan, const struct plan_in *in);
/* The question is being sent. adds: the same cycle makes jobs ready before it claims. */
void plan_sent(struct plan *plan, const struct plan_ask *ask, bool adds, uint64_t now);
int64_t plan_learn(struct plan *plan,
		   const struct plan_got *got); /* returns ms to wait before the next cycle; 0: none */

void plan_again(struct plan *plan);               /* something may be ready now */
void plan_delayed(struct plan *plan);             /* the same, and delayed jobs may be due */
void plan_woken(struct plan *plan, bool in_vain); /* by a notification; in_vain: the last one brought nothing */
void plan_ended(struct plan *plan);      /* an attempt has ended: it may have deferred jobs, or a limit has room */
void plan_lanes_lost(struct plan *plan); /* no lanes are known: the next claim asks all */
void plan_heard(struct plan *plan);      /* of new jobs: earlier claims say nothing about them */
bool plan_idle(const struct plan *plan, uint64_t sent_ns); /* the claim sent then found no job that it could have */

#endif
