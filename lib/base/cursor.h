/* SPDX-License-Identifier: MIT */
/*
 * cursor - where in the index of ready jobs a worker starts to look, so that a claim does not walk over what
 * is dead. No database in here: store_cursor.c asks the questions, this file draws the conclusions.
 *
 * A lane is one priority of one queue. Within a lane, index and claim go by (xid, id): xid is the transaction
 * that made the row ready, and whatever makes a row ready again gives it the current one. Rows therefore
 * appear in two places only: behind all that a snapshot could see, or under the xid of a transaction that
 * was in progress for that snapshot. For each lane is kept
 *
 *     live      no row before it was live (ready or claimed) when it was last looked at, but those of holes
 *     ready     nor was any before it ready that nobody had locked, but those of holes; live lies at it or before
 *     holes     transactions that were in progress then, or that have ended since and left live rows before ready. Those that
 *               have ended have a live and a ready place of their own
 *
 * A whole reading takes, for each lane from high to low, the holes whose transaction has ended and everything from
 * live on, leaving out holes that are still open. Between and around the lanes lie the gaps, priorities of
 * which no row is known: they are read whole, and are empty. A queue without a lane is one gap.
 *
 * Most claims begin at ready instead, for one job that is held or locked for long would have everybody walk over all that dies
 * behind it. They miss no ready job but those that were claimed or locked before it and have become free where they were: a lease that
 * ended, a transaction that was rolled back.
 *
 * What is remembered is true for the server it was learnt from: it is forgotten with the connection, when the
 * server has been started again or its transaction ids lie behind (a standby was promoted, behind a pooler),
 * and, as a net below all this, after CURSOR_AGE_MAX_NS. As long as it is true for one run it is so for all: whose start
 * was slow saves it for the next (store_cursor.c).
 */
#ifndef CURSOR_H
#define CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CURSOR_LANES_MAX 64
#define CURSOR_HOLES_MAX 64
#define CURSOR_AGE_MAX_NS UINT64_C(300000000000)

#define CURSOR_PRIORITY_MAX 32767
#define CURSOR_PRIORITY_MIN (-32768)
#define CURSOR_XID_MAX UINT64_MAX

/* In a lane. */
struct cursor_place {
	uint64_t xid;
	int64_t id;
};

struct cursor_hole {
	uint64_t xid;
	int64_t live_id, ready_id; /* where it begins, as a lane; INT64_MIN while it is in progress */
};

struct cursor_lane {
	char *queue;
	int priority;
	struct cursor_place live, ready;
	struct cursor_hole hole[CURSOR_HOLES_MAX]; /* ascending */
	size_t holes;
};

struct cursor {
	struct cursor_lane lane[CURSOR_LANES_MAX]; /* by queue, then priority from high to low */
	size_t lanes;
	int64_t server;    /* start of the server it was learnt from; 0: nothing learnt yet */
	uint64_t since_ns; /* when that was; clock_ns() */
};

/* A part of the index of ready jobs. One priority, or a gap of several. */
struct cursor_segment {
	int lane;                  /* index; -1: a gap */
	const char *queue;         /* borrowed from the cursor */
	int high, low;             /* priorities */
	struct cursor_place from;  /* one priority only: rows from here ... */
	uint64_t until_xid;        /* ... to before this transaction */
	struct cursor_place ready; /* from or behind it: where the first ready row is looked for */
	uint64_t hole;             /* to be read only when this transaction has ended; 0: always */
};

/* What was found there, in the snapshot of the look. */
struct cursor_found {
	bool ended; /* the transaction of the hole has ended */
	bool live;  /* the segment has a live row; the first one: */
	int priority;
	struct cursor_place first;
	bool has_ready; /* and a ready one that nobody has locked, not before segment.ready; not asked for in a gap */
	struct cursor_place first_ready;
};

/* All lanes and gaps in the order they are to be read, the whole or from what is ready. Returns their number, 0 without a lane;
 * *segments is for free(), and NULL when out of memory (then there is no cursor for this time: returns 0). */
size_t cursor_segments(const struct cursor *cursor, bool whole, struct cursor_segment **segments);

/*
 * Learn from a look: found[i] belongs to segments[i], the whole as cursor_segments() gave it; ready: ready rows were looked for
 * too; xip are the transactions in progress, ascending, xmax the first one not yet begun, server when the server was started.
 */
void cursor_learn(struct cursor *cursor, const struct cursor_segment *segments, const struct cursor_found *found, size_t n, bool ready,
		  const uint64_t *xip, size_t xip_len, uint64_t xmax, int64_t server, uint64_t now_ns);

/* A job of this lane has been met: from now on it has a position of its own. */
void cursor_meet(struct cursor *cursor, const char *queue, int priority);

/* What an earlier run has learnt of one, from a server that is still the same; server and since_ns as in struct cursor. Of
 * *known queue and ready are not read. */
void cursor_recall(struct cursor *cursor, const char *queue, const struct cursor_lane *known, int64_t server, uint64_t since_ns);

void cursor_forget(struct cursor *cursor);
void cursor_forget_when_old(struct cursor *cursor, uint64_t now_ns);

#endif
