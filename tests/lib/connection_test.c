/* SPDX-License-Identifier: MIT */
/* A connection to a server that is not there. */
#include "engine/step/connection.h"

#include "base/clock.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS NS_PER_MS
#define NOW (1000 * NS_PER_S)

static const struct deferred_error gone = { .code = DEFERRED_ELOST, .message = "connection lost: gone" };

static void tries_are_further_and_further_apart_and_at_most_a_second(void **state)
{
	struct connection c = { 0 };
	uint64_t now = NOW, pause_ns = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		connection_lose(&c, &gone, false, 0, now);
		assert_int_equal(c.state, CONNECTION_WAITING);
		assert_int_equal(c.lost_ns, NOW); /* since the first time */
		assert_true(c.retry_ns - now >= pause_ns && c.retry_ns - now <= 1000 * MS);
		pause_ns = c.retry_ns - now;
		now = c.retry_ns;
	}
	assert_int_equal(pause_ns, 1000 * MS);
	connection_found(&c, now);
	assert_int_equal(c.lost_ns, 0);
	connection_lose(&c, &gone, false, 0, now);
	assert_true(c.retry_ns - now < 100 * MS);
}

static void the_reason_is_that_of_the_first_loss(void **state)
{
	struct connection c = { 0 };
	struct deferred_error full = { .code = DEFERRED_ECONNECT, .message = "too many clients" };

	(void)state;
	connection_lose(&c, &gone, false, 0, NOW);
	connection_lose(&c, &full, false, 0, NOW + 10 * NS_PER_S);
	assert_string_equal(c.lost.message, gone.message);
	assert_true(c.logged); /* the other reason, once */
	assert_true(connection_lost_for(&c, 10000, NOW + 10 * NS_PER_S));
	assert_false(connection_lost_for(&c, 10001, NOW + 10 * NS_PER_S));
	assert_false(connection_lost_for(&c, 10000, NOW - 1)); /* a turn that began before the loss */
	connection_found(&c, NOW);
	assert_false(connection_lost_for(&c, 0, NOW));
}

static void a_try_begins_when_it_is_due(void **state)
{
	struct connection c = { 0 };
	struct deferred_error err = { 0 };
	uint64_t due;
	int rc;

	(void)state;
	connection_lose(&c, &gone, true, 12345, NOW);
	due = c.retry_ns;
	assert_int_equal(connection_retry(&c, "host=127.0.0.1 port=1 user=x", 1000, due - 1, &err), 0);
	assert_int_equal(c.state, CONNECTION_WAITING);
	rc = connection_retry(&c, "host=127.0.0.1 port=1 user=x", 1000, due, &err);
	assert_int_equal(c.state, CONNECTION_CONNECTING);
	for (int i = 0; i < 1000000 && rc == 0; i++)
		rc = connection_retry(&c, "", 1000, due, &err);
	assert_true(rc < 0);
	connection_lose(&c, &err, true, 0, due);
	assert_null(c.pg);
	assert_int_equal(c.state, CONNECTION_WAITING);
}

static void it_sends_between_cycles_and_after_a_pause(void **state)
{
	struct connection c = { 0 };

	(void)state;
	assert_true(connection_can_send(&c, NOW));
	connection_sent(&c);
	assert_false(connection_can_send(&c, NOW));
	connection_answered(&c);
	connection_pause(&c, NOW + 1);
	assert_false(connection_can_send(&c, NOW));
	assert_true(connection_can_send(&c, NOW + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tries_are_further_and_further_apart_and_at_most_a_second),
		cmocka_unit_test(the_reason_is_that_of_the_first_loss),
		cmocka_unit_test(a_try_begins_when_it_is_due),
		cmocka_unit_test(it_sends_between_cycles_and_after_a_pause),
	};

	log_set_level(LOG_L_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
