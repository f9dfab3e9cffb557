/* SPDX-License-Identifier: MIT */
/*
 * An explicit-state model of how ready jobs are handed out: every interleaving of two workers, two producers and an
 * operator, statement by statement, with deaths of workers and crashes of the server between any two of them.
 *
 *     claim_model CONFIGURATION                    explore; exit 1 and the shortest way there if a promise is broken
 *     claim_model CONFIGURATION --broken NAME      the same with a deliberate error
 *     claim_model CONFIGURATION --sound cur-first  the same where a claim takes its fresh cur before it reads any row
 *     claim_model CONFIGURATION --states MOST      not further than so many states: exit 3 if there are more
 *     claim_model --list                           names of configurations and of deliberate errors, with what each is
 *
 * What PostgreSQL does, as far as the claim leans on it:
 * - A snapshot is {xmax, xip}: what is below xmax and not in xip is visible. xmax is one more than the last xid that
 *   *completed*. The own xid of who takes a snapshot is not in xip, so it may be "visible" in it. Xids are given at the
 *   first write, not at the commit.
 * - READ COMMITTED: each statement has a snapshot of its own. Who writes a row that changed after that snapshot waits
 *   for its lock and judges the new version: so record, lost and repair have a step for the snapshot and one for the
 *   lock where it can matter.
 * - A synchronous commit makes durable whatever committed before it, an asynchronous one is visible and not yet
 *   durable: `disk` is what a crash of the server goes back to, while `dirty`. The log is flushed up to now at any
 *   moment, so every prefix of it can be what survives.
 * - for update skip locked on a row deleted since the snapshot yields no row; insert on conflict do nothing waits for
 *   who is inserting the same key.
 *
 * Two windows in one claim: a job of the first one can be cancelled and retried by hand before the second cur is taken,
 * and its new xid is then visible in that one. So each window has a lease of its own, with its own cur; or the fresh
 * cur is taken before any row is read.
 *
 * What a process writes is seen by nobody before it commits, so writing and committing are one step, as are reading a
 * row that is locked and the lock. A row of the table hot is changed by applying a transaction's `ends` and `readies`,
 * which are row locks until then.
 *
 * States are folded: xids are ranks among those that anything still refers to, snapshots keep what tells these apart,
 * workers and leases are sorted. An xid of a claim is on no row, so nobody can tell it from another. Bounds: two rows
 * of leases at once, or three (a claim that needs more is rolled back), one claim in the hands of a worker, one job in
 * a transaction that records. Not in here: jobs apart, several lanes, renewal of a lease that is still live (it changes
 * nothing that others can see), restored dumps.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	JOBS = 3,
	LEASES = 3,
	WORKERS = 2,
	PRODUCERS = 2,
	OPERATOR = WORKERS + PRODUCERS,
	PROCESSES,
	WINDOW = 2,
	XID_MAX = 15,
	NONE = 0xff
};

/* ---- what is explored, and what is broken on purpose */

enum feature { CRASH = 1, AGAIN = 2, BY_HAND = 4, REPAIR = 8, EXTEND = 16, ABORT = 32 };

static const struct configuration {
	const char *name;
	uint8_t jobs_of[PRODUCERS]; /* mask of what each producer defers in its transaction */
	int leases;                 /* rows of leases at once, at most */
	int features;
	const char *what;
} configurations[] = {
	{ "small", { 1, 2 }, 2, CRASH | AGAIN | ABORT, "two jobs, retries, deaths and crashes" },
	{ "hand", { 1, 2 }, 2, BY_HAND, "two jobs that are cancelled and retried by hand; no crash of the server" },
	{ "repair", { 1, 2 }, 2, CRASH | REPAIR, "two jobs, a lease that is deleted by hand, repair" },
	{ "extend", { 1, 2 }, 2, CRASH | AGAIN | EXTEND, "two jobs, a function that has its lease last longer" },
	{ "all",
	  { 1, 2 },
	  2,
	  CRASH | AGAIN | BY_HAND | REPAIR | EXTEND | ABORT,
	  "two jobs and everything that can happen to them" },
	{ "three", { 3, 4 }, 2, CRASH, "three jobs, two of one transaction" },
};
static const struct configuration *config;

enum broken {
	SOUND,
	ROWS_EARLY,
	LEASE_BY_ID,
	REST_BY_ID,
	FIRST_NO_KEY,
	FIRST_UNREAD,
	RECORD_WITH_CLAIM,
	RECORD_UNCHECKED,
	LOST_BY_ID,
	LOST_EXTENDED,
	LOST_LOCKED,
	EXPIRED_DELETED,
	REPAIR_NO_REST,
	LATE_FORGOTTEN,
	TWO_COMMITS,
	ONE_LEASE_FOR_BOTH,
};
static const struct {
	enum broken broken;
	const char *name, *what;
} errors[] = {
	{ ROWS_EARLY, "rows-early", "rows are read in a snapshot that is older than cur" },
	{ LEASE_BY_ID, "lease-by-id", "a lease holds by id alone, whatever the row's xid" },
	{ REST_BY_ID, "rest-by-id", "an entry of rest counts whatever the row's xid" },
	{ FIRST_NO_KEY, "first-no-key", "nothing keeps two first claims of a lane, or two moves of its place, apart" },
	{ FIRST_UNREAD, "first-unread", "who inserted a first place does not look whether it is the newest one" },
	{ RECORD_WITH_CLAIM, "record-with-claim", "an outcome is recorded in the transaction of the next claim" },
	{ RECORD_UNCHECKED, "record-unchecked", "who waited for a row does not look again at its xid" },
	{ LOST_BY_ID, "lost-by-id", "lost: ids of the lease are made ready whatever their xid" },
	{ LOST_EXTENDED, "lost-extended", "lost: a lease that extends it is not looked for" },
	{ LOST_LOCKED, "lost-locked", "lost: the lease is deleted although somebody had locked a row of it" },
	{ EXPIRED_DELETED, "expired-deleted",
	  "a worker that comes too late deletes its lease, which still holds the job" },
	{ REPAIR_NO_REST, "repair-no-rest", "repair takes what is in rest for stranded" },
	{ LATE_FORGOTTEN, "late-forgotten", "what comes next begins at xmax(done), without xip(done)" },
	{ TWO_COMMITS, "two-commits", "the place is committed before the lease" },
	{ ONE_LEASE_FOR_BOTH, "one-lease-for-both",
	  "one lease, with the later cur, for the rows of both windows of a claim" },
};
static enum broken broken;
/* the other sound way: a fresh cur is taken before any row is read, and one lease goes with that one */
static bool cur_first;

/* ---- a state. Only bytes and pairs of them, without padding: states are compared as memory. */

struct snapshot {
	uint16_t xmax, xip; /* bit x of xip: xid x */
};

enum { ABSENT, READY, ENDED };
struct hot {
	uint8_t is, xid, suspect;
};

struct place {
	struct snapshot done, cur;
	uint8_t seq;  /* 0 no place, 1 the first one, 2 a later one */
	uint8_t open; /* done and cur differ: the window between them is not used up */
	uint8_t zero;
	uint8_t xid, id;
	uint8_t rest[JOBS]; /* xid of the entry of that id, 0 for none */
};

struct lease {
	struct snapshot snap;
	uint8_t ids; /* 0: there is no such row */
	uint8_t receipt, alone, expired;
};

struct database {
	struct place place;
	struct lease lease[LEASES];
	struct hot hot[JOBS];
	uint8_t zero;
};

enum pc {
	IDLE,
	OPEN,        /* producers and the operator: has written, is to commit */
	DONE,        /* producers: committed or rolled back */
	SEEN,        /* the statement that locks the place has its snapshot */
	LOCKED,      /* lane locked, place read */
	CUR,         /* cur is what rows may be read by */
	USED,        /* window used up, some jobs are still wanted */
	WRITE,       /* lease and place to be written and committed */
	WRITE_LEASE, /* TWO_COMMITS only */
	RECORD_SEEN, /* the statement that records has its snapshot */
	RECORDED,    /* row locked and written */
	EXTEND_SEEN,
	LOST_LOCKED_LEASE,
	LOST_WRITTEN,
	REPAIR_SEEN,
};

struct process {
	struct place p;       /* of a claim */
	struct snapshot snap; /* of the first window of a claim; of the lease when recording */
	uint8_t pc, xid;
	uint8_t ends, readies, suspects;      /* uncommitted changes of hot, masks of jobs */
	uint8_t held, todo;                   /* leases, and jobs of them that are not settled */
	uint8_t current;                      /* the place that was read is still the newest */
	uint8_t first;                        /* inserted the first place */
	uint8_t fresh, want, taken[2], alone; /* of a claim: cur was renewed; missing; by window; suspects among them */
	uint8_t job, lease, again, keep;
	uint8_t rows[JOBS]; /* ROWS_EARLY only */
	uint8_t zero;
};

