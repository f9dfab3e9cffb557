/* SPDX-License-Identifier: MIT */
/* Where claims start to look: what is read, what is learnt, and that no row that is visible lies outside it. */
#include "base/cursor.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define START 1000 /* of the server */

static int setup(void **state)
{
	return (*state = calloc(1, sizeof(struct cursor))) ? 0 : -1;
}

static int teardown(void **state)
{
	cursor_forget(*state);
	free(*state);
	return 0;
}

/* "(XID,ID", or "(XID" where it is all of a transaction. */
static size_t show_place(char *text, size_t size, struct cursor_place place)
{
	size_t len = (size_t)snprintf(text, size, "(%" PRIu64, place.xid);

	if (place.id != INT64_MIN)
		len += (size_t)snprintf(text + len, size - len, ",%" PRId64, place.id);
	return len;
}

/*
 * The segments as text, one a line: "QUEUE HIGH..LOW" a gap, "QUEUE PRIORITY (XID,ID)-UNTIL" a part of a lane, "?XID" or "?(XID,ID)" a
 * hole; behind a part of a lane " ready (XID,ID)" where ready rows are not looked for from its beginning.
 */
static const char *shown_of(const struct cursor *cursor, bool whole)
{
	static char text[65536];
	struct cursor_segment *s;
	size_t n = cursor_segments(cursor, whole, &s), len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s ", s[i].queue);
		if (s[i].lane < 0) {
			assert_int_equal(s[i].hole, 0);
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%d..%d\n", s[i].high, s[i].low);
			continue;
		}
		assert_int_equal(s[i].high, s[i].low);
		assert_string_equal(cursor->lane[s[i].lane].queue, s[i].queue);
		assert_int_equal(cursor->lane[s[i].lane].priority, s[i].high);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%d ", s[i].high);
		if (s[i].hole) {
			assert_int_equal(s[i].hole, s[i].from.xid);
			assert_int_equal(s[i].hole + 1, s[i].until_xid);
			len += (size_t)snprintf(text + len, sizeof(text) - len, "?");
			if (s[i].from.id == INT64_MIN) {
				len += (size_t)snprintf(text + len, sizeof(text) - len, "%" PRIu64 "\n", s[i].hole);
				continue;
			}
		}
		len += show_place(text + len, sizeof(text) - len, s[i].from);
		len += (size_t)snprintf(text + len, sizeof(text) - len, ")%s", s[i].hole ? "" : "-");
		if (!s[i].hole && s[i].until_xid != CURSOR_XID_MAX)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%" PRIu64, s[i].until_xid);
		if (s[i].ready.xid != s[i].from.xid || s[i].ready.id != s[i].from.id) {
			len += (size_t)snprintf(text + len, sizeof(text) - len, " ready ");
			len += show_place(text + len, sizeof(text) - len, s[i].ready);
			len += (size_t)snprintf(text + len, sizeof(text) - len, ")");
		}
		len += (size_t)snprintf(text + len, sizeof(text) - len, "\n");
	}
	free(s);
	return text;
}

static const char *shown(const struct cursor *cursor)
{
	return shown_of(cursor, true);
}

/* A live row, or a transaction, by which learn() makes up what was found. */
struct row {
	const char *queue;
	int priority;
	uint64_t xid;
	int64_t id;
	bool claimed; /* or locked */
};

static bool is_before(const struct row *r, struct cursor_place place)
{
	return r->xid < place.xid || (r->xid == place.xid && r->id < place.id);
}

static bool in_segment(const struct cursor_segment *s, const struct row *r)
{
	if (strcmp(s->queue, r->queue) != 0 || r->priority > s->high || r->priority < s->low)
		return false;
	return s->lane < 0 || (!is_before(r, s->from) && r->xid < s->until_xid);
}

static bool in_set(uint64_t xid, const uint64_t *set, size_t n)
{
	while (n > 0 && set[n - 1] != xid)
		n--;
	return n > 0;
}

