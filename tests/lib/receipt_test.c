/* SPDX-License-Identifier: MIT */
/* What receipt.c writes it reads, and nothing else. */
#include "base/receipt.h"

#include "base/random.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 20000

static void a_guid_gives_its_id_back(void **state)
{
	static const int64_t ids[] = { 1, 2, 3, 1000000, INT32_MAX, INT64_MAX - 1, INT64_MAX };
	uint64_t seed = 1;
	int64_t id;
	char guid[MESSAGE_GUID_SIZE];

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		int64_t want = i < 7 ? ids[i] : (int64_t)(random_next(&seed) >> (1 + i % 40));

		want += want == 0;
		message_id_format(want, guid);
		assert_int_equal(strlen(guid), 36);
		assert_true(guid[14] == '8' && strchr("89ab", guid[19]));
		id = 0;
		assert_true(message_id_parse(guid, &id));
		assert_true(id == want);
		for (char *p = guid; *p; p++)
			*p = (char)toupper((unsigned char)*p);
		assert_true(message_id_parse(guid, &id) && id == want);
	}
}

static void a_guid_stays_what_it_was(void **state)
{
	char guid[MESSAGE_GUID_SIZE];

	(void)state;
	message_id_format(1, guid);
	assert_string_equal(guid, "498ce4d0-227b-894f-abc1-7d4cd17cffa6");
	message_id_format(123456789, guid);
	assert_string_equal(guid, "01ada664-352f-8045-a9c0-63a1991ba11d");
}

static void every_other_guid_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"1",
		"6012a834-f3cf-410f-bddd-dc29ee36de2a",
		"00000000-0000-8000-8000-000000000000",
		"ffffffff-ffff-ffff-ffff-ffffffffffff",
		"../../../../../../../../../etc/passwd",
	};
	char guid[MESSAGE_GUID_SIZE], other[MESSAGE_GUID_SIZE + 1];
	uint64_t seed = 2;
	int64_t id = -7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(message_id_parse(bad[i], &id));
	/* any one digit changed, a character too many or too few, a dash elsewhere */
	for (int n = 0; n < 200; n++) {
		message_id_format((int64_t)(random_next(&seed) >> 1), guid);
		for (int i = 0; i < 36; i++) {
			memcpy(other, guid, sizeof(guid));
			other[i] = guid[i] == '-' ? '0' : guid[i] == '0' ? '1' : '0';
			assert_false(message_id_parse(other, &id));
			other[i] = 'g';
			assert_false(message_id_parse(other, &id));
		}
		memcpy(other, guid, sizeof(guid));
		strcat(other, "0");
		assert_false(message_id_parse(other, &id));
		other[35] = '\0';
		assert_false(message_id_parse(other, &id));
	}
	/* those of ids that are none */
	message_id_format(0, guid);
	assert_false(message_id_parse(guid, &id));
	message_id_format(-5, guid);
	assert_false(message_id_parse(guid, &id));
	message_id_format(INT64_MIN, guid);
	assert_false(message_id_parse(guid, &id));
	assert_int_equal(id, -7);
}

static void a_receipt_gives_its_number_back(void **state)
{
	static const int64_t numbers[] = { 0, 1, -1, INT64_MAX, INT64_MIN, 42 };
	char text[MESSAGE_RECEIPT_SIZE];
	uint64_t seed = 3;
	int64_t receipt;

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		int64_t want = i < 6 ? numbers[i] : (int64_t)random_next(&seed);

		receipt_format(want, text);
		assert_int_equal(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 11);
		assert_int_equal(strlen(text), 11);
		assert_true(receipt_parse(text, &receipt) && receipt == want);
	}
}

static void every_other_receipt_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"A",
		"AAAAAAAAAA",
		"AAAAAAAAAAAA",
		"AAAAAAAAAAB",
		"AAAAAAAAAAC",
		"AAAAAAAAAAD",
		"AAAAAAAAA+A",
		"AAAAAAAAA/A",
		"AAAAAAAAAA=",
		"AAAAAAAAA A",
		("AAAAAAAAA\xff"
		 "A"),
		"MjBOb3YyMDI2MTg6MTU6MzJiM2M3",
		"AgAAAAMAAAA+/w==",
	};
	int64_t receipt = -7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(receipt_parse(bad[i], &receipt));
	assert_int_equal(receipt, -7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_guid_gives_its_id_back),       cmocka_unit_test(a_guid_stays_what_it_was),
		cmocka_unit_test(every_other_guid_is_refused),    cmocka_unit_test(a_receipt_gives_its_number_back),
		cmocka_unit_test(every_other_receipt_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("receipt", tests, NULL, NULL);
}
