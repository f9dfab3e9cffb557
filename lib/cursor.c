/* SPDX-License-Identifier: MIT */
#include "cursor.h"

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
	lane->id = INT64_MIN;
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
	lane->xid = known->xid;
	lane->id = known->id;
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

static void add_gap(struct list *list, const char *queue, int high, int low)
{
	if (high < low)
		return;
	/* A range of one priority is still a gap: it has no position. */
	list->segment[list->n++] = (struct cursor_segment){ .lane = -1, .queue = queue, .high = high, .low = low,
							   .from_id = INT64_MIN, .until_xid = CURSOR_XID_MAX };
}

static void add_lane(struct list *list, const struct cursor_lane *lane, int no)
{
	struct cursor_segment walk = { .lane = no, .queue = lane->queue, .high = lane->priority, .low = lane->priority,
				       .from_xid = lane->xid, .from_id = lane->id, .until_xid = CURSOR_XID_MAX };

	for (size_t i = 0; i < lane->holes; i++) {
		struct cursor_segment hole = walk;

		if (lane->hole[i] >= walk.from_xid) {
			struct cursor_segment part = walk;

			part.until_xid = lane->hole[i];
			if (part.from_xid < part.until_xid)
				list->segment[list->n++] = part;
			walk.from_xid = lane->hole[i] + 1;
			walk.from_id = INT64_MIN;
		}
		hole.from_xid = hole.hole = lane->hole[i];
		hole.from_id = INT64_MIN;
		hole.until_xid = lane->hole[i] + 1;
		list->segment[list->n++] = hole;
	}
	list->segment[list->n++] = walk;
}

size_t cursor_segments(const struct cursor *cursor, struct cursor_segment **segments)
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
		add_lane(&list, lane, (int)i);
		if (last)
			add_gap(&list, lane->queue, lane->priority - 1, CURSOR_PRIORITY_MIN);
	}
	return list.n;
}

/* ---- learning --------------------------------------------------------------------------------- */

/* The new holes of a lane: ended ones with live rows before the position, and all that are in progress. */
static void set_holes(struct cursor_lane *lane, const uint64_t *kept, size_t kept_len, const uint64_t *xip, size_t xip_len)
{
	size_t i = 0, j = 0;

	lane->holes = 0;
	while (i < kept_len || j < xip_len) {
		uint64_t xid = j == xip_len || (i < kept_len && kept[i] < xip[j]) ? kept[i] : xip[j];

		if (lane->holes == CURSOR_HOLES_MAX) {
			/* What cannot be remembered must lie behind the position. */
			if (xid < lane->xid) {
				lane->xid = xid;
				lane->id = INT64_MIN;
			}
			return;
		}
		lane->hole[lane->holes++] = xid;
		i += i < kept_len && kept[i] == xid;
		j += j < xip_len && xip[j] == xid;
	}
}

static void learn_lane(struct cursor_lane *lane, int no, const struct cursor_segment *segments, const struct cursor_found *found, size_t n,
		       const uint64_t *xip, size_t xip_len, uint64_t xmax)
{
	uint64_t kept[CURSOR_HOLES_MAX], xid = xmax;
	int64_t id = INT64_MIN;
	size_t kept_len = 0;

	for (size_t i = 0; i < n; i++) {
		const struct cursor_segment *s = &segments[i];

		if (s->lane != no || (s->hole && !found[i].ended) || !found[i].live)
			continue;
		if (s->hole && s->hole < lane->xid) {
			kept[kept_len++] = s->hole;
			continue;
		}
		if (found[i].xid < xmax) {
			xid = found[i].xid;
			id = found[i].id;
		}
		break;
	}
	lane->xid = xid;
	lane->id = id;
	set_holes(lane, kept, kept_len, xip, xip_len);
}

void cursor_learn(struct cursor *cursor, const struct cursor_segment *segments, const struct cursor_found *found, size_t n,
		  const uint64_t *xip, size_t xip_len, uint64_t xmax, int64_t server, uint64_t now_ns)
{
	bool stranger = cursor->server != 0 && cursor->server != server;

	for (size_t i = 0; i < cursor->lanes; i++)
		stranger |= cursor->lane[i].xid > xmax;
	if (stranger) {
		cursor_forget(cursor);
		return;
	}
	if (cursor->since_ns == 0)
		cursor->since_ns = now_ns;
	cursor->server = server;
	for (size_t i = 0; i < cursor->lanes; i++)
		learn_lane(&cursor->lane[i], (int)i, segments, found, n, xip, xip_len, xmax);
	/* Last, for it moves lanes: what was found in the gaps. */
	for (size_t i = 0; i < n; i++)
		if (segments[i].lane < 0 && found[i].live)
			cursor_meet(cursor, segments[i].queue, found[i].priority);
}