/* rows: those visible, in the order of the index. */
static void look(const struct cursor_segment *s, struct cursor_found *found, size_t n, bool ready, const struct row *rows, size_t rows_len,
		 const uint64_t *xip, size_t xip_len, uint64_t xmax)
{
	memset(found, 0, n * sizeof(*found));
	for (size_t i = 0; i < n; i++) {
		found[i].ended = s[i].hole == 0 || (s[i].hole < xmax && !in_set(s[i].hole, xip, xip_len));
		for (size_t j = 0; found[i].ended && j < rows_len && !(found[i].live && (found[i].has_ready || !ready)); j++) {
			if (!in_segment(&s[i], &rows[j]))
				continue;
			if (!found[i].live) {
				found[i].live = true;
				found[i].priority = rows[j].priority;
				found[i].first = (struct cursor_place){ rows[j].xid, rows[j].id };
			}
			if (ready && s[i].lane >= 0 && !rows[j].claimed && !is_before(&rows[j], s[i].ready)) {
				found[i].has_ready = true;
				found[i].first_ready = (struct cursor_place){ rows[j].xid, rows[j].id };
			}
		}
	}
}

static void learn(struct cursor *cursor, bool ready, const struct row *rows, size_t rows_len, const uint64_t *xip, size_t xip_len, uint64_t xmax)
{
	struct cursor_segment *s;
	size_t n = cursor_segments(cursor, true, &s);
	struct cursor_found *found = calloc(n + 1, sizeof(*found));

	look(s, found, n, ready, rows, rows_len, xip, xip_len, xmax);
	cursor_learn(cursor, s, found, n, ready, xip, xip_len, xmax, START, 1);
	free(found);
	free(s);
}

static void learn_from(struct cursor *cursor, const struct row *rows, size_t rows_len, const uint64_t *xip, size_t xip_len, uint64_t xmax)
{
	learn(cursor, true, rows, rows_len, xip, xip_len, xmax);
}

#define ROWS(...) (const struct row[]){ __VA_ARGS__ }, LEN(((const struct row[]){ __VA_ARGS__ }))
#define XIP(...) (const uint64_t[]){ __VA_ARGS__ }, LEN(((const uint64_t[]){ __VA_ARGS__ }))
#define NONE NULL, 0

/* ---- segments --------------------------------------------------------------------------------- */

static void without_a_lane_nothing_is_said_of_any_queue(void **state)
{
	assert_string_equal(shown(*state), "");
}

static void a_lane_lies_between_two_gaps(void **state)
{
	cursor_meet(*state, "q", 5);
	assert_string_equal(shown(*state), "q 32767..6\nq 5 (0)-\nq 4..-32768\n");
	cursor_meet(*state, "q", 5);
	assert_int_equal(((struct cursor *)*state)->lanes, 1);
}

static void lanes_go_from_high_to_low_and_leave_no_priority_out(void **state)
{
	cursor_meet(*state, "q", 0);
	cursor_meet(*state, "q", -3);
	cursor_meet(*state, "q", 7);
	cursor_meet(*state, "q", 6);
	assert_string_equal(shown(*state), "q 32767..8\nq 7 (0)-\nq 6 (0)-\nq 5..1\nq 0 (0)-\nq -1..-2\nq -3 (0)-\nq -4..-32768\n");
}

static void at_the_ends_of_the_range_there_is_no_gap(void **state)
{
	cursor_meet(*state, "q", CURSOR_PRIORITY_MIN);
	cursor_meet(*state, "q", CURSOR_PRIORITY_MAX);
	assert_string_equal(shown(*state), "q 32767 (0)-\nq 32766..-32767\nq -32768 (0)-\n");
}

static void each_queue_has_its_own_gaps(void **state)
{
	cursor_meet(*state, "b", 0);
	cursor_meet(*state, "a", 0);
	cursor_meet(*state, "b", 1);
	cursor_meet(*state, "ab", 32767);
	assert_string_equal(shown(*state), "a 32767..1\na 0 (0)-\na -1..-32768\n"
					   "ab 32767 (0)-\nab 32766..-32768\n"
					   "b 32767..2\nb 1 (0)-\nb 0 (0)-\nb -1..-32768\n");
}

/* ---- learning --------------------------------------------------------------------------------- */

static void the_position_is_the_first_live_row(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 7, false }, { "q", 0, 60, 1, false }), NONE, 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (50,7)-\nq -1..-32768\n");
	learn_from(*state, ROWS({ "q", 0, 60, 1, false }), NONE, 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (60,1)-\nq -1..-32768\n");
}