struct state {
	struct database db, disk;
	struct process process[PROCESSES];
	uint8_t dirty, next_xid, last_xid; /* last_xid completed */
	uint8_t finals;                    /* ghost: jobs whose final outcome was accepted and told */
	uint8_t stray;                     /* ghost: jobs that somebody's hand stranded */
	uint8_t by_hand;                   /* leases deleted by hand */
};
_Static_assert(sizeof(struct place) == 16 && sizeof(struct lease) == 8 &&
		       sizeof(struct database) == 16 + 8 * LEASES + 3 * JOBS + 1,
	       "no padding");
_Static_assert(sizeof(struct state) == 2 * sizeof(struct database) + PROCESSES * sizeof(struct process) + 6,
	       "no padding");

static const char *violation; /* the first promise that was broken */

static void require(bool holds, const char *promise)
{
	if (!holds && !violation)
		violation = promise;
}

/* ---- visibility */

static bool visible(uint8_t xid, struct snapshot snap)
{
	return xid < snap.xmax && !(snap.xip >> xid & 1);
}

static struct snapshot snapshot_of(const struct state *s, int me)
{
	struct snapshot snap = { .xmax = (uint16_t)(s->last_xid + 1) };

	for (int i = 0; i < PROCESSES; i++) {
		uint8_t xid = s->process[i].xid;

		if (i != me && xid && xid < snap.xmax)
			snap.xip |= (uint16_t)(1 << xid);
	}
	return snap;
}

static void take_xid(struct state *s, int me)
{
	if (!s->process[me].xid)
		s->process[me].xid = s->next_xid++;
}

/* ---- where a job is */

static bool lease_holds(const struct lease *l, int job, const struct hot *hot)
{
	return (l->ids >> job & 1) && hot->is == READY && (broken == LEASE_BY_ID || visible(hot->xid, l->snap));
}

static bool in_rest(const struct place *p, int job, const struct hot *hot)
{
	return p->rest[job] && hot->is == READY && (broken == REST_BY_ID || p->rest[job] == hot->xid);
}

static bool passed(const struct place *p, int job, uint8_t xid)
{
	return xid < p->xid || (xid == p->xid && job <= p->id);
}

static bool beyond(const struct place *p, int job, const struct hot *hot)
{
	if (hot->is != READY)
		return false;
	return !p->seq || (!visible(hot->xid, p->done) && !(visible(hot->xid, p->cur) && passed(p, job, hot->xid)));
}

/* Of what is beyond, what the window from done to cur has. */
static bool in_window(const struct place *p, int job, uint8_t xid)
{
	bool late = p->done.xip >> xid & 1 && broken != LATE_FORGOTTEN;

	return (late || (xid >= p->done.xmax && xid < p->cur.xmax)) && visible(xid, p->cur) && !passed(p, job, xid);
}

static int holders(const struct state *s, int job, bool live)
{
	int seen = 0, n = 0;

	for (int l = 0; l < LEASES; l++) {
		const struct lease *lease = &s->db.lease[l];

		if (!lease_holds(lease, job, &s->db.hot[job]) || (live && lease->expired) ||
		    (seen >> lease->receipt & 1))
			continue;
		seen |= 1 << lease->receipt;
		n++;
	}
	return n;
}

static int places_of(const struct state *s, int job)
{
	return beyond(&s->db.place, job, &s->db.hot[job]) + in_rest(&s->db.place, job, &s->db.hot[job]) +
	       holders(s, job, false);
}

static bool row_locked(const struct state *s, int job, int me)
{
	for (int i = 0; i < PROCESSES; i++)
		if (i != me && ((s->process[i].ends | s->process[i].readies) >> job & 1))
			return true;
	return false;
}

static bool lease_locked(const struct state *s, int lease, int me)
{
	for (int i = 0; i < WORKERS; i++)
		if (i != me && (s->process[i].pc == LOST_LOCKED_LEASE || s->process[i].pc == LOST_WRITTEN) &&
		    s->process[i].lease == lease)
			return true;
	return false;
}

static bool lane_locked(const struct state *s, int me)
{
	for (int i = 0; i < WORKERS; i++)
		if (i != me && s->process[i].pc >= LOCKED && s->process[i].pc <= WRITE && !s->process[i].first)
			return true;
	return false;
}

static bool first_being_inserted(const struct state *s, int me)
{
	for (int i = 0; i < WORKERS; i++)
		if (i != me && s->process[i].pc >= LOCKED && s->process[i].pc <= WRITE && s->process[i].first)
			return true;
	return false;
}

/* ---- transactions */

/* Forgets all but what a worker has in its hands. */
static void transaction_over(struct state *s, int me)
{
	struct process *p = &s->process[me];
	uint8_t held = p->held, todo = p->todo;

	if (p->xid > s->last_xid)
		s->last_xid = p->xid;
	memset(p, 0, sizeof(*p));
	p->held = held;
	p->todo = todo;
}

static void rollback(struct state *s, int me)
{
	transaction_over(s, me);
	if (me >= WORKERS && me < OPERATOR)
		s->process[me].pc = DONE;
}

static void flush(struct state *s)
{
	s->dirty = 0;
	memset(&s->disk, 0, sizeof(s->disk));
}

static void apply_rows(struct state *s, int me)
{
	struct process *p = &s->process[me];
	uint8_t changed = p->ends | p->readies;

	for (int j = 0; j < JOBS; j++) {
		if (p->ends >> j & 1)
			s->db.hot[j] = (struct hot){ .is = ENDED };
		if (p->readies >> j & 1)
			s->db.hot[j] = (struct hot){ .is = READY, .xid = p->xid, .suspect = p->suspects >> j & 1 };
	}
	s->stray &= (uint8_t)~changed;
	/* What repair saw of a row that changed, it judges anew once it has the lock: that row has another xid. */
	if (s->process[OPERATOR].pc == REPAIR_SEEN && me != OPERATOR)
		s->process[OPERATOR].todo &= (uint8_t)~changed;
}

/* To be called before anything of the transaction is applied. */
static void commit_begins(struct state *s, bool synchronous)
{
	if (!synchronous && !s->dirty && (config->features & CRASH)) {
		s->disk = s->db;
		s->dirty = 1;
	}
}

static void commit_ends(struct state *s, int me, bool synchronous)
{
	apply_rows(s, me);
	transaction_over(s, me);
	if (synchronous)
		flush(s);
}

/* Nobody has a receipt of a row that is gone; a statement under way keeps what it read of it. */
static void lease_gone(struct state *s, int lease)
{
	uint8_t ids = s->db.lease[lease].ids;

	memset(&s->db.lease[lease], 0, sizeof(s->db.lease[lease]));
	for (int i = 0; i < WORKERS; i++) {
		struct process *p = &s->process[i];
		uint8_t still = 0;

		if (!(p->held >> lease & 1))
			continue;
		p->held &= (uint8_t) ~(1 << lease);
		for (int l = 0; l < LEASES; l++)
			if (p->held >> l & 1)
				still |= s->db.lease[l].ids;
		p->todo &= (uint8_t) ~(ids & ~still);
		if ((p->pc == RECORD_SEEN || p->pc == RECORDED || p->pc == EXTEND_SEEN) && p->lease == lease)
			p->lease = NONE;
	}
}

/* ---- producers */

static void producer_begins(struct state *s, int me)
{
	take_xid(s, me);
	s->process[me].readies = config->jobs_of[me - WORKERS];
	s->process[me].pc = OPEN;
}

static void producer_commits(struct state *s, int me)
{
	commit_ends(s, me, true);
	s->process[me].pc = DONE;
}

/* ---- a claim */

static void claim_begins(struct state *s, int me)
{
	struct process *p = &s->process[me];

	p->pc = SEEN;
	p->current = s->db.place.seq != 0;
	p->first = s->db.place.seq == 0;
}

/* Reads the place; one that is not used up is gone on with. */
static void lane_is_locked(struct state *s, int me)
{
	struct process *p = &s->process[me];

	take_xid(s, me);
	p->p = s->db.place;
	p->current = 1;
	p->pc = p->p.open && !cur_first ? CUR : LOCKED;
	if (broken == ROWS_EARLY)
		for (int j = 0; j < JOBS; j++)
			p->rows[j] = s->db.hot[j].is == READY ? s->db.hot[j].xid : 0;
}

