/* SPDX-License-Identifier: MIT */
/*
 * plan - how many jobs to ask for, of which kind, and what the answers mean. Pure: what is known of runners and clock
 * is handed in, so tests are tables.
 *
 * Claims are of two kinds: of jobs that no limit is about ("free"), and of jobs under limits. A kind is dry when its
 * last claim found nothing and nothing has changed since. Nothing is ready ("exhausted") when both are, delayed jobs
 * were looked at in the same cycle, and no attempt has ended meanwhile: it may have deferred more.
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
	size_t asked, asked_free; /* jobs the last claim was for, and how many of them free ones */
	size_t free_got;          /* what the last claim of free jobs got, */
	size_t limited_got;       /* and the last one under limits */
	bool round, lanes_round;  /* through all queues under limits, and all lanes: nothing was heard since it began */
	bool limited_turn;        /* of a claim for one job: it is for one under limits */
	bool alone_only;          /* the last jobs had leases of their own, and there are more of these */
	int empty_handed;         /* claims in a row that got none of the jobs they saw, */
	uint64_t empty_ns;        /* since */
	size_t ended;             /* attempts that ended after the last claim was sent */
	bool adds;                /* the cycle makes jobs ready, and claims none */
	bool look_at_delayed;     /* nothing seemed ready: ask for due ones too before believing it */
	bool woken;               /* by a notification, and no claim was sent since: delayed jobs can wait */
	uint64_t promoted_ns;     /* when they were looked at last */
	uint64_t rate_ns;         /* a rate allows the next job then; 0: not known */
	uint64_t limited_ns;      /* while there are free jobs, those under limits need not be asked for before */
	uint64_t claim_ns;        /* not to be asked for before, unless an attempt ends */
	uint64_t lanes_ns;        /* lanes that are not known need not be looked for before */
};

/* What is known when a claim is considered. */
struct plan_in {
	uint64_t now;
	bool closed;  /* nothing is to begin any more */
	bool hold;    /* leases are asked about first */
	int64_t left; /* jobs that may still be claimed */
	int64_t batch;
	double run_us;         /* a job takes a runner, lately; < 0: not known */
	size_t runners;        /* at most */
	size_t room;           /* runners free, or that would be added */
	size_t idle;           /* runners free now */
	size_t unstarted;      /* jobs in hand that no runner has begun, */
	size_t load;           /* and those with the ones that run */
	size_t alone, limited; /* of these */
	bool notes_begun;      /* the next start will know which of those with leases of their own had begun */
	int64_t params;        /* bytes of params in hand */
	bool lanes;            /* some lanes are known */
};

struct plan_ask {
	int64_t wanted;        /* jobs that there is use for: what ended goes along with their claim */
	int64_t free, limited; /* jobs to claim now */
	int rated;             /* of those under limits, so many may be under a rate, which have to start at once */
	int alone;             /* of all, so many may have a lease of their own */
	int bytes;             /* of params */
	bool promote;          /* delayed jobs and ended leases are looked at */
	bool anew, lanes_anew; /* a round through the queues under limits begins, and one through all lanes */
	bool look;             /* all lanes are asked, not only the known ones */
};

/* What came of a cycle. */
struct plan_got {
	uint64_t sent_ns;
	bool free, limited; /* jobs of that kind were asked for */
	bool promoted;
	bool made_ready;          /* by that some jobs were: delayed ones, or those of leases that had ended */
	bool looked;              /* all lanes were asked, */
	uint64_t look_us;         /* which took so long */
	size_t free_n, limited_n; /* jobs claimed */
	size_t alone_n;           /* of the free ones, so many with leases of their own */
	bool busy;                /* a lane was locked by others */
	bool more;                /* some were not looked at, of either kind */
	bool cut;                 /* jobs were left, for their params or for plan_ask.alone */
	bool limits;              /* some queue has jobs under limits */
	size_t limited_seen;      /* jobs under limits that others were quicker with */
	uint64_t limited_us;      /* asking for those took so long */
	int64_t wait_ms;          /* until a rate allows the next; 0: not known */
	bool unrecorded;          /* attempts that have ended wait to be recorded */
	bool waits;               /* the run ends when nothing is ready, and may wait for a rate or for a lock */
};

struct plan_ask plan_next(const struct plan *plan, const struct plan_in *in);
void plan_sent(struct plan *plan, const struct plan_ask *ask, uint64_t now); /* it is being asked */
int64_t plan_learn(struct plan *plan,
		   const struct plan_got *got); /* returns ms to wait before the next cycle; 0: none */

void plan_again(struct plan *plan);               /* something may be ready now */
void plan_delayed(struct plan *plan);             /* the same, and what is delayed may be due */
void plan_woken(struct plan *plan, bool in_vain); /* by a notification; in_vain: the last one brought nothing */
void plan_ended(struct plan *plan); /* an attempt has ended: it may have deferred more, and a limit may have room */
void plan_heard(struct plan *plan); /* of new jobs: what claims have found until now says nothing of them */
bool plan_idle(const struct plan *plan, uint64_t sent_ns); /* the claim sent then found no job that it might have had */

#endif