static void without_a_live_row_the_position_is_behind_the_snapshot(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, NONE, NONE, 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (100)-\nq -1..-32768\n");
}

static void rows_from_ahead_of_the_snapshot_do_not_take_the_position_along(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 5000000, 7, false }), NONE, 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (100)-\nq -1..-32768\n");
	/* Transaction ids have come there. */
	learn_from(*state, ROWS({ "q", 0, 5000000, 7, false }), NONE, 6000000);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (5000000,7)-\nq -1..-32768\n");
}

static void holes_before_the_position_come_first_and_those_behind_it_cut_the_walk(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 7, false }), XIP(40, 45, 50, 51, 60), 100);
	assert_string_equal(shown(*state), "q 32767..1\n"
					   "q 0 ?40\nq 0 ?45\nq 0 ?50\nq 0 ?51\nq 0 (52)-60\nq 0 ?60\nq 0 (61)-\n"
					   "q -1..-32768\n");
	learn_from(*state, NONE, XIP(45), 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 ?45\nq 0 (100)-\nq -1..-32768\n");
}

static void rows_of_the_position_s_own_transaction_before_its_id_are_left_out(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 7, false }), XIP(60), 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (50,7)-60\nq 0 ?60\nq 0 (61)-\nq -1..-32768\n");
}

static void a_transaction_that_ended_stays_a_hole_while_it_has_live_rows(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 90, 1, false }), XIP(20, 30), 100);
	learn_from(*state, ROWS({ "q", 0, 20, 1, false }, { "q", 0, 90, 1, false }), XIP(30), 101);
	/* The late rows do not draw the position back over what is dead in between. */
	assert_string_equal(shown(*state), "q 32767..1\nq 0 ?(20,1)\nq 0 ?30\nq 0 (90,1)-\nq -1..-32768\n");
	/* Nor do they stand in the way of one another. */
	learn_from(*state, ROWS({ "q", 0, 20, 9, false }, { "q", 0, 90, 1, false }), XIP(30), 101);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 ?(20,9)\nq 0 ?30\nq 0 (90,1)-\nq -1..-32768\n");
	learn_from(*state, ROWS({ "q", 0, 90, 1, false }), XIP(30), 102);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 ?30\nq 0 (90,1)-\nq -1..-32768\n");
	learn_from(*state, ROWS({ "q", 0, 90, 1, false }), NONE, 103);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (90,1)-\nq -1..-32768\n");
}

static void a_hole_behind_the_position_becomes_the_position_where_it_has_the_first_live_row(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 1, false }), XIP(60), 100);
	learn_from(*state, ROWS({ "q", 0, 60, 5, false }, { "q", 0, 70, 1, false }), XIP(100), 120);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (60,5)-100\nq 0 ?100\nq 0 (101)-\nq -1..-32768\n");
}

static void what_is_claimed_is_passed_by_what_is_ready(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 7, true }, { "q", 0, 60, 1, true }, { "q", 0, 70, 2, false }), NONE, 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (50,7)- ready (70,2)\nq -1..-32768\n");
	assert_string_equal(shown_of(*state, false), "q 32767..1\nq 0 (70,2)-\nq -1..-32768\n");
	learn_from(*state, ROWS({ "q", 0, 60, 1, true }), XIP(65, 80), 100);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (60,1)-65 ready (100)\nq 0 ?65\nq 0 (66)-80 ready (100)\nq 0 ?80\nq 0 (81)- ready (100)\n"
					   "q -1..-32768\n");
	assert_string_equal(shown_of(*state, false), "q 32767..1\nq 0 ?65\nq 0 ?80\nq 0 (100)-\nq -1..-32768\n");
	/* Its lease ended: it is still where it was, for those who read everything, and moves on. */
	learn_from(*state, ROWS({ "q", 0, 60, 1, true }, { "q", 0, 90, 1, true }, { "q", 0, 110, 1, false }), NONE, 120);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (60,1)- ready (110,1)\nq -1..-32768\n");
	learn_from(*state, NONE, NONE, 130);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (130)-\nq -1..-32768\n");
}