static void settle(struct state *s, int me, int job);

/* Whoever hears of an accepted final outcome may rely on it, whatever crashes later. */
static void outcome_told(struct state *s, int me)
{
	const struct process *p = &s->process[me];

	require(!(s->finals & p->ends), "3: two final outcomes of one job were accepted");
	s->finals |= p->ends;
}

static void claim_gives_up(struct state *s, int me)
{
	uint8_t recorded = s->process[me].ends | s->process[me].readies;
	int job = s->process[me].job;

	if (!recorded) {
		rollback(s, me);
		return;
	}
	outcome_told(s, me);
	commit_ends(s, me, true);
	settle(s, me, job);
}

/* False: has to wait. */
static bool claim_locks(struct state *s, int me)
{
	struct process *p = &s->process[me];

	if (!p->first) {
		if (!p->current || lane_locked(s, me))
			claim_gives_up(s, me);
		else
			lane_is_locked(s, me);
		return true;
	}
	if (broken == FIRST_NO_KEY) {
		lane_is_locked(s, me);
		return true;
	}
	if (first_being_inserted(s, me))
		return false;
	if (broken == FIRST_UNREAD && s->db.place.seq != 1) {
		lane_is_locked(s, me);
		memset(&p->p, 0, sizeof(p->p));
		p->pc = LOCKED;
		return true;
	}
	/* The key is free again once the lane has gone on to its second place, so the newest place has to be the
	 * inserted one. */
	if (s->db.place.seq)
		claim_gives_up(s, me);
	else
		lane_is_locked(s, me);
	return true;
}

static void claim_takes_cur(struct state *s, int me)
{
	struct process *p = &s->process[me];

	if (cur_first && p->pc == LOCKED)
		p->snap = snapshot_of(s, me);
	p->pc = p->pc == LOCKED && p->p.open && cur_first ? CUR : p->pc;
	if (p->pc == CUR)
		return;
	p->p.cur = cur_first ? p->snap : snapshot_of(s, me);
	p->p.open = 1;
	p->fresh = 1;
	p->pc = CUR;
}

/* The row as the claim's own transaction sees it. */
static struct hot row_seen(const struct state *s, int me, int job)
{
	const struct process *p = &s->process[me];
	struct hot hot = s->db.hot[job];

	if (p->ends >> job & 1)
		hot = (struct hot){ .is = ENDED };
	if (p->readies >> job & 1)
		hot = (struct hot){ .is = READY, .xid = p->xid };
	if (broken == ROWS_EARLY)
		hot = (struct hot){ .is = p->rows[job] ? READY : ABSENT, .xid = p->rows[job] };
	return hot;
}

struct candidates {
	int len;
	uint8_t job[JOBS], xid[JOBS], suspect[JOBS];
	bool next[JOBS]; /* from beyond the place, not from rest */
};

static void candidate_add(struct candidates *c, int job, struct hot hot, bool next)
{
	c->job[c->len] = (uint8_t)job;
	c->xid[c->len] = hot.xid;
	c->suspect[c->len] = hot.suspect;
	c->next[c->len++] = next;
}

/* Rest, then what comes next in the order of (xid, id). */
static struct candidates claim_reads(const struct state *s, int me, int limit)
{
	const struct process *p = &s->process[me];
	struct candidates c = { .len = 0 };

	for (int j = 0; j < JOBS && c.len < limit; j++) {
		struct hot hot = row_seen(s, me, j);

		if (in_rest(&p->p, j, &hot))
			candidate_add(&c, j, hot, false);
	}
	for (int xid = 1; xid <= XID_MAX; xid++)
		for (int j = 0; j < JOBS && c.len < limit; j++) {
			struct hot hot = row_seen(s, me, j);

			if (hot.is == READY && hot.xid == xid && in_window(&p->p, j, hot.xid))
				candidate_add(&c, j, hot, true);
		}
	return c;
}

/* `drawn` is a mask of candidates. */
static void claim_draws(struct state *s, int me, const struct candidates *c, int drawn, int wanted)
{
	struct process *p = &s->process[me];
	int window = p->want != 0, left = wanted;

	memset(p->p.rest, 0, sizeof(p->p.rest));
	for (int i = 0; i < c->len; i++) {
		if (c->next[i]) {
			p->p.xid = c->xid[i];
			p->p.id = c->job[i];
		}
		if (drawn >> i & 1) {
			p->taken[window] |= (uint8_t)(1 << c->job[i]);
			p->alone |= (uint8_t)(c->suspect[i] << c->job[i]);
			left--;
		} else {
			p->p.rest[c->job[i]] = c->xid[i];
		}
	}
	p->pc = WRITE;
	if (left > 0) {
		if (!p->fresh) {
			if (!cur_first)
				p->snap = p->p.cur;
			p->want = (uint8_t)left;
			p->pc = USED;
		}
		p->p.done = p->p.cur;
		p->p.xid = p->p.id = p->p.open = 0;
	}
}

static int free_leases(const struct state *s)
{
	int n = config->leases;

	for (int l = 0; l < LEASES; l++)
		n -= s->db.lease[l].ids != 0;
	return n;
}

static void lease_insert(struct state *s, int me, uint8_t ids, struct snapshot snap, bool alone, int receipt)
{
	int l = 0, used = 0;

	if (!ids)
		return;
	for (int i = 0; i < LEASES; i++)
		if (s->db.lease[i].ids)
			used |= 1 << s->db.lease[i].receipt;
	while (s->db.lease[l].ids)
		l++;
	if (receipt == NONE)
		for (receipt = 0; used >> receipt & 1; receipt++)
			;
	s->db.lease[l] = (struct lease){ .ids = ids, .snap = snap, .alone = alone, .receipt = (uint8_t)receipt };
	s->process[me].held |= (uint8_t)(1 << l);
}

static void leases_insert(struct state *s, int me)
{
	struct process *p = &s->process[me];
	uint8_t taken = p->taken[0] | p->taken[1];
	bool one = cur_first || broken == ONE_LEASE_FOR_BOTH;

	for (int window = 0; window < 2; window++) {
		struct snapshot snap = cur_first || (window == 0 && p->want && !one) ? p->snap : p->p.cur;
		uint8_t ids = !one ? p->taken[window] : window == 0 ? taken : 0;

		for (int j = 0; j < JOBS; j++)
			if (ids & p->alone & 1 << j)
				lease_insert(s, me, (uint8_t)(1 << j), snap, true, NONE);
		lease_insert(s, me, ids & (uint8_t)~p->alone, snap, false, NONE);
	}
	p->todo |= taken;
}

static int leases_needed(const struct process *p)
{
	int n = 0;

	for (int window = 0; window < 2; window++) {
		n += __builtin_popcount(p->taken[window] & p->alone);
		n += (p->taken[window] & ~p->alone) != 0;
	}
	return n;
}

static void place_insert(struct state *s, int me)
{
	struct place next = s->process[me].p;

	next.seq = 2;
	for (int j = 0; j < JOBS; j++) {
		const struct hot *hot = &s->db.hot[j];
		bool was = hot->is == READY && !beyond(&s->db.place, j, hot) && !in_rest(&s->db.place, j, hot);

		require(!was || (!beyond(&next, j, hot) && !in_rest(&next, j, hot)), "2: a place went backward");
	}
	require(s->process[me].current || broken == FIRST_NO_KEY || broken == FIRST_UNREAD,
		"2: a place was moved by who did not hold its lock");
	s->db.place = next;
	for (int i = 0; i < WORKERS; i++)
		if (i != me)
			s->process[i].current = 0;
}

static bool place_changed(const struct state *s, const struct process *p)
{
	const struct place *now = &s->db.place;

	return memcmp(&p->p.done, &now->done, sizeof(now->done)) != 0 ||
	       memcmp(&p->p.cur, &now->cur, sizeof(now->cur)) != 0 || p->p.xid != now->xid || p->p.id != now->id ||
	       memcmp(p->p.rest, now->rest, sizeof(now->rest)) != 0;
}

