/* SPDX-License-Identifier: MIT */
/* From what is known to the cause: which one is told first, and what is told of a job or a backlog of which little is
 * known. */
#include "base/cause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A job that is ready, and that nothing holds back. */
static struct cause_job ready_job(void)
{
	struct cause_job j;

	cause_job_init(&j);
	j.id = 7;
	j.there = true;
	j.state = "ready";
	j.queue = "default";
	j.fn = "noop";
	j.serving = (struct cause_serving){
		.alive = true, .seen_s = 3, .gap_s = 120, .started_s = 30, .instance = "h:/run/x"
	};
	return j;
}

static void assert_first(const struct cause_job *j, enum cause_kind kind)
{
	struct cause causes[CAUSES_MAX];
	size_t n = cause_of_job(j, causes);

	assert_in_range(n, 1, CAUSES_MAX);
	assert_string_equal(cause_word(causes[0].kind), cause_word(kind));
	assert_true(causes[0].why[0] && causes[0].figure[0]);
}

static void what_holds_a_job_back_most_is_told_first(void **state)
{
	struct cause causes[CAUSES_MAX];
	struct cause_job j = ready_job();

	(void)state;
	assert_first(&j, CAUSE_NEXT_START);
	j.ahead = 5;
	j.ahead_counted = 10000;
	assert_first(&j, CAUSE_BEHIND);
	j.expires = true;
	j.expires_in_s = 60;
	j.rates.minutes = 10;
	j.rates.ended = 10;
	assert_first(&j, CAUSE_EXPIRES_FIRST);
	j.step_group = "g";
	assert_first(&j, CAUSE_IN_STEP);
	j.key = "k";
	j.key_before = 1;
	assert_first(&j, CAUSE_KEY);
	j.rate = 1;
	j.rate_wait_s = 0.5;
	assert_first(&j, CAUSE_RATE);
	j.max_running = 2;
	j.running = 2;
	assert_first(&j, CAUSE_LIMIT);
	j.serving.alive = false;
	j.serving.seen_s = 400;
	j.ready_s = 400;
	assert_first(&j, CAUSE_UNSERVED);
	j.stranded = true;
	assert_first(&j, CAUSE_STRANDED);
	j.row_locked = true;
	assert_first(&j, CAUSE_LOCKED);
	j.fn_unknown = true;
	assert_first(&j, CAUSE_UNKNOWN_FUNCTION);
	j.paused = true;
	assert_first(&j, CAUSE_PAUSED);
	assert_int_equal(cause_of_job(&j, causes), 11);
	j.expires_in_s = -1;
	assert_first(&j, CAUSE_EXPIRED);
}