static void a_transaction_that_ended_between_what_is_live_and_what_is_ready_stays_a_hole(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 7, true }), XIP(60), 100);
	learn_from(*state, ROWS({ "q", 0, 50, 7, true }, { "q", 0, 60, 3, true }, { "q", 0, 60, 5, false }), NONE, 110);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (50,7)-60 ready (110)\nq 0 ?(60,3) ready (60,5)\nq 0 (61)- ready (110)\nq -1..-32768\n");
	assert_string_equal(shown_of(*state, false), "q 32767..1\nq 0 ?(60,5)\nq 0 (110)-\nq -1..-32768\n");
	/* One behind what is ready needs none for what is claimed in it. */
	learn_from(*state, ROWS({ "q", 0, 118, 7, false }), XIP(119), 120);
	learn_from(*state, ROWS({ "q", 0, 118, 7, true }, { "q", 0, 119, 7, true }), NONE, 120);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (118,7)- ready (120)\nq -1..-32768\n");
}

static void what_is_ready_stays_where_it_was_when_it_is_not_looked_for(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 7, true }), XIP(60, 65), 100);
	learn_from(*state, ROWS({ "q", 0, 50, 7, true }, { "q", 0, 60, 3, true }, { "q", 0, 60, 5, false }), XIP(65), 110);
	learn(*state, false, ROWS({ "q", 0, 50, 8, true }, { "q", 0, 60, 4, true }, { "q", 0, 65, 1, false }), NONE, 120);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 (50,8)-60 ready (110)\nq 0 ?(60,4) ready (60,5)\nq 0 (61)-65 ready (110)\n"
					   "q 0 ?(65,1)\nq 0 (66)- ready (110)\nq -1..-32768\n");
	/* It is never before what is live. */
	learn(*state, false, ROWS({ "q", 0, 60, 9, true }, { "q", 0, 115, 1, true }), NONE, 120);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 ?(60,9)\nq 0 (115,1)-\nq -1..-32768\n");
}

static void a_hole_still_open_is_kept_whatever_lies_around_it(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 0, 50, 1, false }), XIP(60), 100);
	learn_from(*state, NONE, XIP(60), 200);
	assert_string_equal(shown(*state), "q 32767..1\nq 0 ?60\nq 0 (200)-\nq -1..-32768\n");
}

static void each_lane_learns_for_itself(void **state)
{
	cursor_meet(*state, "a", 0);
	cursor_meet(*state, "a", 3);
	cursor_meet(*state, "b", 0);
	learn_from(*state, ROWS({ "a", 3, 80, 2, false }, { "b", 0, 30, 3, false }), XIP(70), 100);
	assert_string_equal(shown(*state), "a 32767..4\na 3 ?70\na 3 (80,2)-\na 2..1\na 0 ?70\na 0 (100)-\na -1..-32768\n"
					   "b 32767..1\nb 0 (30,3)-70\nb 0 ?70\nb 0 (71)-\nb -1..-32768\n");
}

static void a_row_found_in_a_gap_makes_a_lane(void **state)
{
	cursor_meet(*state, "q", 0);
	learn_from(*state, ROWS({ "q", 9, 40, 2, false }, { "q", -5, 30, 3, false }), NONE, 100);
	assert_string_equal(shown(*state), "q 32767..10\nq 9 (0)-\nq 8..1\nq 0 (100)-\nq -1..-4\nq -5 (0)-\nq -6..-32768\n");
}

static void holes_that_cannot_be_kept_lie_behind_the_position(void **state)
{
	struct cursor *cursor = *state;
	uint64_t xip[CURSOR_HOLES_MAX + 10];

	for (size_t i = 0; i < LEN(xip); i++)
		xip[i] = 100 + 10 * i;
	cursor_meet(cursor, "q", 0);
	learn_from(cursor, NONE, xip, LEN(xip), 5000);
	assert_int_equal(cursor->lane[0].holes, CURSOR_HOLES_MAX);
	assert_int_equal(cursor->lane[0].live.xid, xip[CURSOR_HOLES_MAX]); /* the first that has no place */
	assert_true(cursor->lane[0].live.id == INT64_MIN);
	/* Some end, and there is place again. */
	learn_from(cursor, NONE, xip + 20, LEN(xip) - 20, 5001);
	assert_int_equal(cursor->lane[0].holes, LEN(xip) - 20);
	assert_int_equal(cursor->lane[0].live.xid, 5001);
}

