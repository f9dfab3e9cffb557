/* SPDX-License-Identifier: MIT */
#include "base/cursor.h"

#include <stdlib.h>
#include <string.h>

void cursor_forget(struct cursor *cursor)
{
	for (size_t i = 0; i < cursor->lanes; i++)
		free(cursor->lane[i].queue);
	cursor->lanes = 0;
	cursor->server = 0;
	cursor->since_ns = 0;
}

void cursor_forget_when_old(struct cursor *cursor, uint64_t now_ns)
{
	/* A caller's idea of now may be a little older than what was learnt. */
	if (cursor->lanes > 0 && cursor->since_ns > 0 && now_ns > cursor->since_ns + CURSOR_AGE_MAX_NS)
		cursor_forget(cursor);
}

/* ---- lanes ------------------------------------------------------------------------------------ */

/* NULL: no room for it, or no memory. It stays part of a gap: read whole, which is right, if slower. */
static struct cursor_lane *lane_of(struct cursor *cursor, const char *queue, int priority)
{
	struct cursor_lane *lane;
	size_t at;
	int c = -1;

	for (at = 0; at < cursor->lanes && c < 0; at++) {
		lane = &cursor->lane[at];
		c = strcmp(lane->queue, queue);
		if (c == 0)
			c = lane->priority < priority ? 1 : lane->priority > priority ? -1 : 0;
		if (c == 0)
			return lane;
		if (c > 0)
			break;
	}
	if (cursor->lanes == CURSOR_LANES_MAX)
		return NULL;
	lane = &cursor->lane[at];
	memmove(lane + 1, lane, (cursor->lanes - at) * sizeof(*lane));
	memset(lane, 0, sizeof(*lane));
	lane->queue = strdup(queue);
	lane->priority = priority;
	lane->live = lane->ready = (struct cursor_place){ 0, INT64_MIN };
	if (!lane->queue) {
		memmove(lane, lane + 1, (cursor->lanes - at) * sizeof(*lane));
		return NULL;
	}
	cursor->lanes++;
	return lane;
}

void cursor_meet(struct cursor *cursor, const char *queue, int priority)
{
	lane_of(cursor, queue, priority);
}

void cursor_recall(struct cursor *cursor, const char *queue, const struct cursor_lane *known, int64_t server, uint64_t since_ns)
{
	struct cursor_lane *lane = lane_of(cursor, queue, known->priority);

	if (!lane)
		return;
	lane->live = lane->ready = known->live;
	lane->holes = known->holes;
	memcpy(lane->hole, known->hole, sizeof(lane->hole));
	cursor->server = server;
	if (cursor->since_ns == 0 || since_ns < cursor->since_ns)
		cursor->since_ns = since_ns;
}

/* ---- segments --------------------------------------------------------------------------------- */

struct list {
	struct cursor_segment *segment;
	size_t n;
};

static bool is_before(struct cursor_place a, struct cursor_place b)
{
	return a.xid < b.xid || (a.xid == b.xid && a.id < b.id);
}

/* Before all of that transaction. */
static struct cursor_place start_of(uint64_t xid)
{
	return (struct cursor_place){ xid, INT64_MIN };
}

static void add_gap(struct list *list, const char *queue, int high, int low)
{
	if (high < low)
		return;
	/* A range of one priority is still a gap: it has no position. */
	list->segment[list->n++] = (struct cursor_segment){ .lane = -1, .queue = queue, .high = high, .low = low, .from = start_of(0),
							   .ready = start_of(0), .until_xid = CURSOR_XID_MAX };
}

static void add_part(struct list *list, const struct cursor_lane *lane, struct cursor_segment part)
{
	if (part.from.xid >= part.until_xid)
		return;
	part.ready = is_before(part.from, lane->ready) ? lane->ready : part.from;
	list->segment[list->n++] = part;
}

static void add_lane(struct list *list, const struct cursor_lane *lane, int no, bool whole)
{
	struct cursor_segment walk = { .lane = no, .queue = lane->queue, .high = lane->priority, .low = lane->priority,
				       .from = whole ? lane->live : lane->ready, .until_xid = CURSOR_XID_MAX };

	for (size_t i = 0; i < lane->holes; i++) {
		const struct cursor_hole *hole = &lane->hole[i];
		struct cursor_segment part = walk;

		if (hole->xid >= walk.from.xid) {
			part.until_xid = hole->xid;
			add_part(list, lane, part);
			walk.from = start_of(hole->xid + 1);
		}
		part.from = (struct cursor_place){ hole->xid, whole ? hole->live_id : hole->ready_id };
		part.until_xid = hole->xid + 1;
		part.ready = (struct cursor_place){ hole->xid, hole->ready_id };
		part.hole = hole->xid;
		list->segment[list->n++] = part;
	}
	add_part(list, lane, walk);
}

