/* SPDX-License-Identifier: MIT */
#include "store/cursor.h"

#include "base/clock.h"
#include "store/columns.h"
#include "store/args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WHERE "cursor"
#define HOLE_DIGITS 21 /* of a transaction id, and a comma */

/* ---- arguments -------------------------------------------------------------------------------- */

/* The columns of the arguments. */
enum { QUEUE, HIGH, LOW, FROM_XID, FROM_ID, UNTIL_XID, HOLE, SEGMENT_ARGS, READY_XID = SEGMENT_ARGS, READY_ID, LOOK_ARGS };

static uint64_t value_of(const struct cursor_segment *s, int column)
{
	switch (column) {
	case FROM_XID:
		return s->from.xid;
	case FROM_ID:
		return (uint64_t)s->from.id;
	case UNTIL_XID:
		return s->until_xid;
	case HOLE:
		return s->hole;
	case READY_XID:
		return s->ready.xid;
	default:
		return (uint64_t)s->ready.id;
	}
}

static int arg_columns(struct pg_args *args, const struct cursor_segment *segments, size_t n, int columns, struct deferred_error *err)
{
	const char **queue = malloc((n + 1) * sizeof(*queue));
	int32_t *int4 = malloc((n + 1) * sizeof(*int4));
	uint64_t *xid = malloc((n + 1) * sizeof(*xid));
	bool *nulls = malloc((n + 1) * sizeof(*nulls));
	int rc = queue && int4 && xid && nulls ? 0 : error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");

	for (int column = 0; rc == 0 && column < columns; column++) {
		for (size_t i = 0; i < n; i++) {
			const struct cursor_segment *s = &segments[i];

			queue[i] = s->queue;
			int4[i] = column == HIGH ? s->high : s->low;
			xid[i] = value_of(s, column);
			nulls[i] = column == FROM_XID ? s->lane < 0 : column == HOLE ? s->hole == 0 : false;
		}
		if (column == QUEUE)
			pg_arg_text_array(args, queue, NULL, n);
		else if (column == HIGH || column == LOW)
			pg_arg_int4_array(args, int4, NULL, n);
		else if (column == FROM_ID || column == READY_ID)
			pg_arg_int8_array(args, (int64_t *)xid, NULL, n);
		else
			pg_arg_xid8_array(args, xid, nulls, n);
	}
	free(queue);
	free(int4);
	free(xid);
	free(nulls);
	return rc;
}

int store_arg_segments(struct pg_args *args, const struct cursor_segment *segments, size_t n, struct deferred_error *err)
{
	return arg_columns(args, segments, n, SEGMENT_ARGS, err);
}

int store_arg_probe(struct pg_args *args, const struct store_scope *scope, const struct cursor *cursor, int64_t from_us,
		    struct deferred_error *err)
{
	struct cursor_segment *segments;
	size_t n = cursor_segments(cursor, true, &segments);
	int rc;

	store_arg_queues(args, scope);
	pg_arg_text(args, scope->instance);
	rc = store_arg_segments(args, segments, n, err);
	pg_arg_timestamptz(args, from_us);
	free(segments);
	return rc;
}

/* ---- looking ---------------------------------------------------------------------------------- */

/* What job_look.sql said. */
struct store_look {
	struct cursor_segment *segments;
	struct cursor_found *found;
	size_t n;
	bool ready;
	uint64_t xip[1024];
	size_t xip_len;
	uint64_t xmax;
	int64_t server;
	bool complete;
};

struct store_look *store_look_new(const struct cursor *cursor, bool ready)
{
	struct store_look *look = calloc(1, sizeof(*look));

	if (!look)
		return NULL;
	look->ready = ready;
	look->n = cursor_segments(cursor, true, &look->segments);
	look->found = calloc(look->n + 1, sizeof(*look->found));
	if (!look->segments || !look->found) {
		store_look_free(look);
		return NULL;
	}
	return look;
}

void store_look_free(struct store_look *look)
{
	if (look) {
		free(look->segments);
		free(look->found);
	}
	free(look);
}

static int look_args(struct pg_args *args, const struct store_look *look, struct deferred_error *err)
{
	int rc = arg_columns(args, look->segments, look->n, LOOK_ARGS, err);

	pg_arg_int4(args, look->ready);
	return rc;
}

int store_look_add(struct pg *pg, const struct store_look *look, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	rc = look_args(&args, look, err);
	if (rc == 0)
		rc = pg_pipeline_add(pg, &sql_job_look, &args, TAG_LOOK, err);
	pg_args_clear(&args);
	return rc;
}

void store_look_take(struct store_look *look, const struct pg_result *res)
{
	int64_t xip[sizeof(look->xip) / sizeof(look->xip[0])];

	look->complete = look->n > 0 && pg_rows(res) == look->n;
	for (size_t i = 0; look->complete && i < pg_rows(res); i++) {
		struct cursor_found *f = &look->found[i];

		f->ended = pg_bool(res, i, 0);
		f->live = !pg_null(res, i, 2);
		f->priority = (int)pg_int(res, i, 1);
		f->first = (struct cursor_place){ (uint64_t)pg_int(res, i, 2), pg_int(res, i, 3) };
		f->has_ready = !pg_null(res, i, 4);
		f->first_ready = (struct cursor_place){ (uint64_t)pg_int(res, i, 4), pg_int(res, i, 5) };
	}
	if (!look->complete)
		return;
	look->xip_len = pg_int8_array(res, 0, 6, xip, sizeof(xip) / sizeof(xip[0]));
	/* More transactions in progress than can be taken along: then there is nothing to learn this time. */
	look->complete = look->xip_len < sizeof(xip) / sizeof(xip[0]);
	for (size_t i = 0; i < look->xip_len; i++)
		look->xip[i] = (uint64_t)xip[i];
	look->xmax = (uint64_t)pg_int(res, 0, 7);
	look->server = pg_int(res, 0, 8);
}