static void claim_commits(struct state *s, int me)
{
	struct process *p = &s->process[me];
	bool synchronous = p->alone != 0;

	if (leases_needed(p) > free_leases(s)) {
		claim_gives_up(s, me);
		return;
	}
	if (!p->taken[0] && !p->taken[1] && !place_changed(s, p)) {
		claim_gives_up(s, me);
		return;
	}
	/* The key of the place is the last arbiter. */
	if (!p->current && broken != FIRST_NO_KEY && broken != FIRST_UNREAD) {
		claim_gives_up(s, me);
		return;
	}
	commit_begins(s, synchronous);
	place_insert(s, me);
	if (broken == TWO_COMMITS) {
		p->pc = WRITE_LEASE;
		return;
	}
	leases_insert(s, me);
	if (p->ends | p->readies) {
		uint8_t job = p->job;

		outcome_told(s, me);
		commit_ends(s, me, synchronous);
		settle(s, me, job);
		return;
	}
	commit_ends(s, me, synchronous);
}

static void claim_commits_leases(struct state *s, int me)
{
	commit_begins(s, false);
	leases_insert(s, me);
	commit_ends(s, me, false);
}

/* ---- outcomes */

static int lease_of(const struct state *s, int me, int job)
{
	int best = NONE;

	for (int l = 0; l < LEASES; l++)
		if ((s->process[me].held >> l & 1) && (s->db.lease[l].ids >> job & 1) &&
		    (best == NONE || (!s->db.lease[l].expired && lease_holds(&s->db.lease[l], job, &s->db.hot[job]))))
			best = l;
	return best;
}

/* A worker's lease goes with the last job of it. */
static void settle(struct state *s, int me, int job)
{
	struct process *p = &s->process[me];

	p->todo &= (uint8_t) ~(1 << job);
	for (int l = 0; l < LEASES; l++)
		if ((p->held >> l & 1) && !(s->db.lease[l].ids & p->todo))
			lease_gone(s, l);
}

/* Too late: what it still holds is for who finds it lost. Deleting it would strand its jobs. */
static void forget(struct state *s, int me, int lease)
{
	struct process *p = &s->process[me];
	uint8_t ids = 0;

	p->held &= (uint8_t) ~(1 << lease);
	for (int l = 0; l < LEASES; l++)
		if (p->held >> l & 1)
			ids |= s->db.lease[l].ids;
	p->todo &= ids;
}

static bool settle_waits(const struct state *s, int me, int job)
{
	const struct process *p = &s->process[me];

	for (int l = 0; l < LEASES; l++)
		if ((p->held >> l & 1) && !(s->db.lease[l].ids & p->todo & ~(1 << job)) && lease_locked(s, l, me))
			return true;
	return false;
}

/* False: nothing to do, or has to wait. */
static bool record_begins(struct state *s, int me, int job, bool again)
{
	struct process *p = &s->process[me];
	int l = lease_of(s, me, job);

	if (l == NONE)
		return false;
	if (s->db.lease[l].expired && broken != EXPIRED_DELETED) {
		forget(s, me, l);
		return true;
	}
	if (s->db.lease[l].expired || !lease_holds(&s->db.lease[l], job, &s->db.hot[job])) {
		if (settle_waits(s, me, job))
			return false;
		settle(s, me, job);
		flush(s);
		return true;
	}
	p->snap = s->db.lease[l].snap;
	p->lease = (uint8_t)l;
	p->job = (uint8_t)job;
	p->again = again;
	p->pc = RECORD_SEEN;
	return true;
}

/* False: has to wait. */
static bool record_locks(struct state *s, int me)
{
	struct process *p = &s->process[me];
	struct hot *hot = &s->db.hot[p->job];

	if (row_locked(s, p->job, me))
		return false;
	/* The row is the arbiter: one that went or was made ready again meanwhile is no longer this lease's. */
	if (hot->is != READY || (broken != RECORD_UNCHECKED && broken != LEASE_BY_ID && !visible(hot->xid, p->snap))) {
		int job = p->job;

		if (settle_waits(s, me, job))
			return false;
		transaction_over(s, me);
		settle(s, me, job);
		flush(s);
		return true;
	}
	require(holders(s, p->job, false) > 0 || s->by_hand,
		"3: an outcome was accepted without a lease that holds the job");
	take_xid(s, me);
	if (p->again)
		p->readies = (uint8_t)(1 << p->job);
	else
		p->ends = (uint8_t)(1 << p->job);
	p->pc = RECORDED;
	if (broken == RECORD_WITH_CLAIM) {
		memset(&p->snap, 0, sizeof(p->snap));
		claim_begins(s, me);
	}
	return true;
}

/* False: has to wait. */
static bool record_commits(struct state *s, int me)
{
	struct process *p = &s->process[me];
	int job = p->job;

	require(holders(s, job, false) > 0 || s->by_hand,
		"3: an outcome was accepted without a lease that holds the job");
	if (settle_waits(s, me, job))
		return false;
	outcome_told(s, me);
	commit_ends(s, me, true);
	settle(s, me, job);
	return true;
}

static bool extended(const struct state *s, int lease, int job)
{
	for (int l = 0; l < LEASES; l++)
		if (l != lease && s->db.lease[l].receipt == s->db.lease[lease].receipt && !s->db.lease[l].expired &&
		    lease_holds(&s->db.lease[l], job, &s->db.hot[job]))
			return true;
	return false;
}

static bool extend_begins(struct state *s, int me, int job)
{
	struct process *p = &s->process[me];
	int l = lease_of(s, me, job);

	if (l == NONE || s->db.lease[l].expired || !lease_holds(&s->db.lease[l], job, &s->db.hot[job]) ||
	    extended(s, l, job))
		return false;
	p->snap = s->db.lease[l].snap;
	p->lease = (uint8_t)l;
	p->again = s->db.lease[l].receipt;
	p->keep = s->db.lease[l].alone;
	p->job = (uint8_t)job;
	p->pc = EXTEND_SEEN;
	return true;
}

static void extend_commits(struct state *s, int me)
{
	struct process *p = &s->process[me];

	/* Where the first lease went meanwhile, this one would hold nothing: its jobs have another xid. */
	if (p->lease == NONE || free_leases(s) < 1) {
		transaction_over(s, me);
		return;
	}
	lease_insert(s, me, (uint8_t)(1 << p->job), p->snap, p->keep, p->again);
	commit_ends(s, me, true);
}

/* ---- lost leases */

static void lost_begins(struct state *s, int me, int lease)
{
	struct process *p = &s->process[me];

	take_xid(s, me);
	p->lease = (uint8_t)lease;
	p->pc = LOST_LOCKED_LEASE;
}

/* `dead`: the attempt of a lease that was alone was the last one. */
static void lost_writes(struct state *s, int me, bool dead)
{
	struct process *p = &s->process[me];
	const struct lease *lease = &s->db.lease[p->lease];

	for (int j = 0; j < JOBS; j++) {
		const struct hot *hot = &s->db.hot[j];
		bool holds = lease_holds(lease, j, hot) ||
			     (broken == LOST_BY_ID && (lease->ids >> j & 1) && hot->is == READY);

		if (!holds || (extended(s, p->lease, j) && broken != LOST_EXTENDED))
			continue;
		if (row_locked(s, j, me)) {
			p->keep = broken != LOST_LOCKED;
			continue;
		}
		require(!holders(s, j, true), "a job was taken from a live lease");
		if (dead)
			p->ends |= (uint8_t)(1 << j);
		else
			p->readies |= (uint8_t)(1 << j);
	}
	p->suspects = p->readies;
	p->pc = LOST_WRITTEN;
}

static void lost_commits(struct state *s, int me)
{
	int lease = s->process[me].lease;
	bool keep = s->process[me].keep;

	commit_ends(s, me, true);
	if (!keep)
		lease_gone(s, lease);
}

/* ---- the operator */

static bool cancel_begins(struct state *s, int job)
{
	struct process *p = &s->process[OPERATOR];

	if (s->db.hot[job].is != READY || row_locked(s, job, OPERATOR))
		return false;
	take_xid(s, OPERATOR);
	p->ends = (uint8_t)(1 << job);
	p->pc = OPEN;
	return true;
}

static bool retry_by_hand_begins(struct state *s, int job)
{
	struct process *p = &s->process[OPERATOR];

	if (s->db.hot[job].is != ENDED || row_locked(s, job, OPERATOR))
		return false;
	take_xid(s, OPERATOR);
	p->readies = (uint8_t)(1 << job);
	p->again = 1;
	p->pc = OPEN;
	return true;
}

static bool stranded(const struct state *s, int job)
{
	const struct hot *hot = &s->db.hot[job];

	return hot->is == READY && !beyond(&s->db.place, job, hot) && holders(s, job, false) == 0 &&
	       (broken == REPAIR_NO_REST || !in_rest(&s->db.place, job, hot));
}

