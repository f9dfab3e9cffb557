/* SPDX-License-Identifier: MIT */
/*
 * cursor - where in the index of ready jobs a worker starts to look, so that a claim does not walk over what
 * is dead. No database in here: store_cycle.c asks the questions, this file draws the conclusions.
 *
 * A lane is one priority of one queue. Within a lane, index and claim go by (xid, id): xid is the transaction
 * that made the row ready, and whatever makes a row ready again gives it the current one. Rows therefore
 * appear in two places only: behind all that a snapshot could see, or under the xid of a transaction that
 * was in progress for that snapshot. For each lane is kept
 *
 *     position  no row before it was live (ready or claimed) when it was last looked at, but those of
 *     holes     transactions that were in progress then, or that have ended since and left live rows
 *
 * and a claim reads, for each lane from high to low, the holes whose transaction has ended and everything from
 * the position on, leaving out holes that are still open. Between and around the lanes lie the gaps, priorities of
 * which no row is known: they are read whole, and are empty. A queue without a lane is one gap.
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

struct cursor_lane {
	char *queue;
	int priority;
	uint64_t xid; /* the position */
	int64_t id;
	uint64_t hole[CURSOR_HOLES_MAX]; /* ascending */
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
	int lane;           /* index; -1: a gap */
	const char *queue;  /* borrowed from the cursor */
	int high, low;      /* priorities */
	uint64_t from_xid;  /* one priority only: rows from here ... */
	int64_t from_id;
	uint64_t until_xid; /* ... to before this transaction */
	uint64_t hole;      /* to be read only when this transaction has ended; 0: always */
};

/* What was found there, in the snapshot of the look. */
struct cursor_found {
	bool ended; /* the transaction of the hole has ended */
	bool live;  /* the segment has a live row; the first one: */
	int priority;
	uint64_t xid;
	int64_t id;
};

/* All lanes and gaps in the order they are to be read. Returns their number, 0 without a lane; *segments is for
 * free(), and NULL when out of memory (then there is no cursor for this time: returns 0). */
size_t cursor_segments(const struct cursor *cursor, struct cursor_segment **segments);

/*
 * Learn from a look: found[i] belongs to segments[i] as cursor_segments() gave them; xip are the transactions in
 * progress, ascending, xmax the first one not yet begun, server when the server was started. Rows beyond the
 * first live one of a lane need not have been looked for: found[] after it is not read.
 */
void cursor_learn(struct cursor *cursor, const struct cursor_segment *segments, const struct cursor_found *found, size_t n,
		  const uint64_t *xip, size_t xip_len, uint64_t xmax, int64_t server, uint64_t now_ns);

/* A job of this lane has been met: from now on it has a position of its own. */
void cursor_meet(struct cursor *cursor, const char *queue, int priority);

/* What an earlier run has learnt of one, from a server that is still the same; server and since_ns as in struct cursor. Of
 * *known queue is not read. */
void cursor_recall(struct cursor *cursor, const char *queue, const struct cursor_lane *known, int64_t server, uint64_t since_ns);

void cursor_forget(struct cursor *cursor);
void cursor_forget_when_old(struct cursor *cursor, uint64_t now_ns);

#endif
