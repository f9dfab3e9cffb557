/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "engine/pure/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS NS_PER_MS
#define MANY INT64_MAX

/* What a row below does not say: two runners with nothing in hand, ten seconds after boot; delayed jobs and all lanes
 * were looked at just now. */
#define IN(...) \
	((struct plan_in){ .now = 10000 * MS, \
			   .left = MANY, \
			   .batch = 500, \
			   .run_us = -1, \
			   .runners = 2, \
			   .room = 2, \
			   .idle = 2, \
			   .lanes = true, \
			   __VA_ARGS__ })
#define PLAN(...) ((struct plan){ .promoted_ns = 9900 * MS, .lanes_ns = 11000 * MS, __VA_ARGS__ })

#pragma GCC diagnostic ignored "-Woverride-init"

static struct plan_ask next(struct plan p, struct plan_in in)
{
	return plan_next(&p, &in);
}

/* How many jobs there is use for. */
static void jobs_are_wanted_for_runners_and_a_moment_ahead(void **state)
{
	const struct {
		const char *what;
		struct plan plan;
		struct plan_in in;
		int64_t wanted;
	} table[] = {
		{ "nothing is known of jobs: one for each runner", PLAN(), IN(), 2 },
		{ "long jobs, one runner busy", PLAN(), IN(.run_us = 1e6, .room = 1), 1 },
		{ "long jobs, all runners busy", PLAN(), IN(.run_us = 1e6, .room = 0), 0 },
		{ "a job waits for the free runner already", PLAN(), IN(.run_us = 1e6, .room = 2, .unstarted = 2), 0 },
		{ "a job waits for a running one of its key", PLAN(),
		  IN(.run_us = 1e6, .room = 1, .unstarted = 9, .held = 9), 1 },
		{ "long calls of many jobs: as many for each runner", PLAN(), IN(.run_us = 1e4, .per_call = 100), 200 },
		{ "some of these wait already", PLAN(), IN(.run_us = 1e4, .per_call = 100, .unstarted = 30), 170 },
		{ "short calls of many jobs: one for each runner at least", PLAN(), IN(.run_us = 10, .per_call = 100),
		  200 },
		{ "more runners than a batch", PLAN(), IN(.batch = 3, .room = 8), 3 },
		{ "short jobs: twice as many as last time", PLAN(.asked = 20), IN(.run_us = 100), 40 },
		{ "short jobs: what runners do in 25 ms", PLAN(.asked = 400), IN(.run_us = 1000), 50 },
		{ "short jobs: not more than a batch", PLAN(.asked = 400), IN(.run_us = 10), 500 },
		{ "short jobs: one batch is in hand", PLAN(.asked = 400), IN(.run_us = 10, .unstarted = 501), 0 },
		{ "the count is nearly spent", PLAN(.asked = 400), IN(.run_us = 10, .left = 7), 7 },
		{ "the count is spent", PLAN(), IN(.left = 0), 0 },
		{ "a group's round is over, and jobs came back", PLAN(), IN(.left = -3), 0 },
		{ "told to stop", PLAN(), IN(.closed = true), 0 },
		{ "leases are asked about first", PLAN(), IN(.hold = true), 0 },
		{ "nothing is ready", PLAN(.exhausted = true), IN(), 0 },
		{ "not yet, for a rate", PLAN(.claim_ns = 10001 * MS), IN(), 0 },
		{ "an attempt has ended: who knows", PLAN(.claim_ns = 10001 * MS, .ended = 1), IN(), 2 },
		{ "params fill what there is for them", PLAN(), IN(.params = 16 << 20, .idle = 0), 0 },
		{ "but a runner stands idle", PLAN(), IN(.params = 16 << 20), 2 },
		{ "jobs with leases of their own, no runner free", PLAN(.single_lease_only = true), IN(.room = 0), 0 },
		{ "jobs with leases of their own, short, one for each runner", PLAN(.single_lease_only = true),
		  IN(.run_us = 100, .single_lease = 2), 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int64_t wanted = next(table[i].plan, table[i].in).wanted;

		if (wanted != table[i].wanted)
			fail_msg("%s: wanted %lld, not %lld", table[i].what, (long long)wanted,
				 (long long)table[i].wanted);
	}
}

static void a_round_trip_for_a_few_of_a_crowd_waits(void **state)
{
	struct plan p = PLAN(.asked = 100);
	struct plan_in in = IN(.run_us = 10, .left = 49, .load = 30);
	struct plan_ask ask = next(p, in);

	(void)state;
	assert_int_equal(ask.wanted, 49); /* so results go along at once */
	assert_int_equal(ask.free + ask.limited, 0);
	in.left = 50;
	assert_int_equal(next(p, in).free, 50);
	in.left = 49;
	in.load = 0;
	assert_int_equal(next(p, in).free, 49);
	in.load = 30;
	in.run_us = 1001;
	assert_int_equal(next(p, in).free, 49);
}

static void jobs_under_limits_are_asked_for_as_they_come(void **state)
{
	struct plan_in in = IN(.runners = 10, .room = 10, .idle = 10);
	const struct {
		const char *what;
		struct plan plan;
		int64_t left, free, limited;
	} table[] = {
		{ "none are known", PLAN(), MANY, 10, 0 },
		{ "one job, the other kind's turn", PLAN(.limits = true), 1, 1, 0 },
		{ "one job, their turn", PLAN(.limits = true, .limited_turn = true), 1, 0, 1 },
		{ "none came last time", PLAN(.limits = true), MANY, 9, 1 },
		{ "a search was in vain", PLAN(.limits = true, .free_got = 5, .limited_ns = 10001 * MS), MANY, 10, 0 },
		{ "one job, their turn, and a search was in vain",
		  PLAN(.limits = true, .limited_turn = true, .free_got = 5, .limited_ns = 10001 * MS), 1, 1, 0 },
		{ "a search was in vain, and there are no others", PLAN(.limits = true, .limited_ns = 10001 * MS), MANY,
		  9, 1 },
		{ "some came", PLAN(.limits = true, .limited_got = 3), MANY, 5, 5 },
		{ "some came, and there are no others", PLAN(.limits = true, .limited_got = 3, .dry = true), MANY, 1,
		  9 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct plan_ask ask;

		in.left = table[i].left;
		ask = next(table[i].plan, in);
		if (ask.free != table[i].free || ask.limited != table[i].limited)
			fail_msg("%s: %lld and %lld", table[i].what, (long long)ask.free, (long long)ask.limited);
	}
}

/* How many jobs of one key a claim may take. */
static void a_run_leaves_each_runner_several_keys(void **state)
{
	const struct {
		const char *what;
		struct plan plan;
		struct plan_in in;
		int run;
	} table[] = {
		{ "short jobs", PLAN(.asked = 500, .key_run = 32), IN(.run_us = 10), 31 },
		{ "many of them", PLAN(.asked = 5000, .key_run = 32), IN(.run_us = 1, .batch = 5000), 32 },
		{ "many runners", PLAN(.asked = 500, .key_run = 32), IN(.run_us = 10, .runners = 20), 3 },
		{ "more runners than jobs", PLAN(.asked = 500, .key_run = 32), IN(.run_us = 10, .runners = 200), 1 },
		{ "few jobs", PLAN(.asked = 10, .key_run = 32), IN(.run_us = 10), 1 },
		{ "long jobs", PLAN(.asked = 500, .key_run = 32), IN(.run_us = 25000, .room = 500), 1 },
		{ "nothing is known of jobs", PLAN(.asked = 500, .key_run = 32), IN(.room = 500), 1 },
		{ "nothing is known of keys", PLAN(.asked = 500), IN(.run_us = 10), 1 },
		{ "it grows", PLAN(.asked = 500, .key_run = 4), IN(.run_us = 10), 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct plan p = table[i].plan;

		p.limits = p.dry = true;
		p.limited_got = 1;
		if (next(p, table[i].in).run != table[i].run)
			fail_msg("%s: %d", table[i].what, next(p, table[i].in).run);
	}
}

/* Sends the claim that comes next, and takes in what came of it. */
static int64_t claim(struct plan *p, const struct plan_in *in, struct plan_got got)
{
	struct plan_ask ask = plan_next(p, in);

	assert_true(ask.free + ask.limited > 0);
	plan_sent(p, &ask, p->adds, in->now);
	got.sent_ns = in->now;
	got.free = ask.free > 0;
	got.limited = ask.limited > 0;
	got.promoted = ask.promote;
	got.looked = ask.look;
	return plan_learn(p, &got);
}

/* Many queues that give nothing take a part of the time, not most of it. */
static void next_to_jobs_without_limits_a_search_in_vain_for_others_is_rare(void **state)
{
	struct plan p = PLAN(.limits = true);
	struct plan_in in = IN();
	struct plan_got got = { .limits = true, .free_n = 1, .more = true, .limited_us = 1000 };
	int searches = 0;

	(void)state;
	for (int i = 0; i < 990; i++, in.now += MS) {
		searches += plan_next(&p, &in).limited > 0;
		claim(&p, &in, got);
		plan_ended(&p);
	}
	assert_int_equal(searches, 20);
	got.busy = true; /* others were quicker with those without limits */
	got.free_n = 0;
	claim(&p, &in, got);
	assert_int_equal(plan_next(&p, &in).limited, 0);
	got.busy = false; /* there are no more of them */
	claim(&p, &in, got);
	assert_int_equal(plan_next(&p, &in).limited, 1);
	got.free_n = 1;
	got.limited_n = 1; /* there are some */
	claim(&p, &in, got);
	assert_int_equal(plan_next(&p, &in).limited, 1);
	got.limited_n = 0;
	got.limited_seen = 1; /* others were quicker with these */
	claim(&p, &in, got);
	assert_int_equal(plan_next(&p, &in).limited, 1);
	got.limited_seen = 0;
	got.limited_us = 1000000; /* even so */
	claim(&p, &in, got);
	in.now += 250 * MS;
	assert_int_equal(plan_next(&p, &in).limited, 1);
	got.more = false; /* it has come to all queues */
	claim(&p, &in, got);
	assert_int_equal(plan_next(&p, &in).limited, 1);
}

static void what_must_begin_at_once_is_no_more_than_runners_take(void **state)
{
	struct plan_in in = IN(.runners = 4, .room = 3, .idle = 2, .run_us = 1e6);

	(void)state;
	assert_int_equal(next(PLAN(), in).single_lease, 3);
	assert_int_equal(next(PLAN(), in).rated, 2);
	in.unstarted = 1;
	assert_int_equal(next(PLAN(), in).single_lease, 2);
	assert_int_equal(next(PLAN(), in).rated, 1);
	in = IN(.runners = 4, .room = 3, .idle = 2, .unstarted = 1, .run_us = 1000, .single_lease = 1, .limited = 30);
	assert_int_equal(next(PLAN(), in).single_lease, 3);
	assert_int_equal(next(PLAN(), in).rated, 50); /* 4 runners, 20 ms: 80, of which 30 are in hand */
	in.run_us = 1;                                /* handing over takes longer */
	assert_int_equal(next(PLAN(), in).rated, 370);
	in.run_us = 24000;
	in.limited = 0;
	assert_int_equal(next(PLAN(), in).rated, 4);
}

static void a_claim_takes_delayed_jobs_and_other_lanes_along_when_it_is_time(void **state)
{
	(void)state;
	assert_false(next(PLAN(), IN()).promote);
	assert_false(next(PLAN(), IN()).look);
	assert_true(next(PLAN(.promoted_ns = 9000 * MS), IN()).promote);
	assert_false(next(PLAN(.promoted_ns = 9000 * MS, .woken = true), IN()).promote);
	assert_true(next(PLAN(.look_at_delayed = true, .woken = true), IN()).promote);
	assert_true(next(PLAN(.lanes_ns = 10000 * MS), IN()).look);
	assert_true(next(PLAN(), IN(.lanes = false)).look);
	assert_false(next(PLAN(.exhausted = true, .look_at_delayed = true), IN()).promote); /* no claim, no look */
	assert_int_equal(next(PLAN(), IN(.params = 1000)).bytes, (16 << 20) - 1000);
	assert_int_equal(next(PLAN(), IN(.params = 17 << 20)).bytes, 0);
}

/* What it was woken for may be delayed after all, or lie in a lane that nobody knew. */
static void only_the_first_claim_after_a_notification_leaves_delayed_jobs_out(void **state)
{
	struct plan p = PLAN(.exhausted = true, .promoted_ns = 0);
	struct plan_in in = IN(.lanes = false);

	(void)state;
	plan_woken(&p, false);
	assert_true(plan_next(&p, &in).look);
	claim(&p, &in, (struct plan_got){ .free_n = 0 });
	assert_false(p.exhausted);
	assert_true(plan_next(&p, &in).promote);
	claim(&p, &in, (struct plan_got){ .free_n = 0 });
	assert_true(p.exhausted);
	plan_woken(&p, true);
	assert_true(plan_next(&p, &in).promote);
}

static void nothing_is_ready_once_everybody_was_asked(void **state)
{
	struct plan p = { 0 };

	(void)state;
	claim(&p, &IN(), (struct plan_got){ 0 });
	assert_true(p.exhausted);

	p = PLAN(); /* delayed ones were not looked at: the next claim does, and all lanes are asked */
	claim(&p, &IN(), (struct plan_got){ 0 });
	assert_false(p.exhausted);
	assert_true(p.look_at_delayed);
	assert_int_equal(p.claim_ns, 11000 * MS);
	claim(&p, &IN(.now = 11000 * MS), (struct plan_got){ 0 });
	assert_true(p.exhausted);

	p = (struct plan){ 0 }; /* fewer than asked for: the next one finds out for good */
	claim(&p, &IN(), (struct plan_got){ .free_n = 1 });
	assert_false(p.exhausted);
	assert_true(p.look_at_delayed);

	p = (struct plan){ 0 };
	claim(&p, &IN(), (struct plan_got){ .free_n = 2 });
	assert_false(p.look_at_delayed);

	p = (struct plan){ 0 }; /* what waits to be recorded may be ready again */
	claim(&p, &IN(), (struct plan_got){ .unrecorded = true });
	assert_false(p.exhausted);
}

static void an_attempt_that_ends_meanwhile_may_have_deferred_more(void **state)
{
	struct plan p = { 0 };
	struct plan_ask ask = plan_next(&p, &IN());

	(void)state;
	plan_sent(&p, &ask, false, IN().now);
	plan_ended(&p);
	plan_learn(&p, &(struct plan_got){ .free = true, .promoted = true, .looked = true, .sent_ns = IN().now });
	assert_false(p.exhausted);
	assert_true(p.dry);
	claim(&p, &IN(.now = 12000 * MS), (struct plan_got){ 0 });
	assert_true(p.exhausted);
	plan_ended(&p);
	assert_false(p.exhausted);

	p = PLAN(.dry = true, .limited_dry = true, .ended = 1);
	ask = plan_next(&p, &IN());
	plan_sent(&p, &ask, false, IN().now);
	assert_false(p.dry || p.limited_dry);
}

static void a_cycle_that_makes_jobs_ready_makes_nothing_dry(void **state)
{
	struct plan p = { .dry = true, .limited_dry = true, .exhausted = true, .adds = true };

	(void)state;
	plan_learn(&p, &(struct plan_got){ 0 });
	assert_false(p.exhausted || p.dry || p.limited_dry);
	p = (struct plan){ .adds = true };
	claim(&p, &IN(), (struct plan_got){ 0 }); /* a claim behind it has seen them */
	assert_true(p.exhausted);
}

/* With one runner the kinds take turns. What the cycle made ready may be of the kind that was asked before. */
static void what_became_due_is_asked_for_in_both_kinds(void **state)
{
	struct plan p = PLAN(.limits = true, .limited_turn = true, .dry = true, .look_at_delayed = true);
	struct plan_in one = IN(.left = 1);

	(void)state;
	claim(&p, &one, (struct plan_got){ .limits = true, .made_ready = true });
	assert_false(p.exhausted || p.dry || p.limited_dry);
	assert_int_equal(plan_next(&p, &one).free, 1);
}

static void who_meets_locked_jobs_asks_again_but_not_for_ever(void **state)
{
	struct plan p = { 0 };
	int64_t pause_ms = 0;

	(void)state;
	for (int i = 1; i < 7; i++) {
		pause_ms = claim(&p, &IN(), (struct plan_got){ .busy = true });
		assert_int_equal(pause_ms, 20 << i);
		assert_false(p.exhausted);
	}
	assert_int_equal(claim(&p, &IN(), (struct plan_got){ .busy = true }), 0);
	assert_true(p.exhausted);
	p = (struct plan){ 0 }; /* a run until nothing is ready */
	for (uint64_t ns = 0; ns <= 60 * NS_PER_S; ns += (uint64_t)pause_ms * MS) {
		pause_ms = claim(&p, &IN(.now = IN().now + ns), (struct plan_got){ .busy = true, .waits = true });
		assert_true(pause_ms >= 40 && pause_ms <= 1280);
		assert_false(p.exhausted);
	}
	assert_int_equal(
		claim(&p, &IN(.now = IN().now + 61 * NS_PER_S), (struct plan_got){ .busy = true, .waits = true }), 0);
	assert_true(p.exhausted);
	p.exhausted = false;
	claim(&p, &IN(), (struct plan_got){ .free_n = 2 });
	assert_int_equal(p.empty_handed, 0);
}

/* Jobs or queues are left that the claim did not look at. */
static void what_was_not_looked_at_is_asked_for_at_once(void **state)
{
	const struct plan_got none = { .sent_ns = 10000 * MS,
				       .free = true,
				       .limited = true,
				       .promoted = true,
				       .looked = true,
				       .limits = true,
				       .look_us = 100 };
	struct plan_got more = none;
	struct plan p = PLAN(.promoted_ns = 10000 * MS);
	struct plan_ask ask;

	(void)state;
	more.more = true;
	for (int i = 0; i < 100; i++) {
		ask = plan_next(&p, &IN());
		assert_true(ask.free > 0 && ask.new_round == (i == 0));
		ask.limited = 1;
		plan_sent(&p, &ask, false, 10000 * MS);
		assert_int_equal(plan_learn(&p, &more), 0);
		assert_false(p.dry || p.limited_dry || p.exhausted);
	}
	ask = plan_next(&p, &IN());
	assert_false(ask.new_round);
	assert_int_equal(plan_learn(&p, &none), 0);
	assert_true(p.exhausted);
}

/* What was looked at before is looked at again. */
static void a_round_begins_anew_with_what_may_be_ready_since(void **state)
{
	struct plan_ask ask = { .free = 1, .limited = 1 };
	struct plan p = PLAN();

	(void)state;
	plan_sent(&p, &ask, false, 10000 * MS);
	assert_false(plan_next(&p, &IN()).new_round);
	plan_heard(&p);
	assert_true(plan_next(&p, &IN()).new_round);
	plan_sent(&p, &ask, false, 10000 * MS);
	plan_again(&p);
	assert_true(plan_next(&p, &IN()).new_round);
	plan_sent(&p, &ask, false, 10000 * MS);
	plan_ended(&p);
	assert_true(plan_next(&p, &IN()).new_round);
	plan_sent(&p, &ask, false, 10000 * MS);
	assert_false(plan_next(&p, &IN()).new_round);
	plan_learn(&p, &(struct plan_got){ .free = true, .limited = true, .limited_n = 1, .more = true });
	assert_true(plan_next(&p, &IN()).new_round);
	plan_sent(&p, &ask, false, 10000 * MS);
	plan_learn(&p, &(struct plan_got){ .free = true, .limited = true, .made_ready = true, .more = true });
	assert_true(plan_next(&p, &IN()).new_round);
}

static void a_run_waits_for_a_rate_and_a_service_sleeps(void **state)
{
	struct plan_got got = { .limits = true, .wait_ms = 3000, .waits = true };
	struct plan start = { .limits = true, .limited_turn = true }, p;
	struct plan_in one = IN(.left = 1);

	(void)state;
	p = start;
	p.dry = true;
	claim(&p, &one, got);
	assert_false(p.exhausted);
	assert_int_equal(p.claim_ns, one.now + 1000 * MS); /* others may come meanwhile */
	assert_true(plan_idle(&p, one.now));

	p = start;
	p.dry = true;
	got.waits = false;
	claim(&p, &one, got);
	assert_true(p.exhausted);
	assert_int_equal(p.rate_ns, one.now + 3000 * MS);

	p = start;
	p.dry = true;
	got.waits = true;
	got.wait_ms = 61000; /* too long */
	claim(&p, &one, got);
	assert_true(p.exhausted);
}

static void what_was_cut_is_not_asked_for_again_at_once(void **state)
{
	struct plan p = PLAN(.asked = 400);
	struct plan_in in = IN(.run_us = 10);

	(void)state;
	claim(&p, &in, (struct plan_got){ .free_n = 3, .cut = true });
	assert_int_equal(p.asked, 3);
	assert_false(p.single_lease_only || p.look_at_delayed);
	assert_int_equal(next(p, in).wanted, 6);
	claim(&p, &in, (struct plan_got){ .free_n = 2, .single_lease_n = 2, .cut = true });
	assert_true(p.single_lease_only);
	claim(&p, &in, (struct plan_got){ .free_n = 2, .single_lease_n = 2 });
	assert_false(p.single_lease_only);
}

static void lanes_are_looked_for_again_the_later_the_longer_it_took(void **state)
{
	struct plan p = { 0 };

	(void)state;
	claim(&p, &IN(), (struct plan_got){ .free_n = 2, .look_us = 10000 });
	assert_int_equal(p.lanes_ns, IN().now + 200 * MS);
	p = (struct plan){ 0 };
	claim(&p, &IN(), (struct plan_got){ .free_n = 2, .look_us = 1000000 });
	assert_int_equal(p.lanes_ns, IN().now + 250 * MS);
	p = (struct plan){ 0 };
	claim(&p, &IN(), (struct plan_got){ .free_n = 2, .look_us = 1000000, .more = true });
	assert_int_equal(p.lanes_ns, IN().now + 50 * MS);
}

/* A claim looks at some of the lanes, and the next one at further ones. */
static void a_round_through_all_lanes_goes_on_while_nothing_was_missed(void **state)
{
	const struct plan_got more = { .more = true };
	struct plan p = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_true(plan_next(&p, &IN()).look);
		assert_int_equal(plan_next(&p, &IN()).new_lanes_round, i == 0);
		claim(&p, &IN(), more);
		assert_false(p.dry || p.exhausted);
		assert_true(p.look_at_delayed); /* the last one has to, or another round would follow */
	}
	claim(&p, &IN(), (struct plan_got){ 0 });
	assert_true(p.exhausted);

	for (int i = 0; i < 6; i++) {
		p = (struct plan){ 0 };
		claim(&p, &IN(), more);
		if (i == 0)
			plan_heard(&p);
		else if (i == 1)
			plan_again(&p);
		else if (i == 2)
			plan_ended(&p);
		else
			claim(&p, &IN(),
			      (struct plan_got){
				      .more = true, .busy = i == 3, .made_ready = i == 4, .free_n = i == 5 });
		assert_true(plan_next(&p, &IN()).new_lanes_round);
	}
}

static void a_run_grows_while_only_keys_limit_jobs_and_few_of_these_fail(void **state)
{
	struct plan p = PLAN(.limits = true, .limited_got = 1, .dry = true);
	struct plan_in in = IN(.lanes = false);
	const struct {
		const char *what;
		struct plan_got got;
		int run;
	} table[] = {
		{ "only keys limit the jobs", { .limited_n = 100, .limited_keyed = true }, 2 },
		{ "again", { .limited_n = 100, .limited_keyed = true }, 4 },
		{ "nothing was got", { .limited_seen = 1, .waits = true }, 4 },
		{ "few had failed", { .limited_n = 100, .limited_keyed = true, .dropped = 25 }, 8 },
		{ "many had failed", { .limited_n = 100, .limited_keyed = true, .dropped = 26 }, 4 },
		{ "other limits matter", { .limited_n = 100 }, 1 },
		{ "many had failed again", { .limited_n = 1, .limited_keyed = true, .dropped = 9 }, 0 },
		{ "none had", { .limited_n = 1, .limited_keyed = true }, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct plan_got got = table[i].got;

		got.limits = true;
		claim(&p, &in, got);
		if (p.key_run != table[i].run)
			fail_msg("%s: %d", table[i].what, p.key_run);
	}
	for (int i = 0; i < 9; i++)
		claim(&p, &in, (struct plan_got){ .limits = true, .limited_n = 1, .limited_keyed = true });
	assert_int_equal(p.key_run, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_are_wanted_for_runners_and_a_moment_ahead),
		cmocka_unit_test(a_round_trip_for_a_few_of_a_crowd_waits),
		cmocka_unit_test(jobs_under_limits_are_asked_for_as_they_come),
		cmocka_unit_test(a_run_leaves_each_runner_several_keys),
		cmocka_unit_test(a_run_grows_while_only_keys_limit_jobs_and_few_of_these_fail),
		cmocka_unit_test(next_to_jobs_without_limits_a_search_in_vain_for_others_is_rare),
		cmocka_unit_test(what_must_begin_at_once_is_no_more_than_runners_take),
		cmocka_unit_test(a_claim_takes_delayed_jobs_and_other_lanes_along_when_it_is_time),
		cmocka_unit_test(nothing_is_ready_once_everybody_was_asked),
		cmocka_unit_test(an_attempt_that_ends_meanwhile_may_have_deferred_more),
		cmocka_unit_test(a_cycle_that_makes_jobs_ready_makes_nothing_dry),
		cmocka_unit_test(what_became_due_is_asked_for_in_both_kinds),
		cmocka_unit_test(who_meets_locked_jobs_asks_again_but_not_for_ever),
		cmocka_unit_test(what_was_not_looked_at_is_asked_for_at_once),
		cmocka_unit_test(a_round_begins_anew_with_what_may_be_ready_since),
		cmocka_unit_test(a_run_waits_for_a_rate_and_a_service_sleeps),
		cmocka_unit_test(what_was_cut_is_not_asked_for_again_at_once),
		cmocka_unit_test(only_the_first_claim_after_a_notification_leaves_delayed_jobs_out),
		cmocka_unit_test(lanes_are_looked_for_again_the_later_the_longer_it_took),
		cmocka_unit_test(a_round_through_all_lanes_goes_on_while_nothing_was_missed),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