static void ended_holes_with_live_rows_count_among_those_that_are_kept(void **state)
{
	struct cursor *cursor = *state;
	uint64_t xip[CURSOR_HOLES_MAX + 1];
	struct row rows[] = { { "q", 0, 101, 1, false }, { "q", 0, 4990, 1, false } };

	for (size_t i = 0; i < LEN(xip); i++)
		xip[i] = 101 + i;
	cursor_meet(cursor, "q", 0);
	learn_from(cursor, rows + 1, 1, xip, CURSOR_HOLES_MAX, 5000);
	learn_from(cursor, rows, 2, xip + 1, LEN(xip) - 1, 5001);
	assert_int_equal(cursor->lane[0].hole[0].xid, 101);
	assert_int_equal(cursor->lane[0].live.xid, xip[CURSOR_HOLES_MAX]);
}

static void holes_behind_the_position_that_cannot_be_kept_do_no_harm(void **state)
{
	struct cursor *cursor = *state;
	uint64_t xip[CURSOR_HOLES_MAX + 10];

	for (size_t i = 0; i < LEN(xip); i++)
		xip[i] = 100 + i;
	cursor_meet(cursor, "q", 0);
	learn_from(cursor, ROWS({ "q", 0, 50, 3, false }), xip, LEN(xip), 5000);
	assert_int_equal(cursor->lane[0].live.xid, 50);
	assert_int_equal(cursor->lane[0].live.id, 3);
}

static void lanes_that_cannot_be_kept_stay_in_a_gap(void **state)
{
	struct cursor *cursor = *state;

	for (int i = 0; i < CURSOR_LANES_MAX; i++)
		cursor_meet(cursor, "q", 2 * i);
	cursor_meet(cursor, "q", 1);
	cursor_meet(cursor, "p", 0);
	learn_from(cursor, ROWS({ "q", 3, 10, 1, false }), NONE, 100);
	assert_int_equal(cursor->lanes, CURSOR_LANES_MAX);
	assert_non_null(strstr(shown(cursor), "q 4 (100)-\nq 3..3\nq 2 (100)-\nq 1..1\nq 0 (100)-\nq -1..-32768\n"));
	assert_null(strstr(shown(cursor), "p "));
}

/* ---- forgetting ------------------------------------------------------------------------------- */

static void what_was_learnt_from_another_server_is_forgotten(void **state)
{
	struct cursor *cursor = *state;

	cursor_meet(cursor, "q", 0);
	learn_from(cursor, NONE, NONE, 100);
	cursor_learn(cursor, NULL, NULL, 0, true, NULL, 0, 200, START + 1, 1);
	assert_int_equal(cursor->lanes, 0);
	assert_string_equal(shown(cursor), "");
	/* And learnt anew. */
	cursor_meet(cursor, "q", 0);
	learn_from(cursor, NONE, NONE, 60);
	assert_string_equal(shown(cursor), "q 32767..1\nq 0 (60)-\nq -1..-32768\n");
}

static void what_an_earlier_run_has_learnt_holds_for_this_one(void **state)
{
	struct cursor *cursor = *state;
	struct cursor_lane known = { .priority = 3, .live = { 100, 7 }, .hole = { { 80, INT64_MIN, INT64_MIN }, { 90, INT64_MIN, INT64_MIN } }, .holes = 2 };

	cursor_meet(cursor, "q", 5);
	cursor_recall(cursor, "q", &known, START, 2000);
	assert_string_equal(shown(cursor), "q 32767..6\nq 5 (0)-\nq 4..4\nq 3 ?80\nq 3 ?90\nq 3 (100,7)-\nq 2..-32768\n");
	assert_true(cursor->server == START && cursor->since_ns == 2000);
	/* The oldest says when all is to be read again. */
	known.priority = 4;
	cursor_recall(cursor, "q", &known, START, 1000);
	assert_true(cursor->lanes == 3 && cursor->since_ns == 1000);
	cursor_recall(cursor, "q", &known, START, 3000);
	assert_true(cursor->lanes == 3 && cursor->since_ns == 1000);
	/* The server has come back with fewer transactions than it had. */
	learn_from(cursor, NONE, NONE, 60);
	assert_int_equal(cursor->lanes, 0);
}

