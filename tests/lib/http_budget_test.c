/* SPDX-License-Identifier: MIT */
/* Who may hold how much, and that all of it is given back. */
#include "http/budget.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1024u * 1024)

static struct budget_hold who(const char *address, const char *account)
{
	struct budget_hold hold = { .bytes = { 0 } };
	struct sockaddr_storage at = { .ss_family = strchr(address, ':') ? AF_INET6 : AF_INET };
	void *bytes = at.ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)&at)->sin6_addr
					       : (void *)&((struct sockaddr_in *)&at)->sin_addr;

	assert_int_equal(inet_pton(at.ss_family, address, bytes), 1);
	budget_address(&hold, &at);
	if (account)
		budget_account(&hold, account);
	return hold;
}

static void an_address_has_a_share_and_others_have_theirs(void **state)
{
	struct budget_hold one = who("10.0.0.1", NULL), two = who("10.0.0.1", NULL), other = who("10.0.0.2", NULL);

	(void)state;
	assert_true(budget_hold(&one, BUDGET_BODIES, BUDGET_SHARE - MIB));
	assert_true(budget_hold(&two, BUDGET_BODIES, MIB));
	assert_false(budget_hold(&two, BUDGET_BODIES, MIB + 1));
	assert_int_equal(two.bytes[BUDGET_BODIES], MIB);
	assert_false(budget_has(&two, BUDGET_BODIES, 1));
	assert_true(budget_hold(&two, BUDGET_ANSWERS, BUDGET_SHARE));
	assert_true(budget_hold(&other, BUDGET_BODIES, BUDGET_SHARE));
	budget_release(&one);
	assert_true(budget_hold(&two, BUDGET_BODIES, BUDGET_SHARE));
	budget_release(&two);
	budget_release(&other);
}

static void an_account_has_a_share_wherever_it_comes_from(void **state)
{
	struct budget_hold here = who("10.0.0.1", "acme"), there = who("10.0.0.2", "acme"),
			   other = who("10.0.0.2", "other");

	(void)state;
	assert_true(budget_hold(&here, BUDGET_ANSWERS, BUDGET_SHARE));
	assert_false(budget_hold(&there, BUDGET_ANSWERS, MIB));
	assert_true(budget_hold(&other, BUDGET_ANSWERS, MIB));
	budget_release(&here);
	assert_true(budget_hold(&there, BUDGET_ANSWERS, BUDGET_SHARE - MIB));
	assert_false(budget_hold(&there, BUDGET_ANSWERS, BUDGET_SHARE)); /* the other holds something at that address */
	budget_release(&there);
	budget_release(&other);
}

static void what_was_held_before_the_account_was_known_counts_for_it(void **state)
{
	struct budget_hold one = who("10.0.0.1", NULL), two = who("10.0.0.2", "acme");

	(void)state;
	assert_true(budget_hold(&one, BUDGET_HEADS, BUDGET_SHARE - MIB));
	budget_account(&one, "acme");
	assert_false(budget_has(&two, BUDGET_HEADS, 2 * MIB));
	assert_true(budget_hold(&two, BUDGET_HEADS, MIB));
	budget_release(&one);
	assert_true(budget_has(&two, BUDGET_HEADS, BUDGET_SHARE - MIB));
	assert_false(budget_has(&two, BUDGET_HEADS, BUDGET_SHARE));
	budget_release(&two);
	assert_true(budget_has(&two, BUDGET_HEADS, BUDGET_SHARE));
}

static void all_together_have_a_limit(void **state)
{
	struct budget_hold hold[BUDGET_MAX / BUDGET_SHARE + 1];
	char address[32];
	size_t n = sizeof(hold) / sizeof(hold[0]);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		snprintf(address, sizeof(address), "10.0.1.%zu", i);
		hold[i] = who(address, NULL);
		assert_int_equal(budget_hold(&hold[i], BUDGET_BODIES, BUDGET_SHARE), i < n - 1);
	}
	for (size_t i = 0; i < n; i++)
		budget_release(&hold[i]);
}

static void what_is_small_always_goes_through(void **state)
{
	struct budget_hold one = who("10.0.0.1", "acme"), two = who("10.0.0.1", "acme");

	(void)state;
	assert_true(budget_hold(&one, BUDGET_BODIES, BUDGET_SHARE));
	assert_true(budget_hold(&two, BUDGET_BODIES, BUDGET_SMALL));
	assert_false(budget_hold(&two, BUDGET_BODIES, BUDGET_SMALL + 1));
	budget_release(&one);
	budget_release(&two);
	assert_true(budget_has(&one, BUDGET_BODIES, BUDGET_SHARE));
}

static void addresses_of_one_network_of_ipv6_are_one_and_mapped_ones_are_of_ipv4(void **state)
{
	struct budget_hold one = who("2001:db8:1:2::1", NULL), same = who("2001:db8:1:2:ffff::9", NULL),
			   next = who("2001:db8:1:3::1", NULL);
	struct budget_hold mapped = who("::ffff:10.0.0.1", NULL), v4 = who("10.0.0.1", NULL),
			   v4_next = who("::ffff:10.0.0.2", NULL);

	(void)state;
	assert_string_equal(one.address, same.address);
	assert_string_not_equal(one.address, next.address);
	assert_string_equal(mapped.address, v4.address);
	assert_string_not_equal(mapped.address, v4_next.address);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_has_a_share_and_others_have_theirs),
		cmocka_unit_test(an_account_has_a_share_wherever_it_comes_from),
		cmocka_unit_test(what_was_held_before_the_account_was_known_counts_for_it),
		cmocka_unit_test(all_together_have_a_limit),
		cmocka_unit_test(what_is_small_always_goes_through),
		cmocka_unit_test(addresses_of_one_network_of_ipv6_are_one_and_mapped_ones_are_of_ipv4),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