size_t cursor_segments(const struct cursor *cursor, bool whole, struct cursor_segment **segments)
{
	struct list list = { NULL, 0 };
	size_t max = 0;

	for (size_t i = 0; i < cursor->lanes; i++)
		max += 2 * cursor->lane[i].holes + 3;
	list.segment = malloc((max + 1) * sizeof(*list.segment));
	*segments = list.segment;
	for (size_t i = 0; list.segment && i < cursor->lanes; i++) {
		const struct cursor_lane *lane = &cursor->lane[i];
		bool first = i == 0 || strcmp(lane[-1].queue, lane->queue) != 0;
		bool last = i + 1 == cursor->lanes || strcmp(lane[1].queue, lane->queue) != 0;

		add_gap(&list, lane->queue, first ? CURSOR_PRIORITY_MAX : lane[-1].priority - 1, lane->priority + 1);
		add_lane(&list, lane, (int)i, whole);
		if (last)
			add_gap(&list, lane->queue, lane->priority - 1, CURSOR_PRIORITY_MIN);
	}
	return list.n;
}

/* ---- learning --------------------------------------------------------------------------------- */

/* What cannot be remembered as a hole must lie behind the positions. */
static void draw_back(struct cursor_place *position, uint64_t xid)
{
	if (xid < position->xid)
		*position = start_of(xid);
}

/* The new holes of a lane: ended ones with live rows before what is ready, and all that are in progress. */
static void set_holes(struct cursor_lane *lane, const struct cursor_hole *kept, size_t kept_len, const uint64_t *xip, size_t xip_len)
{
	size_t i = 0, j = 0;

	lane->holes = 0;
	while (i < kept_len || j < xip_len) {
		struct cursor_hole hole = j == xip_len || (i < kept_len && kept[i].xid < xip[j])
						  ? kept[i] : (struct cursor_hole){ xip[j], INT64_MIN, INT64_MIN };

		if (lane->holes == CURSOR_HOLES_MAX) {
			draw_back(&lane->live, hole.xid);
			draw_back(&lane->ready, hole.xid);
			return;
		}
		lane->hole[lane->holes++] = hole;
		i += i < kept_len && kept[i].xid == hole.xid;
		j += j < xip_len && xip[j] == hole.xid;
	}
}

/* *position, where nothing was found so far, moves to that row; not to one that has come from another server, under the id of a
 * transaction not yet begun here. */
static void settle(struct cursor_place *position, bool *found, struct cursor_place row, uint64_t xmax)
{
	if (!*found && row.xid < xmax)
		*position = row;
	*found = true;
}

static int64_t ready_id(const struct cursor_segment *s, const struct cursor_found *found, bool looked)
{
	if (looked)
		return found->has_ready ? found->first_ready.id : INT64_MAX;
	return s->ready.id > found->first.id ? s->ready.id : found->first.id;
}

static void learn_lane(struct cursor_lane *lane, int no, const struct cursor_segment *segments, const struct cursor_found *found, size_t n,
		       bool looked, const uint64_t *xip, size_t xip_len, uint64_t xmax)
{
	struct cursor_place live = start_of(xmax), ready = live;
	struct cursor_hole kept[CURSOR_HOLES_MAX];
	bool live_found = false, ready_found = false;
	size_t kept_len = 0;

	for (size_t i = 0; i < n; i++) {
		const struct cursor_segment *s = &segments[i];

		if (s->lane != no || (s->hole && !found[i].ended) || !found[i].live)
			continue;
		if (s->hole && s->hole < lane->ready.xid) {
			kept[kept_len++] = (struct cursor_hole){ s->hole, found[i].first.id, ready_id(s, &found[i], looked) };
			continue;
		}
		settle(&live, &live_found, found[i].first, xmax);
		if (found[i].has_ready)
			settle(&ready, &ready_found, found[i].first_ready, xmax);
	}
	if (!looked)
		ready = is_before(live, lane->ready) ? lane->ready : live;
	lane->live = live;
	lane->ready = ready;
	set_holes(lane, kept, kept_len, xip, xip_len);
}

void cursor_learn(struct cursor *cursor, const struct cursor_segment *segments, const struct cursor_found *found, size_t n, bool ready,
		  const uint64_t *xip, size_t xip_len, uint64_t xmax, int64_t server, uint64_t now_ns)
{
	bool stranger = cursor->server != 0 && cursor->server != server;

	for (size_t i = 0; i < cursor->lanes; i++)
		stranger |= cursor->lane[i].ready.xid > xmax;
	if (stranger) {
		cursor_forget(cursor);
		return;
	}
	if (cursor->since_ns == 0)
		cursor->since_ns = now_ns;
	cursor->server = server;
	for (size_t i = 0; i < cursor->lanes; i++)
		learn_lane(&cursor->lane[i], (int)i, segments, found, n, ready, xip, xip_len, xmax);
	/* Last, for it moves lanes: what was found in the gaps. */
	for (size_t i = 0; i < n; i++)
		if (segments[i].lane < 0 && found[i].live)
			cursor_meet(cursor, segments[i].queue, found[i].priority);
}