static void a_position_ahead_of_all_transactions_is_forgotten(void **state)
{
	struct cursor *cursor = *state;

	cursor_meet(cursor, "q", 0);
	learn_from(cursor, NONE, NONE, 100);
	learn_from(cursor, NONE, NONE, 100); /* nobody wrote: not ahead */
	assert_int_equal(cursor->lanes, 1);
	learn_from(cursor, NONE, NONE, 99);
	assert_int_equal(cursor->lanes, 0);
}

static void a_now_before_the_last_learning_forgets_nothing(void **state)
{
	struct cursor *cursor = *state;

	cursor_meet(cursor, "q", 0);
	learn_from(cursor, NONE, NONE, 100); /* at 1 */
	cursor_forget_when_old(cursor, 0);
	assert_int_equal(cursor->lanes, 1);
}

static void what_is_old_is_forgotten(void **state)
{
	struct cursor *cursor = *state;

	cursor_meet(cursor, "q", 0);
	cursor_forget_when_old(cursor, CURSOR_AGE_MAX_NS * 9); /* nothing was learnt yet */
	assert_int_equal(cursor->lanes, 1);
	learn_from(cursor, NONE, NONE, 100); /* at 1 */
	learn_from(cursor, NONE, NONE, 200);
	cursor_forget_when_old(cursor, CURSOR_AGE_MAX_NS + 1);
	assert_int_equal(cursor->lanes, 1);
	cursor_forget_when_old(cursor, CURSOR_AGE_MAX_NS + 2);
	assert_int_equal(cursor->lanes, 0);
	assert_int_equal(cursor->since_ns, 0);
}

/* ---- against a model -------------------------------------------------------------------------- */

/*
 * A table of row versions under transactions that begin, write, commit, roll back and stay open, and two workers
 * with cursors. Whatever happens, each visible row must lie in exactly one of the parts that are read, each ready one that
 * nobody had locked in exactly one of those from what is ready, and the parts must come in the order of the index.
 */
#define TXS_MAX 20000
#define VERSIONS_MAX 3000
#define IDS_MAX 100000

struct model {
	struct version {
		struct row row;      /* xid: the transaction that made it ready */
		uint64_t made_by;    /* that of this version: one that claimed it */
		uint64_t deleted_by; /* 0: nobody; undone when that is rolled back */
		bool passed;         /* it was claimed or locked when somebody looked */
	} version[VERSIONS_MAX];
	size_t versions;
	enum { UNUSED, OPEN, COMMITTED, ABORTED } tx[TXS_MAX];
	uint64_t next, completed; /* transaction ids */
	uint64_t xip[TXS_MAX];
	size_t xip_len;
	uint64_t random;
	int64_t ids;
};

static unsigned int draw(struct model *m, unsigned int below)
{
	m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned int)((m->random >> 33) % below);
}

static const char *const queue_names[] = { "a", "b", "c" };

static void insert(struct model *m, uint64_t tx, const char *queue, int priority)
{
	if (m->versions < VERSIONS_MAX)
		m->version[m->versions++] = (struct version){ { queue, priority, tx, ++m->ids, false }, tx, 0, false };
}

/* Visible to the snapshot of transaction own (0: of nobody). */
static bool visible(const struct model *m, const struct version *v, uint64_t own)
{
	return (m->tx[v->made_by] == COMMITTED || v->made_by == own) &&
	       !(v->deleted_by && (m->tx[v->deleted_by] == COMMITTED || v->deleted_by == own));
}

static void end(struct model *m, uint64_t tx, bool commit)
{
	size_t kept = 0;

	m->tx[tx] = commit ? COMMITTED : ABORTED;
	if (tx > m->completed)
		m->completed = tx;
	for (size_t i = 0; i < m->versions; i++) {
		struct version v = m->version[i];

		if (v.deleted_by == tx && !commit)
			v.deleted_by = 0;
		if (!(v.made_by == tx && !commit) && !(v.deleted_by == tx && commit))
			m->version[kept++] = v;
	}
	m->versions = kept;
}

