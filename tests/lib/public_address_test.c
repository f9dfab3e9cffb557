/* SPDX-License-Identifier: MIT */
/* Which addresses the function http connects to. */
#include "plugins/http/public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static bool ok(const char *text, const char *networks)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4 = { .sin_family = AF_INET };

	if (!strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET, text, &v4.sin_addr), 1);
		return public_address_ok((struct sockaddr *)&v4, networks);
	}
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return public_address_ok((struct sockaddr *)&v6, networks);
}

/* Both ends of each network that is refused. */
static const char *const refused[] = {
	"0.0.0.0",
	"0.255.255.255",
	"10.0.0.0",
	"10.255.255.255",
	"100.64.0.0",
	"100.127.255.255",
	"127.0.0.0",
	"127.0.0.1",
	"127.255.255.255",
	"169.254.0.0",
	"169.254.169.254",
	"169.254.255.255",
	"172.16.0.0",
	"172.31.255.255",
	"192.0.0.0",
	"192.0.0.255",
	"192.0.2.0",
	"192.0.2.255",
	"192.88.99.0",
	"192.88.99.255",
	"192.168.0.0",
	"192.168.255.255",
	"198.18.0.0",
	"198.19.255.255",
	"198.51.100.0",
	"198.51.100.255",
	"203.0.113.0",
	"203.0.113.255",
	"224.0.0.0",
	"239.255.255.255",
	"240.0.0.0",
	"255.255.255.255",
	"::",
	"::1",
	"::7f00:1",
	"::ffff:0.0.0.0",
	"::ffff:10.0.0.1",
	"::ffff:127.0.0.1",
	"::ffff:169.254.169.254",
	"::ffff:0:127.0.0.1",
	"64:ff9b::10.0.0.1",
	"64:ff9b::127.0.0.1",
	"64:ff9b::169.254.169.254",
	"64:ff9b:1::8.8.8.8",
	"64:ff9b::1:808:808",
	"100::1",
	"2001::",
	"2001:0:4136:e378:8000:63bf:3fff:fdd2",
	"2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
	"2001:db8::",
	"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
	"2002::",
	"2002:7f00:1::",
	"2002:808:808::1",
	"2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	"3fff::",
	"3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
	"1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	"4000::",
	"5f00::1",
	"fc00::1",
	"fd00::1",
	"fe80::1",
	"fec0::1",
	"ff02::1",
	"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
};

/* Their neighbours. */
static const char *const public[] = {
	"1.0.0.0",
	"1.1.1.1",
	"8.8.8.8",
	"9.255.255.255",
	"11.0.0.0",
	"100.63.255.255",
	"100.128.0.0",
	"126.255.255.255",
	"128.0.0.0",
	"169.253.255.255",
	"169.255.0.0",
	"172.15.255.255",
	"172.32.0.0",
	"191.255.255.255",
	"192.0.1.0",
	"192.0.1.255",
	"192.0.3.0",
	"192.88.98.255",
	"192.88.100.0",
	"192.167.255.255",
	"192.169.0.0",
	"198.17.255.255",
	"198.20.0.0",
	"198.51.99.255",
	"198.51.101.0",
	"203.0.112.255",
	"203.0.114.0",
	"223.255.255.255",
	"::ffff:8.8.8.8",
	"64:ff9b::8.8.8.8",
	"2000::",
	"2001:200::",
	"2001:4860:4860::8888",
	"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
	"2001:db9::",
	"2003::",
	"2606:4700:4700::1111",
	"3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	"3fff:1000::",
};

static void addresses_that_are_not_public_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (ok(refused[i], NULL))
			fail_msg("%s", refused[i]);
}

static void public_addresses_are_not(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
		if (!ok(public[i], NULL))
			fail_msg("%s", public[i]);
}

static void a_socket_of_another_family_is_refused(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "/x" };

	(void)state;
	assert_false(public_address_ok((struct sockaddr *)&un, "0.0.0.0/0, ::/0"));
}

static void listed_networks_are_allowed_and_nothing_else(void **state)
{
	static const char list[] = "10.1.0.0/16, 192.168.7.9,fd00:1::/32\t127.0.0.128/25 ,";

	(void)state;
	assert_true(ok("10.1.0.0", list) && ok("10.1.255.255", list));
	assert_true(ok("::ffff:10.1.2.3", list));
	assert_false(ok("10.0.255.255", list) || ok("10.2.0.0", list));
	assert_true(ok("192.168.7.9", list));
	assert_false(ok("192.168.7.8", list));
	assert_true(ok("fd00:1:ffff::", list));
	assert_false(ok("fd00:2::", list));
	assert_true(ok("127.0.0.200", list));
	assert_false(ok("127.0.0.1", list));
	assert_false(ok("64:ff9b::10.1.0.1", list));
	assert_true(ok("8.8.8.8", list));
	assert_true(ok("10.0.0.1", "0.0.0.0/0"));
	assert_false(ok("::1", "0.0.0.0/0"));
	assert_true(ok("::1", "::/0"));
	/* The bytes of an IPv4 address are not the beginning of an IPv6 network. */
	assert_false(ok("10.0.0.1", "a00::/8"));
}

static void a_list_that_is_wrong_is_refused_with_its_part(void **state)
{
	static const char *const wrong[] = { "10.0.0.0/33",
					     "10.0.0/8",
					     "10.0.0.0/",
					     "10.0.0.0/8x",
					     "10.0.0.0/-1",
					     "::/129",
					     "fd00::/ 8",
					     "localhost",
					     "10.0.0.0/+8",
					     "fd00:::/8",
					     "10.0.0.0/8;",
					     "1.2.3.4.5",
					     "10.0.0.0/99999999999999999999" };
	char part[PUBLIC_ADDRESS_NETWORK_SIZE], list[200], longest[300];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(list, sizeof(list), "192.168.0.0/16, %s", wrong[i]);
		if (public_address_networks_ok(list, part))
			fail_msg("%s", wrong[i]);
		assert_memory_equal(part, wrong[i], strcspn(wrong[i], " "));
	}
	memset(longest, '1', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_false(public_address_networks_ok(longest, part));
	assert_false(ok("127.0.0.1", longest));
	assert_true(public_address_networks_ok("", part));
	assert_true(public_address_networks_ok("10.0.0.0/8, ::1, fd00::/0,", part));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_that_are_not_public_are_refused),
		cmocka_unit_test(public_addresses_are_not),
		cmocka_unit_test(a_socket_of_another_family_is_refused),
		cmocka_unit_test(listed_networks_are_allowed_and_nothing_else),
		cmocka_unit_test(a_list_that_is_wrong_is_refused_with_its_part),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("public_address", tests, NULL, NULL);
}