static bool repair_begins(struct state *s)
{
	struct process *p = &s->process[OPERATOR];
	uint8_t found = 0;

	for (int j = 0; j < JOBS; j++)
		if (stranded(s, j))
			found |= (uint8_t)(1 << j);
	if (!found)
		return false;
	p->todo = found;
	p->pc = REPAIR_SEEN;
	return true;
}

static bool repair_writes(struct state *s)
{
	struct process *p = &s->process[OPERATOR];

	for (int j = 0; j < JOBS; j++) {
		if (!(p->todo >> j & 1))
			continue;
		if (row_locked(s, j, OPERATOR))
			return false;
		require(places_of(s, j) == 0, "repair touched a job that was not stranded");
	}
	take_xid(s, OPERATOR);
	p->readies = p->todo;
	p->todo = 0;
	p->pc = OPEN;
	return true;
}

static void operator_commits(struct state *s)
{
	struct process *p = &s->process[OPERATOR];

	/* Another life of the job. */
	if (p->again)
		s->finals &= (uint8_t)~p->readies;
	commit_ends(s, OPERATOR, true);
}

static void lease_deleted_by_hand(struct state *s, int lease)
{
	uint8_t held = 0;

	for (int j = 0; j < JOBS; j++)
		if (lease_holds(&s->db.lease[lease], j, &s->db.hot[j]))
			held |= (uint8_t)(1 << j);
	lease_gone(s, lease);
	s->stray |= held;
	s->by_hand++;
	flush(s);
}

/* ---- deaths */

static void worker_dies(struct state *s, int me)
{
	s->process[me].held = s->process[me].todo = 0;
	transaction_over(s, me);
}

static void server_crashes(struct state *s)
{
	if (s->dirty)
		s->db = s->disk;
	flush(s);
	for (int i = 0; i < PROCESSES; i++)
		if (s->process[i].pc != IDLE && s->process[i].pc != DONE)
			rollback(s, i);
	s->process[OPERATOR].todo = 0;
	for (int i = 0; i < WORKERS; i++) {
		struct process *p = &s->process[i];
		uint8_t ids = 0;

		for (int l = 0; l < LEASES; l++) {
			if (!s->db.lease[l].ids)
				p->held &= (uint8_t) ~(1 << l);
			if (p->held >> l & 1)
				ids |= s->db.lease[l].ids;
		}
		p->todo &= ids;
	}
}

/* ---- folding */

static uint32_t xids_of_rows(const struct database *db, int ids)
{
	uint32_t xids = 0;

	for (int j = 0; j < JOBS; j++)
		if ((ids >> j & 1) && db->hot[j].is == READY)
			xids |= 1U << db->hot[j].xid;
	return xids;
}

/* What a snapshot says of these xids is all that is kept of it: the others count as in progress. */
static void fold_snapshot(struct snapshot *snap, uint32_t xids)
{
	uint32_t seen_xids = ((1U << snap->xmax) - 1) & ~(uint32_t)snap->xip & xids & ~1U;

	snap->xmax = seen_xids ? (uint16_t)(32 - __builtin_clz(seen_xids)) : 0;
	snap->xip = seen_xids ? (uint16_t)(((1U << snap->xmax) - 1) & ~seen_xids & ~1U) : 0;
}

/* Nothing can come to lie behind a place, so of (xid, id) only what it tells of the rows that are there is kept. */
static void fold_place(struct place *p, const struct hot *hot, uint32_t xids)
{
	uint8_t xid = 0, id = 0;

	for (uint8_t j = 0; j < JOBS; j++) {
		uint8_t x = hot[j].xid;

		if (p->rest[j] && broken != REST_BY_ID && (hot[j].is != READY || x != p->rest[j]))
			p->rest[j] = 0;
		if (hot[j].is == READY && visible(x, p->cur) && !visible(x, p->done) && passed(p, j, x) &&
		    (x > xid || (x == xid && j > id))) {
			xid = x;
			id = j;
		}
	}
	p->xid = xid;
	p->id = id;
	fold_snapshot(&p->done, xids);
	fold_snapshot(&p->cur, xids);
}

static void fold_database(struct database *db)
{
	fold_place(&db->place, db->hot, xids_of_rows(db, ~0));
	for (int l = 0; l < LEASES; l++)
		if (db->lease[l].ids)
			fold_snapshot(&db->lease[l].snap, xids_of_rows(db, db->lease[l].ids));
}

static bool plain_claim(const struct process *p)
{
	return p->pc >= LOCKED && p->pc <= WRITE_LEASE && !(p->ends | p->readies);
}

static void fold_process(struct state *s, struct process *p)
{
	uint32_t xids = xids_of_rows(&s->db, ~0);

	if (plain_claim(p))
		p->xid = 0;
	else if (p->xid)
		xids |= 1U << p->xid;
	for (int j = 0; j < JOBS; j++)
		if (p->rows[j])
			xids |= 1U << p->rows[j];
	if (broken == RECORD_WITH_CLAIM || broken == ROWS_EARLY) {
		fold_snapshot(&p->p.done, xids);
		fold_snapshot(&p->p.cur, xids);
	} else {
		fold_place(&p->p, s->db.hot, xids);
	}
	fold_snapshot(&p->snap, xids);
}

static uint32_t kept;             /* the xids that are left, */
static uint8_t rank[XID_MAX + 2]; /* and of each xid the rank of it, or of the next one that is left */

static void rank_snapshot(struct snapshot *snap)
{
	struct snapshot to = { rank[snap->xmax], 0 };

	for (uint32_t left = snap->xip & kept; left; left &= left - 1)
		to.xip |= (uint16_t)(1 << rank[__builtin_ctz(left)]);
	*snap = to;
}

static void rank_place(struct place *p)
{
	rank_snapshot(&p->done);
	rank_snapshot(&p->cur);
	p->xid = rank[p->xid];
	for (int j = 0; j < JOBS; j++)
		p->rest[j] = rank[p->rest[j]];
}

static void rank_database(struct database *db)
{
	rank_place(&db->place);
	for (int l = 0; l < LEASES; l++)
		rank_snapshot(&db->lease[l].snap);
	for (int j = 0; j < JOBS; j++)
		db->hot[j].xid = rank[db->hot[j].xid];
}

static uint32_t xids_of_place(const struct place *p)
{
	uint32_t xids = 1U << p->xid;

	for (int j = 0; j < JOBS; j++)
		xids |= 1U << p->rest[j];
	return xids;
}

/* Xids become ranks among those that are left. */
static void rank_xids(struct state *s)
{
	uint32_t xids = xids_of_rows(&s->db, ~0) | xids_of_rows(&s->disk, ~0) | xids_of_place(&s->db.place) |
			xids_of_place(&s->disk.place);
	uint8_t n = 0;

	for (int i = 0; i < PROCESSES; i++) {
		const struct process *p = &s->process[i];

		xids |= 1U << p->xid | xids_of_place(&p->p);
		for (int j = 0; j < JOBS; j++)
			xids |= 1U << p->rows[j];
	}
	kept = xids;
	rank[0] = 0;
	for (int x = 1; x <= XID_MAX; x++) {
		rank[x] = (uint8_t)(n + 1);
		n += xids >> x & 1;
	}
	rank_database(&s->db);
	rank_database(&s->disk);
	for (int i = 0; i < PROCESSES; i++) {
		struct process *p = &s->process[i];

		rank_place(&p->p);
		rank_snapshot(&p->snap);
		p->xid = rank[p->xid];
		for (int j = 0; j < JOBS; j++)
			p->rows[j] = rank[p->rows[j]];
	}
	s->next_xid = (uint8_t)(n + 1);
	/* How far xids completed can be told only by the xid of who takes a snapshot, and on a row. */
	s->last_xid = broken == RECORD_WITH_CLAIM ? (uint8_t)(rank[s->last_xid + 1] - 1) : n;
}

static int compare_workers(const struct process *a, const struct process *b)
{
	struct process x = *a, y = *b;

	x.held = y.held = x.lease = y.lease = 0;
	return memcmp(&x, &y, sizeof(x));
}

struct lease_key {
	struct lease db, disk;
	uint8_t held, locked, slot, zero;
};

static bool uses_lease(const struct process *p)
{
	return p->pc >= RECORD_SEEN && p->pc <= LOST_WRITTEN && p->lease != NONE;
}

static int compare_leases(const void *a, const void *b)
{
	struct lease_key x = *(const struct lease_key *)a, y = *(const struct lease_key *)b;
	int order;

	x.db.receipt = y.db.receipt = x.disk.receipt = y.disk.receipt = 0;
	order = memcmp(&x, &y, offsetof(struct lease_key, slot));
	return order ? -order : x.slot - y.slot;
}

