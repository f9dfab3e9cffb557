/* SPDX-License-Identifier: MIT */
#include "engine/step/offer.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static struct config *config;

static int load(void **state)
{
	(void)state;
	return config_load(&config, "/dev/null", NULL);
}

static int unload(void **state)
{
	(void)state;
	config_free(config);
	return 0;
}

static void a_place_is_text_that_the_server_accepts(void **state)
{
	char longer[3 * OFFER_PLACE_MAX];
	struct runner_setup runners = { .config = config, .plugin_dir = "/plugins/\xff\xc3\xa4" };
	struct offer o;

	(void)state;
	offer_set_up(&o, &runners);
	assert_string_equal(o.place, "/plugins/\\xff\xc3\xa4");
	runners.plugin_dir = NULL;
	offer_set_up(&o, &runners);
	assert_string_equal(o.place, "");
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	runners.plugin_dir = longer;
	offer_set_up(&o, &runners);
	assert_true(strlen(o.place) < OFFER_PLACE_MAX);
}

static void what_was_sent_within_the_hour_is_not_sent_again(void **state)
{
	struct runner_function functions[] = { { 0 } };
	struct pool pool = { .functions = { .served = functions, .served_len = 1 } };
	struct offer o = { .functions = functions, .again_ns = NOW + 1 };

	(void)state;
	assert_int_equal(offer_run(&o, NULL, &pool, "host", NOW + 1, NULL), 0); /* no runner has reported any yet */
	pool.functions.known = true;
	assert_int_equal(offer_run(&o, NULL, &pool, "host", NOW, NULL), 0);
	offer_forget(&o); /* the worker has registered again */
	assert_int_equal(o.again_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_place_is_text_that_the_server_accepts, load, unload),
		cmocka_unit_test(what_was_sent_within_the_hour_is_not_sent_again),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("offer", tests, NULL, NULL);
}