static void a_worker_is_missed_after_five_minutes_and_three_of_its_gaps(void **state)
{
	static const struct {
		int64_t ready_s, seen_s, gap_s;
		enum cause_kind kind;
	} cases[] = {
		{ 300, 301, CAUSE_UNKNOWN, CAUSE_NEXT_START },
		{ 301, 300, CAUSE_UNKNOWN, CAUSE_NEXT_START },
		{ 301, 301, CAUSE_UNKNOWN, CAUSE_UNSERVED },
		{ 301, 301, 100, CAUSE_UNSERVED },
		{ 330, 330, 110, CAUSE_NEXT_START },
		{ 331, 331, 110, CAUSE_UNSERVED },
		{ 0, CAUSE_UNKNOWN, CAUSE_UNKNOWN, CAUSE_UNSERVED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cause_job j = ready_job();

		j.ready_s = cases[i].ready_s;
		j.serving = (struct cause_serving){
			.seen_s = cases[i].seen_s, .gap_s = cases[i].gap_s, .started_s = 10, .instance = "h:/run/x"
		};
		assert_first(&j, cases[i].kind);
	}
}

static void who_has_a_job_is_gone_or_is_not(void **state)
{
	struct cause_job j = ready_job();

	(void)state;
	j.state = "claimed";
	j.leased = j.worker_there = true;
	j.worker_unseen_s = 149;
	assert_first(&j, CAUSE_RUNNING);
	j.worker_unseen_s = 150;
	assert_first(&j, CAUSE_VANISHED);
	j.worker_unseen_s = CAUSE_UNKNOWN;
	j.worker_there = false;
	assert_first(&j, CAUSE_VANISHED);
	j.worker_there = j.worker_rebooted = true;
	assert_first(&j, CAUSE_VANISHED);
	j.worker_rebooted = false;
	j.claimed_s = 100;
	j.usual_run_s = 2.5;
	struct cause causes[CAUSES_MAX];
	cause_of_job(&j, causes);
	assert_string_equal(causes[0].figure, "for 100s; 99 % of the others were done in 2.5s");
	j.fn = NULL;
	j.attempts = 2;
	j.lease_left_s = 9;
	cause_of_job(&j, causes);
	assert_string_equal(causes[0].figure, "taken for the 2nd time; comes again in 9s");
}

static void a_job_that_is_not_there_was_purged_or_never_committed(void **state)
{
	static const struct {
		int64_t last_id, neighbour_s, kept_s, writer_pid, writer_s;
		enum cause_kind kind;
	} cases[] = {
		{ 6, CAUSE_UNKNOWN, CAUSE_UNKNOWN, 5, 100, CAUSE_NO_SUCH_ID },
		{ 7, CAUSE_UNKNOWN, CAUSE_UNKNOWN, 5, 100, CAUSE_NOT_COMMITTED },
		{ 7, 100, CAUSE_UNKNOWN, 5, 100, CAUSE_NOT_COMMITTED },
		{ 7, 101, CAUSE_UNKNOWN, 5, 100, CAUSE_ROLLED_BACK },
		{ 7, CAUSE_UNKNOWN, CAUSE_UNKNOWN, 0, 0, CAUSE_ROLLED_BACK },
		{ 7, 99, 100, 0, 0, CAUSE_ROLLED_BACK },
		{ 7, 100, 100, 0, 0, CAUSE_PURGED },
		{ CAUSE_UNKNOWN, CAUSE_UNKNOWN, CAUSE_UNKNOWN, 0, 0, CAUSE_ROLLED_BACK },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cause_job j;

		cause_job_init(&j);
		j.id = 7;
		j.last_id = cases[i].last_id;
		j.neighbour_s = cases[i].neighbour_s;
		j.kept_s = cases[i].kept_s;
		j.writer = (struct cause_session){ .pid = cases[i].writer_pid, .age_s = cases[i].writer_s };
		assert_first(&j, cases[i].kind);
	}
}

static void assert_backlog(const struct cause_backlog *b, enum cause_kind kind)
{
	struct cause causes[CAUSES_MAX];

	assert_in_range(cause_of_backlog(b, causes), 1, CAUSES_MAX);
	assert_string_equal(cause_word(causes[0].kind), cause_word(kind));
}

static void what_holds_a_backlog_back_most_is_told_first(void **state)
{
	struct cause_queue queue = {
		.name = "default",
		.ready = 100,
		.oldest_s = 60,
		.serving = { .alive = true, .seen_s = 1, .gap_s = CAUSE_UNKNOWN, .started_s = CAUSE_UNKNOWN }
	};
	struct cause_backlog b;
	struct cause_rates *r = &b.rates;

	(void)state;
	cause_backlog_init(&b);
	assert_backlog(&b, CAUSE_NOTHING_WAITS);
	b.queues = &queue;
	b.queues_len = 1;
	assert_backlog(&b, CAUSE_UNDER_WAY);
	b.snapshot = (struct cause_session){ .pid = 1, .age_s = 299 };
	b.connections = 94;
	b.connections_max = 100;
	assert_backlog(&b, CAUSE_UNDER_WAY);
	b.snapshot.age_s = 300;
	assert_backlog(&b, CAUSE_DATABASE);
	b.snapshot.age_s = 0;
	b.connections = 95;
	assert_backlog(&b, CAUSE_DATABASE);
	r->minutes = 10;
	r->ended = 100;
	r->arrived = 10.4;
	assert_backlog(&b, CAUSE_DATABASE);
	r->arrived = 10.6;
	assert_backlog(&b, CAUSE_CAPACITY);
	r->usual_arrived = 5;
	assert_backlog(&b, CAUSE_RUSH);
	r->fn = "noop";
	r->fn_share = 0.9;
	assert_backlog(&b, CAUSE_ONE_FUNCTION);
	r->usual_run_p50_s = 1;
	r->run_p50_s = 1.5;
	assert_backlog(&b, CAUSE_ONE_FUNCTION);
	r->run_p50_s = 1.6;
	assert_backlog(&b, CAUSE_SLOWER);
	b.runs = 10;
	b.runs_by_count = 7;
	assert_backlog(&b, CAUSE_SLOWER);
	b.runs_by_count = 8;
	assert_backlog(&b, CAUSE_COUNT);
	r->superseded = 5;
	assert_backlog(&b, CAUSE_COUNT);
	r->superseded = 6;
	assert_backlog(&b, CAUSE_SUPERSEDED);
	r->failed = 50;
	assert_backlog(&b, CAUSE_SUPERSEDED);
	r->failed = 51;
	assert_backlog(&b, CAUSE_FAILING);
	b.unknown_fn = "maail";
	assert_backlog(&b, CAUSE_UNKNOWN_FUNCTION);
	queue.limit_used_up = true;
	queue.rate = 1;
	assert_backlog(&b, CAUSE_RATE);
	queue.max_running = 1;
	assert_backlog(&b, CAUSE_LIMIT);
	queue.serving = (struct cause_serving){ .seen_s = CAUSE_UNKNOWN, .others = true };
	assert_backlog(&b, CAUSE_UNSERVED);
	queue.serving.others = false;
	assert_backlog(&b, CAUSE_STOPPED);
	queue.paused = true;
	assert_backlog(&b, CAUSE_PAUSED);
	b.commits = 1;
	b.commits_s = 4;
	assert_backlog(&b, CAUSE_PAUSED);
	b.commits_s = 5;
	assert_backlog(&b, CAUSE_DATABASE);
	b.commits = 0;
	b.read_only = true;
	assert_backlog(&b, CAUSE_DATABASE);
}

static void texts_that_are_long_and_queues_that_are_many_are_cut(void **state)
{
	static struct cause_queue queues[100];
	static char text[5000];
	struct cause causes[CAUSES_MAX];
	struct cause_backlog b;
	struct cause_job j = ready_job();

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	j.state = "dead";
	j.outcome = "failed";
	j.error = text;
	cause_of_job(&j, causes);
	assert_in_range(strlen(causes[0].why), 300, 400);
	j = ready_job();
	j.row_locked = j.lane_locked = true;
	j.holder = (struct cause_session){ .pid = 1, .who = text, .state = text, .query = text };
	j.key = text;
	j.key_before = 1;
	j.key_first_state = text;
	j.fn_unknown = true;
	j.refused_host = j.refused_why = text;
	cause_of_job(&j, causes);
	cause_backlog_init(&b);
	b.queues = queues;
	b.queues_len = 100;
	for (size_t i = 0; i < 100; i++)
		queues[i] = (struct cause_queue){ .name = text, .ready = 1, .paused = true };
	b.rates = (struct cause_rates){ .minutes = 1,
					.ended = 100,
					.failed = 60,
					.superseded = 30,
					.run_p50_s = 9,
					.usual_run_p50_s = 1,
					.fn = text,
					.fn_share = 0.9,
					.arrived = 1e9,
					.usual_arrived = 1,
					.arrived_by = text,
					.error = text,
					.build = text };
	b.snapshot = j.holder;
	b.snapshot.age_s = 1000;
	b.unknown_fn = text;
	assert_int_equal(cause_of_backlog(&b, causes), CAUSES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_holds_a_job_back_most_is_told_first),
		cmocka_unit_test(a_worker_is_missed_after_five_minutes_and_three_of_its_gaps),
		cmocka_unit_test(who_has_a_job_is_gone_or_is_not),
		cmocka_unit_test(a_job_that_is_not_there_was_purged_or_never_committed),
		cmocka_unit_test(what_holds_a_backlog_back_most_is_told_first),
		cmocka_unit_test(texts_that_are_long_and_queues_that_are_many_are_cut),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cause", tests, NULL, NULL);
}