static void sort_leases(struct state *s)
{
	struct lease_key keys[LEASES];
	uint8_t slot[LEASES], receipt[2 * LEASES + 2], receipts = 0;

	memset(keys, 0, sizeof(keys));
	for (int l = 0; l < LEASES; l++) {
		keys[l] = (struct lease_key){ .db = s->db.lease[l], .disk = s->disk.lease[l], .slot = (uint8_t)l };
		for (int i = 0; i < WORKERS; i++) {
			keys[l].held |= (uint8_t)((s->process[i].held >> l & 1) << i);
			if (uses_lease(&s->process[i]) && s->process[i].lease == l)
				keys[l].locked |= (uint8_t)(1 << i);
		}
	}
	qsort(keys, LEASES, sizeof(keys[0]), compare_leases);
	memset(receipt, NONE, sizeof(receipt));
	for (int l = 0; l < LEASES; l++) {
		slot[keys[l].slot] = (uint8_t)l;
		s->db.lease[l] = keys[l].db;
		s->disk.lease[l] = keys[l].disk;
		if (keys[l].db.ids && receipt[keys[l].db.receipt] == NONE)
			receipt[keys[l].db.receipt] = receipts++;
	}
	for (int l = 0; l < LEASES; l++) {
		struct lease *pair[2] = { &s->db.lease[l], &s->disk.lease[l] };

		for (int i = 0; i < 2; i++) {
			if (!pair[i]->ids)
				continue;
			if (receipt[pair[i]->receipt] == NONE)
				receipt[pair[i]->receipt] = receipts++;
			pair[i]->receipt = receipt[pair[i]->receipt];
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		struct process *p = &s->process[i];
		uint8_t held = 0;

		for (int l = 0; l < LEASES; l++)
			held |= (uint8_t)((p->held >> l & 1) << slot[l]);
		p->held = held;
		if (uses_lease(p))
			p->lease = slot[p->lease];
		if (p->pc == EXTEND_SEEN)
			p->again = p->lease == NONE ? 0 : receipt[p->again];
	}
}

static void fold(struct state *s)
{
	for (int i = 0; i < PROCESSES; i++)
		fold_process(s, &s->process[i]);
	fold_database(&s->db);
	fold_database(&s->disk);
	rank_xids(s);
	for (int i = 0; i + 1 < WORKERS; i++)
		if (compare_workers(&s->process[i], &s->process[i + 1]) > 0) {
			struct process p = s->process[i];

			s->process[i] = s->process[i + 1];
			s->process[i + 1] = p;
		}
	sort_leases(s);
	if (s->dirty && memcmp(&s->db, &s->disk, sizeof(s->db)) == 0)
		flush(s);
}

/* ---- what must hold in every state */

static void check_state(const struct state *s)
{
	for (int j = 0; j < JOBS; j++) {
		const struct hot *hot = &s->db.hot[j];
		int places = places_of(s, j);

		if (hot->is != READY)
			continue;
		require(places <= 1, "1: a job lies in two of: beyond the place, in rest, in a lease");
		require(places >= 1 || (s->stray >> j & 1),
			"1: a job lies nowhere: not beyond the place, not in rest, in no lease");
		require(holders(s, j, true) <= 1, "3: two live leases hold one job");
		require(!(s->finals >> j & 1), "3: a job whose final outcome was accepted is ready again");
	}
	require(s->next_xid <= XID_MAX, "the model ran out of xids");
}

/* ---- the states that were seen: packed one behind the other, and found by a table of their numbers */

static struct seen {
	uint8_t *bytes;
	size_t len, size;
	uint64_t *at;   /* of each state: where it lies */
	uint32_t *from; /* the state it was first reached from */
	uint32_t *action;
	uint32_t *table;
	size_t n, room, slots;
	size_t limit;
} seen;

static void *grown(void *p, size_t bytes)
{
	p = realloc(p, bytes);
	if (!p) {
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return p;
}

enum { WORDS = (sizeof(struct state) + 7) / 8, PACKED_MAX = WORDS * 9 };

/* Most of a state is zero: a map of the bytes that are not, word by word, then these. */
static size_t pack(const struct state *s, uint8_t *out)
{
	uint64_t words[WORDS] = { 0 };
	uint8_t *map = out;
	size_t n = WORDS;

	memcpy(words, s, sizeof(*s));
	for (size_t w = 0; w < WORDS; w++) {
		map[w] = 0;
		for (uint64_t left = words[w]; left;) {
			int byte = __builtin_ctzll(left) / 8;

			map[w] |= (uint8_t)(1 << byte);
			out[n++] = (uint8_t)(words[w] >> 8 * byte);
			left &= ~(0xffULL << 8 * byte);
		}
	}
	return n;
}

static void unpack(size_t number, struct state *s)
{
	const uint8_t *map = seen.bytes + seen.at[number], *in = map + WORDS;
	uint64_t words[WORDS] = { 0 };

	for (size_t w = 0; w < WORDS; w++)
		for (unsigned left = map[w]; left; left &= left - 1)
			words[w] |= (uint64_t)*in++ << 8 * __builtin_ctz(left);
	memcpy(s, words, sizeof(*s));
}

static uint64_t hash(const uint8_t *p, size_t len)
{
	uint64_t h = len;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, p + i, len - i < 8 ? len - i : 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15U;
		h ^= h >> 32;
	}
	return h;
}

static void table_grow(void)
{
	seen.slots = seen.slots ? seen.slots * 2 : 1 << 16;
	seen.table = grown(seen.table, seen.slots * sizeof(*seen.table));
	memset(seen.table, 0, seen.slots * sizeof(*seen.table));
	for (size_t i = 0; i < seen.n; i++) {
		size_t len = (i + 1 < seen.n ? seen.at[i + 1] : seen.len) - seen.at[i],
		       slot = hash(seen.bytes + seen.at[i], len) & (seen.slots - 1);

		while (seen.table[slot])
			slot = (slot + 1) & (seen.slots - 1);
		seen.table[slot] = (uint32_t)(i + 1);
	}
}

/* True: it is new. */
static bool seen_add(const struct state *s, uint32_t from, uint32_t action)
{
	uint8_t packed[PACKED_MAX];
	size_t len = pack(s, packed), slot;

	if (seen.n * 2 >= seen.slots)
		table_grow();
	for (slot = hash(packed, len) & (seen.slots - 1); seen.table[slot]; slot = (slot + 1) & (seen.slots - 1)) {
		size_t i = seen.table[slot] - 1;

		if ((i + 1 < seen.n ? seen.at[i + 1] : seen.len) - seen.at[i] == len &&
		    memcmp(seen.bytes + seen.at[i], packed, len) == 0)
			return false;
	}
	if (seen.n == seen.room) {
		seen.room = seen.room ? seen.room * 2 : 1 << 16;
		seen.at = grown(seen.at, seen.room * sizeof(*seen.at));
		seen.from = grown(seen.from, seen.room * sizeof(*seen.from));
		seen.action = grown(seen.action, seen.room * sizeof(*seen.action));
	}
	if (seen.len + len > seen.size) {
		seen.size = seen.size ? seen.size * 2 : 1 << 20;
		seen.bytes = grown(seen.bytes, seen.size);
	}
	memcpy(seen.bytes + seen.len, packed, len);
	seen.at[seen.n] = seen.len;
	seen.from[seen.n] = from;
	seen.action[seen.n] = action;
	seen.len += len;
	seen.table[slot] = (uint32_t)++seen.n;
	return true;
}

/* ---- what can happen next */

/* clang-format off */
#define ACTIONS(X) \
	X(BEGIN, "begins, takes an xid, writes") \
	X(COMMIT, "commits") \
	X(ROLLBACK, "rolls back") \
	X(CLAIM, "claim: the statement that locks the lane begins") \
	X(CLAIM_LOCK, "claim: locks the lane and reads the place, or finds it busy") \
	X(CLAIM_CUR, "claim: takes cur") \
	X(CLAIM_ROWS, "claim: reads rows") \
	X(CLAIM_COMMIT, "claim: writes lease and place, commits") \
	X(CLAIM_LEASE, "claim: commits its lease") \
	X(RECORD, "records: the statement begins") \
	X(RECORD_LOCK, "records: has the row's lock") \
	X(RECORD_COMMIT, "records: commits") \
	X(EXTEND_, "extends: the statement begins") \
	X(EXTEND_COMMIT, "extends: commits") \
	X(LOST, "lost: locks an expired lease") \
	X(LOST_ROWS, "lost: makes its jobs ready") \
	X(LOST_COMMIT, "lost: commits") \
	X(DIE, "dies") \
	X(EXPIRE, "time: a lease expires") \
	X(FLUSH, "server: the log is flushed") \
	X(SERVER_CRASH, "server: crashes") \
	X(CANCEL, "cancels") \
	X(RETRY, "retries by hand") \
	X(REPAIR_, "repair: looks") \
	X(REPAIR_ROWS, "repair: makes stranded jobs ready") \
	X(DELETE_LEASE, "deletes a lease by hand")
/* clang-format on */

#define NAME(name, text) name,
enum action { ACTIONS(NAME) };
#undef NAME
#define TEXT(name, text) text,
static const char *const action_texts[] = { ACTIONS(TEXT) };
#undef TEXT

static struct {
	const struct state *from;
	uint32_t number;
	uint64_t steps;
	int moves; /* of somebody in the midst of something who goes on */
} now;

static void report_and_exit(const struct state *last, enum action action, int me, int argument);

static void reached(struct state *to, enum action action, int me, int argument)
{
	now.steps++;
	if (!violation)
		check_state(to);
	if (violation)
		report_and_exit(to, action, me, argument);
	fold(to);
	seen_add(to, now.number, (uint32_t)(action | me << 8 | argument << 16));
}

/* Runs `step` in a copy of the state, and keeps what came of it unless step says that it has to wait. */
#define TRY(action, me, argument, step) \
	do { \
		struct state next = *now.from, *s = &next; \
		if (step) { \
			now.moves += (action) != ROLLBACK && (action) != DIE; \
			reached(s, action, me, argument); \
		} \
	} while (0)
#define DO(action, me, argument, step) TRY(action, me, argument, ((step), true))

static void claim_rows(int me)
{
	const struct process *p = &now.from->process[me];

	for (int n = p->want ? p->want : 1; n <= (p->want ? p->want : 2); n++) {
		struct candidates c = claim_reads(now.from, me, n > WINDOW ? n : WINDOW);
		int take = c.len < n ? c.len : n;

		for (int drawn = 0; drawn < 1 << c.len; drawn++)
			if (__builtin_popcount((unsigned)drawn) == take)
				DO(CLAIM_ROWS, me, n | drawn << 4, claim_draws(s, me, &c, drawn, n));
	}
}

static void worker_idle(int me)
{
	const struct state *at = now.from;
	const struct process *p = &at->process[me];

	for (int j = 0; j < JOBS; j++) {
		if (!(p->todo >> j & 1))
			continue;
		TRY(RECORD, me, j, record_begins(s, me, j, false));
		if (config->features & AGAIN)
			TRY(RECORD, me, j | 16, record_begins(s, me, j, true));
		if (config->features & EXTEND)
			TRY(EXTEND_, me, j, extend_begins(s, me, j));
	}
	if (p->held)
		return;
	DO(CLAIM, me, 0, claim_begins(s, me));
	for (int l = 0; l < LEASES; l++)
		if (at->db.lease[l].ids && at->db.lease[l].expired && !lease_locked(at, l, me))
			DO(LOST, me, l, lost_begins(s, me, l));
}

static void worker_goes_on(int me)
{
	const struct process *p = &now.from->process[me];

	switch (p->pc) {
	case IDLE:
		worker_idle(me);
		break;
	case SEEN:
		TRY(CLAIM_LOCK, me, 0, claim_locks(s, me));
		break;
	case LOCKED:
	case USED:
		DO(CLAIM_CUR, me, 0, claim_takes_cur(s, me));
		break;
	case CUR:
		claim_rows(me);
		break;
	case WRITE:
		DO(CLAIM_COMMIT, me, 0, claim_commits(s, me));
		break;
	case WRITE_LEASE:
		DO(CLAIM_LEASE, me, 0, claim_commits_leases(s, me));
		break;
	case RECORD_SEEN:
		TRY(RECORD_LOCK, me, p->job, record_locks(s, me));
		break;
	case RECORDED:
		TRY(RECORD_COMMIT, me, p->job, record_commits(s, me));
		break;
	case EXTEND_SEEN:
		DO(EXTEND_COMMIT, me, p->job, extend_commits(s, me));
		break;
	case LOST_LOCKED_LEASE:
		DO(LOST_ROWS, me, p->lease, lost_writes(s, me, false));
		if (now.from->db.lease[p->lease].alone)
			DO(LOST_ROWS, me, p->lease | 16, lost_writes(s, me, true));
		break;
	case LOST_WRITTEN:
		DO(LOST_COMMIT, me, p->lease, lost_commits(s, me));
		break;
	default:
		break;
	}
	if (p->pc != IDLE || p->held)
		DO(DIE, me, 0, worker_dies(s, me));
}

static void producer_goes_on(int me)
{
	switch (now.from->process[me].pc) {
	case IDLE:
		DO(BEGIN, me, 0, producer_begins(s, me));
		break;
	case OPEN:
		DO(COMMIT, me, 0, producer_commits(s, me));
		if (config->features & ABORT)
			DO(ROLLBACK, me, 0, rollback(s, me));
		break;
	default:
		break;
	}
}

static void operator_idle(void)
{
	for (int j = 0; j < JOBS && (config->features & BY_HAND); j++) {
		TRY(CANCEL, OPERATOR, j, cancel_begins(s, j));
		TRY(RETRY, OPERATOR, j, retry_by_hand_begins(s, j));
	}
	if (!(config->features & REPAIR))
		return;
	TRY(REPAIR_, OPERATOR, 0, repair_begins(s));
	for (int l = 0; l < LEASES; l++)
		if (now.from->db.lease[l].ids && !now.from->by_hand && !lease_locked(now.from, l, OPERATOR))
			DO(DELETE_LEASE, OPERATOR, l, lease_deleted_by_hand(s, l));
}

static void operator_goes_on(void)
{
	switch (now.from->process[OPERATOR].pc) {
	case IDLE:
		operator_idle();
		break;
	case OPEN:
		DO(COMMIT, OPERATOR, 0, operator_commits(s));
		DO(ROLLBACK, OPERATOR, 0, rollback(s, OPERATOR));
		break;
	case REPAIR_SEEN:
		TRY(REPAIR_ROWS, OPERATOR, 0, repair_writes(s));
		break;
	default:
		break;
	}
}

static void server_goes_on(void)
{
	for (int l = 0; l < LEASES; l++)
		if (now.from->db.lease[l].ids && !now.from->db.lease[l].expired)
			DO(EXPIRE, PROCESSES, l, s->db.lease[l].expired = 1);
	if (now.from->dirty)
		DO(FLUSH, PROCESSES, 0, flush(s));
	if (config->features & CRASH)
		DO(SERVER_CRASH, PROCESSES, 0, server_crashes(s));
}

static bool in_the_midst(const struct process *p)
{
	return p->pc != IDLE && p->pc != DONE;
}

/* ---- from every state the work gets done, if nobody dies any more */

static void records_all(struct state *s, int me)
{
	for (int j = 0; j < JOBS; j++) {
		if (!(s->process[me].todo >> j & 1) || !record_begins(s, me, j, false))
			continue;
		if (s->process[me].pc == RECORD_SEEN)
			record_locks(s, me);
		if (s->process[me].pc == RECORDED)
			record_commits(s, me);
	}
}

static bool lost_all(struct state *s)
{
	bool any = false;

	for (int l = 0; l < LEASES; l++) {
		if (!s->db.lease[l].ids)
			continue;
		s->db.lease[l].expired = 1;
		lost_begins(s, 0, l);
		lost_writes(s, 0, false);
		lost_commits(s, 0);
		any = true;
	}
	return any;
}

static void claim_alone(struct state *s, int n)
{
	struct process *p = &s->process[0];

	claim_begins(s, 0);
	while (p->pc != IDLE)
		switch (p->pc) {
		case SEEN:
			claim_locks(s, 0);
			break;
		case LOCKED:
		case USED:
			claim_takes_cur(s, 0);
			break;
		case CUR: {
			int wanted = p->want ? p->want : n;
			struct candidates c = claim_reads(s, 0, wanted > WINDOW ? wanted : WINDOW);

			claim_draws(s, 0, &c, (1 << (c.len < wanted ? c.len : wanted)) - 1, wanted);
			break;
		}
		case WRITE_LEASE:
			claim_commits_leases(s, 0);
			break;
		default:
			claim_commits(s, 0);
		}
}

static bool any_ready(const struct state *s)
{
	for (int j = 0; j < JOBS; j++)
		if (s->db.hot[j].is == READY)
			return true;
	return false;
}

/* Called where nobody is in the midst of anything. Who holds something records it, leases of the dead expire, and one
 * claim finds
   something as long as anything is ready. */
static void check_progress(const struct state *from, int n)
{
	struct state s = *from;

	for (int i = 0; i < WORKERS; i++)
		records_all(&s, i);
	for (int round = 0; any_ready(&s) && !violation; round++) {
		require(round < 4 * JOBS, "5: work does not come to an end");
		records_all(&s, 0);
		if (lost_all(&s))
			continue;
		if (repair_begins(&s)) {
			repair_writes(&s);
			operator_commits(&s);
		}
		claim_alone(&s, n);
		require(s.process[0].todo || !any_ready(&s),
			"5: a claim, alone, found nothing although a job is ready");
		records_all(&s, 0);
		fold(&s);
	}
}

static void expand(uint32_t number)
{
	struct state at;
	bool midst = false;

	unpack(number, &at);
	now.from = &at;
	now.number = number;
	now.moves = 0;
	for (int i = 0; i < WORKERS; i++)
		worker_goes_on(i);
	for (int i = WORKERS; i < OPERATOR; i++)
		producer_goes_on(i);
	operator_goes_on();
	for (int i = 0; i < PROCESSES; i++)
		midst |= in_the_midst(&at.process[i]);
	require(now.moves > 0 || !midst, "5: everybody waits for somebody");
	server_goes_on();
	if (!midst && broken != RECORD_WITH_CLAIM)
		for (int n = 1; n <= 2; n++)
			check_progress(&at, n);
	if (violation)
		report_and_exit(NULL, 0, 0, 0);
}

/* ---- what is said */

static void print_snapshot(const char *name, struct snapshot snap)
{
	printf("%s=%d:", name, snap.xmax);
	for (int x = 1; x <= XID_MAX; x++)
		if (snap.xip >> x & 1)
			printf("%d,", x);
	printf(" ");
}

static void print_jobs(const char *name, int mask)
{
	if (!mask)
		return;
	printf("%s={", name);
	for (int j = 0; j < JOBS; j++)
		if (mask >> j & 1)
			printf("%c", 'a' + j);
	printf("} ");
}

static void print_place(const struct place *p)
{
	if (!p->seq && !p->open) {
		printf("none ");
		return;
	}
	print_snapshot("done", p->done);
	print_snapshot("cur", p->cur);
	printf("%sat=(%d,%c) ", p->open ? "" : "used up ", p->xid, 'a' + p->id);
	for (int j = 0; j < JOBS; j++)
		if (p->rest[j])
			printf("rest=(%d,%c) ", p->rest[j], 'a' + j);
}

static const char *process_name(int me)
{
	static const char *const names[] = { "worker 1", "worker 2", "producer 1", "producer 2", "operator", "" };

	return names[me];
}

/* Xids are ranks, and workers sorted, anew in each state. */
static void print_state(const struct state *s)
{
	static const char *const pcs[] = { "idle",          "open",           "done",
					   "claim seen",    "claim locked",   "claim cur",
					   "claim used up", "claim to write", "claim lease to write",
					   "record seen",   "recorded",       "extend seen",
					   "lost locked",   "lost written",   "repair seen" };

	printf("       ");
	for (int j = 0; j < JOBS; j++)
		if (s->db.hot[j].is == READY)
			printf("%c: xid %d%s; ", 'a' + j, s->db.hot[j].xid, s->db.hot[j].suspect ? " suspect" : "");
		else if (s->db.hot[j].is == ENDED)
			printf("%c: ended; ", 'a' + j);
	printf("place ");
	print_place(&s->db.place);
	for (int l = 0; l < LEASES; l++) {
		const struct lease *lease = &s->db.lease[l];

		if (!lease->ids)
			continue;
		printf("; lease %d ", l);
		print_jobs("ids", lease->ids);
		print_snapshot("snap", lease->snap);
		printf("receipt %d%s%s", lease->receipt, lease->alone ? " alone" : "",
		       lease->expired ? " expired" : "");
	}
	printf("%s\n", s->dirty ? "; not flushed" : "");
	for (int i = 0; i < PROCESSES; i++) {
		const struct process *p = &s->process[i];

		if (p->pc == IDLE && !p->held)
			continue;
		printf("          %s: %s ", process_name(i), pcs[p->pc]);
		if (p->xid)
			printf("xid %d ", p->xid);
		print_jobs("ends", p->ends);
		print_jobs("makes ready", p->readies);
		print_jobs("todo", p->todo);
		if (p->pc >= CUR && p->pc <= WRITE)
			print_place(&p->p);
		print_jobs("took", p->taken[0]);
		print_jobs("then", p->taken[1]);
		printf("\n");
	}
}

static void print_action(size_t step, enum action action, int me, int argument)
{
	printf("%5zu. %s%s%s", step, process_name(me), *process_name(me) ? " " : "", action_texts[action]);
	if (action == CLAIM_ROWS)
		printf(", wants %d", argument & 15);
	if (action == RECORD)
		printf(": job %c, %s", 'a' + (argument & 15), argument & 16 ? "again" : "for good");
	if (action == CANCEL || action == RETRY || action == EXTEND_)
		printf(" job %c", 'a' + argument);
	printf("\n");
}

/* Of the processor: a busy machine does not make a model larger. */
static double seconds(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

static void report_and_exit(const struct state *last, enum action action, int me, int argument)
{
	static uint32_t path[10000];
	size_t len = 0;
	struct state s;

	for (uint32_t i = now.number; i > 0 && len < sizeof(path) / sizeof(path[0]); i = seen.from[i])
		path[len++] = i;
	for (size_t i = 0; i < len; i++) {
		uint32_t number = path[len - 1 - i], how = seen.action[number];

		print_action(i + 1, (enum action)(how & 0xff), how >> 8 & 0xff, (int)(how >> 16));
		unpack(number, &s);
		print_state(&s);
	}
	if (last) {
		print_action(len + 1, action, me, argument);
		s = *last;
		print_state(&s);
	}
	printf("%s: broken after %zu steps: %s\n", config->name, len + (last != NULL), violation);
	printf("%s: %zu states, %" PRIu64 " steps, %.1f s\n", config->name, seen.n, now.steps, seconds());
	exit(1);
}

static int explore(void)
{
	struct state start;
	size_t depth = 0, level_ends = 1;

	memset(&start, 0, sizeof(start));
	fold(&start);
	seen_add(&start, 0, 0);
	for (size_t i = 0; i < seen.n; i++) {
		if (i == level_ends) {
			level_ends = seen.n;
			depth++;
		}
		if (seen.limit && seen.n > seen.limit) {
			printf("%s: more than %zu states, depth %zu, %.1f s\n", config->name, seen.limit, depth,
			       seconds());
			return 3;
		}
		expand((uint32_t)i);
	}
	printf("%s: %zu states, %" PRIu64 " steps, depth %zu, %zu MiB, %.1f s\n", config->name, seen.n, now.steps,
	       depth, (seen.len + seen.n * 16 + seen.slots * 4) >> 20, seconds());
	return 0;
}

static int list(void)
{
	for (size_t i = 0; i < sizeof(configurations) / sizeof(configurations[0]); i++)
		printf("configuration %s: %s\n", configurations[i].name, configurations[i].what);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		printf("broken %s: %s\n", errors[i].name, errors[i].what);
	return 0;
}

static bool choose(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(configurations) / sizeof(configurations[0]); i++)
		if (strcmp(argv[1], configurations[i].name) == 0)
			config = &configurations[i];
	for (int a = 2; a + 1 < argc; a += 2) {
		if (strcmp(argv[a], "--states") == 0)
			seen.limit = strtoull(argv[a + 1], NULL, 10);
		for (size_t i = 0; strcmp(argv[a], "--broken") == 0 && i < sizeof(errors) / sizeof(errors[0]); i++)
			if (strcmp(argv[a + 1], errors[i].name) == 0)
				broken = errors[i].broken;
		if (strcmp(argv[a], "--sound") == 0 && strcmp(argv[a + 1], "cur-first") == 0)
			cur_first = true;
		if (!broken && !seen.limit && !cur_first)
			return false;
	}
	return config && argc % 2 == 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (!choose(argc, argv)) {
		fprintf(stderr,
			"usage: %s CONFIGURATION [--broken NAME | --sound cur-first] [--states MOST] | --list\n",
			argv[0]);
		return 64;
	}
	return explore();
}