/* A visible row that nobody has locked: claim or delete it, or have it ready again at the tail of its lane. */
static void touch(struct model *m, uint64_t tx)
{
	struct version *v = m->versions ? &m->version[draw(m, (unsigned int)m->versions)] : NULL;

	if (!v || v->deleted_by || !visible(m, v, tx) || m->versions == VERSIONS_MAX)
		return;
	v->deleted_by = tx;
	if (draw(m, 4) == 0) {
		insert(m, tx, v->row.queue, v->row.priority);
		m->version[m->versions - 1].row.id = v->row.id;
	} else if (!v->row.claimed && draw(m, 2) == 0) {
		insert(m, tx, v->row.queue, v->row.priority);
		m->version[m->versions - 1].row = v->row;
		m->version[m->versions - 1].row.claimed = true;
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int c = strcmp(x->queue, y->queue);

	if (c == 0)
		c = (x->priority < y->priority) - (x->priority > y->priority);
	if (c == 0)
		c = (x->xid > y->xid) - (x->xid < y->xid);
	return c ? c : (x->id > y->id) - (x->id < y->id);
}

static void take_snapshot(struct model *m, uint64_t own)
{
	m->xip_len = 0;
	for (uint64_t tx = 1; tx <= m->completed; tx++)
		if (m->tx[tx] == OPEN && tx != own)
			m->xip[m->xip_len++] = tx;
}

static void check_parts(const struct model *m, const struct cursor *cursor, bool whole, const struct row *rows, const bool *passed, size_t rows_len)
{
	struct cursor_segment *s;
	size_t n = cursor_segments(cursor, whole, &s);

	for (size_t j = 0; j < rows_len; j++) {
		size_t times = 0, named = 0;

		for (size_t i = 0; i < n; i++) {
			named += strcmp(s[i].queue, rows[j].queue) == 0;
			times += (s[i].hole == 0 || (s[i].hole <= m->completed && !in_set(s[i].hole, m->xip, m->xip_len))) && in_segment(&s[i], &rows[j]);
		}
		if (!whole && passed[rows[j].id] && times == 0)
			continue;
		if (times != (named > 0 ? 1 : 0))
			fail_msg("row (%s, %d, %" PRIu64 ", %" PRId64 ") is read %zu times; %s", rows[j].queue, rows[j].priority,
				 rows[j].xid, rows[j].id, times, shown_of(cursor, whole));
	}
	for (size_t i = 1; i < n; i++)
		if (strcmp(s[i - 1].queue, s[i].queue) == 0)
			assert_true(s[i - 1].low > s[i].high || (s[i - 1].lane == s[i].lane && s[i - 1].until_xid <= s[i].from.xid));
	free(s);
}

/* A claim with a look: check what is read, then learn if it commits. */
static void claim(struct model *m, struct cursor *cursor, bool looks)
{
	static struct row rows[VERSIONS_MAX];
	static bool passed[IDS_MAX];
	uint64_t own = m->next++;
	size_t rows_len = 0;
	bool commits = draw(m, 8) != 0;

	m->tx[own] = OPEN;
	for (unsigned int i = draw(m, 12); i > 0; i--)
		touch(m, own);
	take_snapshot(m, own);
	for (size_t i = 0; i < m->versions; i++) {
		struct version *v = &m->version[i];

		if (!visible(m, v, own))
			continue;
		rows[rows_len] = v->row;
		rows[rows_len].claimed |= v->deleted_by != 0;
		passed[v->row.id] = v->passed |= rows[rows_len++].claimed;
	}
	qsort(rows, rows_len, sizeof(rows[0]), compare_rows);
	check_parts(m, cursor, true, rows, passed, rows_len);
	check_parts(m, cursor, false, rows, passed, rows_len);
	if (commits && looks && cursor->lanes > 0)
		learn(cursor, draw(m, 2) == 0, rows, rows_len, m->xip, m->xip_len, m->completed + 1);
	if (commits && rows_len > 0)
		for (unsigned int i = draw(m, 4); i > 0; i--) {
			const struct row *r = &rows[draw(m, (unsigned int)rows_len)];

			cursor_meet(cursor, r->queue, r->priority);
		}
	end(m, own, commits);
}

static void run_model(struct model *m, uint64_t seed, int steps, unsigned int open_max)
{
	static struct cursor cursor[2];

	memset(m, 0, sizeof(*m));
	m->random = seed;
	m->next = 3;
	m->completed = 2;
	for (int step = 0; step < steps && m->next < TXS_MAX; step++) {
		uint64_t open[TXS_MAX / 10];
		size_t open_len = 0;
		unsigned int what = draw(m, 100), ends = open_max > 100 ? 62 : 75; /* so that more are open than can be kept */

		for (uint64_t tx = 1; tx < m->next && open_len < LEN(open); tx++)
			if (m->tx[tx] == OPEN)
				open[open_len++] = tx;
		if (what < 25 && open_len < open_max) {
			m->tx[m->next++] = OPEN;
		} else if (what < 55 && open_len > 0) {
			uint64_t tx = open[draw(m, (unsigned int)open_len)];

			for (unsigned int i = draw(m, 4); i > 0; i--)
				insert(m, tx, queue_names[draw(m, 3)], (int)draw(m, open_max > 100 ? 40 : 3) - 1);
			touch(m, tx);
		} else if (what < ends && open_len > 0) {
			/* The old ones stay longest. */
			size_t i = open_len - 1 - draw(m, draw(m, (unsigned int)open_len) + 1);

			end(m, open[i], draw(m, 4) != 0);
		} else {
			claim(m, &cursor[draw(m, 2)], draw(m, 3) != 0);
		}
	}
	cursor_forget(&cursor[0]);
	cursor_forget(&cursor[1]);
}

static void every_visible_row_is_read_exactly_once(void **state)
{
	struct model *m = malloc(sizeof(*m));
	const char *given = getenv("CURSOR_TEST_SEED");

	(void)state;
	assert_non_null(m);
	for (uint64_t seed = given ? strtoull(given, NULL, 10) : 1, last = given ? seed : 24; seed <= last; seed++) {
		print_message("# seed %" PRIu64 "\n", seed);
		run_model(m, seed, 1200, seed % 4 == 0 ? 200 : 12);
	}
	free(m);
}

int main(void)
{
#define CURSOR_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CURSOR_TEST(without_a_lane_nothing_is_said_of_any_queue),
		CURSOR_TEST(a_lane_lies_between_two_gaps),
		CURSOR_TEST(lanes_go_from_high_to_low_and_leave_no_priority_out),
		CURSOR_TEST(at_the_ends_of_the_range_there_is_no_gap),
		CURSOR_TEST(each_queue_has_its_own_gaps),
		CURSOR_TEST(the_position_is_the_first_live_row),
		CURSOR_TEST(without_a_live_row_the_position_is_behind_the_snapshot),
		CURSOR_TEST(rows_from_ahead_of_the_snapshot_do_not_take_the_position_along),
		CURSOR_TEST(holes_before_the_position_come_first_and_those_behind_it_cut_the_walk),
		CURSOR_TEST(rows_of_the_position_s_own_transaction_before_its_id_are_left_out),
		CURSOR_TEST(a_transaction_that_ended_stays_a_hole_while_it_has_live_rows),
		CURSOR_TEST(a_hole_behind_the_position_becomes_the_position_where_it_has_the_first_live_row),
		CURSOR_TEST(what_is_claimed_is_passed_by_what_is_ready),
		CURSOR_TEST(a_transaction_that_ended_between_what_is_live_and_what_is_ready_stays_a_hole),
		CURSOR_TEST(what_is_ready_stays_where_it_was_when_it_is_not_looked_for),
		CURSOR_TEST(a_hole_still_open_is_kept_whatever_lies_around_it),
		CURSOR_TEST(each_lane_learns_for_itself),
		CURSOR_TEST(a_row_found_in_a_gap_makes_a_lane),
		CURSOR_TEST(holes_that_cannot_be_kept_lie_behind_the_position),
		CURSOR_TEST(ended_holes_with_live_rows_count_among_those_that_are_kept),
		CURSOR_TEST(holes_behind_the_position_that_cannot_be_kept_do_no_harm),
		CURSOR_TEST(lanes_that_cannot_be_kept_stay_in_a_gap),
		CURSOR_TEST(what_was_learnt_from_another_server_is_forgotten),
		CURSOR_TEST(what_an_earlier_run_has_learnt_holds_for_this_one),
		CURSOR_TEST(a_position_ahead_of_all_transactions_is_forgotten),
		CURSOR_TEST(a_now_before_the_last_learning_forgets_nothing),
		CURSOR_TEST(what_is_old_is_forgotten),
		cmocka_unit_test(every_visible_row_is_read_exactly_once),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cursor", tests, NULL, NULL);
}