void store_look_learn(const struct store_look *look, struct cursor *cursor)
{
	if (look->complete)
		cursor_learn(cursor, look->segments, look->found, look->n, look->ready, look->xip, look->xip_len, look->xmax, look->server, clock_ns());
}

/* ---- from one run to the next ------------------------------------------------------------------ */

static void on_lanes(void *data, int tag, const struct pg_result *res)
{
	struct cursor *cursor = data;
	uint64_t now = clock_ns();

	for (size_t i = 0; tag == TAG_CURSOR && i < pg_rows(res); i++) {
		struct cursor_lane lane = { .priority = (int)pg_int(res, i, 1), .live = { (uint64_t)pg_int(res, i, 2), pg_int(res, i, 3) } };
		int64_t hole[CURSOR_HOLES_MAX + 1];
		const char *queue = pg_text(res, i, 0, NULL);
		uint64_t age_ns = (uint64_t)pg_int(res, i, 6) * NS_PER_MS;

		lane.holes = pg_int8_array(res, i, 4, hole, CURSOR_HOLES_MAX + 1);
		cursor_meet(cursor, queue, lane.priority);
		/* One with more holes than have room is met only, and read whole. */
		if (pg_null(res, i, 2) || lane.holes > CURSOR_HOLES_MAX || age_ns >= now)
			continue;
		for (size_t k = 0; k < lane.holes; k++)
			lane.hole[k] = (struct cursor_hole){ (uint64_t)hole[k], INT64_MIN, INT64_MIN };
		cursor_recall(cursor, queue, &lane, pg_int(res, i, 5), now - age_ns);
	}
}

static void on_look(void *data, int tag, const struct pg_result *res)
{
	if (tag == TAG_LOOK)
		store_look_take(data, res);
}

static int look_now(struct pg *pg, struct cursor *cursor, struct deferred_error *err)
{
	struct store_look *look = store_look_new(cursor, true);
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	rc = look ? look_args(&args, look, err) : error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	if (rc == 0)
		rc = store_run(pg, &sql_job_look, &args, TAG_LOOK, on_look, look, err);
	else
		pg_args_clear(&args);
	if (rc == 0)
		store_look_learn(look, cursor);
	store_look_free(look);
	return rc;
}

int store_cursor_load(struct pg *pg, const struct store_scope *scope, struct cursor *cursor, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	store_arg_queues(&args, scope);
	pg_arg_int4(&args, CURSOR_LANES_MAX);
	pg_arg_int8(&args, (int64_t)(CURSOR_AGE_MAX_NS / NS_PER_MS));
	rc = store_run(pg, &sql_cursor_load, &args, TAG_CURSOR, on_lanes, cursor, err);
	return rc == 0 ? look_now(pg, cursor, err) : rc;
}

/* "{1,2}" */
static void write_holes(char *text, size_t size, const struct cursor_lane *lane)
{
	int len = snprintf(text, size, "{");

	for (size_t i = 0; i < lane->holes; i++)
		len += snprintf(text + len, size - (size_t)len, "%s%" PRIu64, i > 0 ? "," : "", lane->hole[i].xid);
	snprintf(text + len, size - (size_t)len, "}");
}

int store_cursor_save(struct pg *pg, const struct cursor *cursor, struct deferred_error *err)
{
	size_t n = cursor->lanes;
	char (*holes)[CURSOR_HOLES_MAX * HOLE_DIGITS + 3] = calloc(n + 1, sizeof(*holes));
	uint64_t xid[CURSOR_LANES_MAX];
	uint64_t now = clock_ns();
	struct pg_args args;
	struct columns c;
	int rc = columns_init(&c, n, WHERE, err);

	pg_args_init(&args);
	if (rc == 0 && !holes)
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	for (size_t i = 0; rc == 0 && i < n; i++) {
		xid[i] = cursor->lane[i].live.xid;
		write_holes(holes[i], sizeof(holes[i]), &cursor->lane[i]);
	}
	if (rc == 0) {
		COLUMN_TEXT(&args, &c, cursor->lane[i].queue);
		COLUMN_INT4(&args, &c, cursor->lane[i].priority);
		pg_arg_xid8_array(&args, xid, NULL, n);
		COLUMN_INT8(&args, &c, cursor->lane[i].live.id);
		COLUMN_TEXT(&args, &c, holes[i]);
		pg_arg_timestamptz(&args, cursor->server);
		pg_arg_int8(&args, now > cursor->since_ns ? (int64_t)((now - cursor->since_ns) / NS_PER_MS) : 0);
		rc = store_run(pg, &sql_cursor_save, &args, TAG_IGNORE, NULL, NULL, err);
	} else {
		pg_args_clear(&args);
	}
	columns_clear(&c);
	free(holes);
	return rc;
}
