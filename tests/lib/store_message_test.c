/* SPDX-License-Identifier: MIT */
/* The C side of messages and accounts, against the server that DEFERRED_TEST_DB names: what goes in comes out. */
#include "store/account.h"
#include "store/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct pg *pg;
static char account[25], queue[64], none[64];

#define OK(call) \
	do { \
		struct deferred_error err = { 0 }; \
		if ((call) < 0) \
			fail_msg("%s: %s", err.where, err.message); \
	} while (0)

static void put(const char *text, size_t len, struct message *m)
{
	struct message_put item = { .queue = queue, .text = text, .text_len = len, .ttl_s = 600 };

	OK(store_message_put(pg, &item, 1, &err));
	assert_int_equal(item.status, MESSAGE_OK);
	assert_true(item.message.id > 0);
	if (m)
		*m = item.message;
}

static void texts_of_any_length_come_back_to_the_byte(void **state)
{
	static const size_t lens[] = { 0, 1, 100, 65536 };
	char *text = malloc(65536);

	(void)state;
	memset(text, '&', 65536);
	text[0] = '"';
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct message_get get = { .queue = queue, .max = 32, .visibility_s = 30 };
		struct message_delete del = { .queue = queue };

		put(text, lens[i], NULL);
		OK(store_message_get(pg, &get, 1, &err));
		assert_int_equal(get.status, MESSAGE_OK);
		assert_int_equal(get.n, 1);
		assert_int_equal(get.messages[0].text_len, lens[i]);
		assert_memory_equal(get.messages[0].text, text, lens[i]);
		assert_int_equal(get.messages[0].text[lens[i]], '\0');
		assert_int_equal(get.messages[0].attempt, 1);
		del.id = get.messages[0].id;
		del.receipt = get.messages[0].receipt;
		message_get_clear(&get);
		message_get_clear(&get);
		OK(store_message_delete(pg, &del, 1, &err));
		assert_int_equal(del.status, MESSAGE_OK);
	}
	free(text);
}

static void times_are_microseconds_of_the_database(void **state)
{
	struct message_put items[] = {
		{ .queue = queue, .text = "a", .text_len = 1, .ttl_s = -1 },
		{ .queue = queue, .text = "b", .text_len = 1, .visibility_s = 5, .ttl_s = 60 },
		{ .queue = queue,
		  .text = "c",
		  .text_len = 1,
		  .ttl_s = 9007199254740991 }, /* the largest that JavaScript knows */
		{ .queue = queue, .text = "d", .text_len = 1, .ttl_s = 200000000000 },
		{ .queue = queue, .text = "e", .text_len = 1 },
	};
	enum message_status status;
	bool all;

	(void)state;
	OK(store_message_put(pg, items, 5, &err));
	for (int i = 0; i < 5; i++) {
		assert_int_equal(items[i].status, MESSAGE_OK);
		assert_true(items[i].message.inserted_us > 1700000000000000 &&
			    items[i].message.inserted_us < 4000000000000000);
		assert_int_equal(items[i].message.visible_us - items[i].message.inserted_us, i == 1 ? 5000000 : 0);
	}
	assert_true(items[0].message.expires_us == MESSAGE_NEVER && items[2].message.expires_us == MESSAGE_NEVER);
	assert_int_equal(items[1].message.expires_us - items[1].message.inserted_us, 60000000);
	assert_true(items[3].message.expires_us - items[3].message.inserted_us == 200000000000 * 1000000);
	assert_true(items[4].message.expires_us - items[4].message.inserted_us == 7 * 86400ll * 1000000);
	OK(store_message_clear(pg, queue, 1000, &all, &status, &err));
	assert_true(all && status == MESSAGE_OK);
}

static void a_batch_may_hold_gets_and_peeks_of_several_queues(void **state)
{
	struct message_get get[] = {
		{ .queue = queue, .max = 2, .visibility_s = 30 }, { .queue = none, .max = 5, .peek = true },
		{ .queue = queue, .max = 32, .peek = true },      { .queue = none, .max = 1, .visibility_s = 1 },
		{ .queue = queue, .max = 1, .visibility_s = 60 },
	};
	struct message_update update[3] = { 0 };
	struct message_delete del[3] = { 0 };

	(void)state;
	for (int i = 0; i < 5; i++)
		put((char[]){ (char)('0' + i) }, 1, NULL);
	OK(store_message_get(pg, get, 5, &err));
	assert_int_equal(get[0].n, 2);
	assert_int_equal(get[1].status, MESSAGE_NO_QUEUE);
	assert_int_equal(get[2].n, 2); /* what the takes left */
	assert_int_equal(get[3].status, MESSAGE_NO_QUEUE);
	assert_int_equal(get[4].n, 1);
	assert_string_equal(get[0].messages[1].text, "1");
	assert_string_equal(get[4].messages[0].text, "2");
	assert_string_equal(get[2].messages[0].text, "3");
	assert_true(get[2].messages[0].receipt == 0 && get[2].messages[0].attempt == 0);
	for (int i = 0; i < 2; i++) {
		update[i].queue = queue;
		update[i].id = get[0].messages[i].id;
		update[i].receipt = get[0].messages[i].receipt;
		update[i].visibility_s = 100;
	}
	update[0].text = "new";
	update[0].text_len = 3;
	update[2] = (struct message_update){ .queue = none, .id = 1, .receipt = 1 };
	OK(store_message_update(pg, update, 3, &err));
	assert_int_equal(update[0].status, MESSAGE_OK);
	assert_true(update[0].new_receipt != update[0].receipt && update[0].visible_us > get[0].messages[0].visible_us);
	assert_int_equal(update[1].status, MESSAGE_OK);
	assert_int_equal(update[2].status, MESSAGE_NO_QUEUE);
	for (int i = 0; i < 2; i++)
		del[i] = (struct message_delete){ queue, update[i].id, i ? update[i].receipt : update[i].new_receipt,
						  MESSAGE_OK };
	del[2] = (struct message_delete){ queue, INT64_MAX, 0, MESSAGE_OK };
	OK(store_message_delete(pg, del, 3, &err));
	assert_int_equal(del[0].status, MESSAGE_OK);
	assert_int_equal(del[1].status, MESSAGE_STALE_RECEIPT);
	assert_int_equal(del[2].status, MESSAGE_NO_MESSAGE);
	for (int i = 0; i < 5; i++)
		message_get_clear(&get[i]);
	OK(store_message_put(pg, NULL, 0, &err));
	OK(store_message_get(pg, NULL, 0, &err));
	OK(store_message_update(pg, NULL, 0, &err));
	OK(store_message_delete(pg, NULL, 0, &err));
}

static void queues_are_made_listed_and_removed(void **state)
{
	char name[64];
	enum message_status status;
	struct message_queue got, *list;
	int64_t from = 0, expired;
	char *acl;
	size_t n;

	(void)state;
	snprintf(name, sizeof(name), "%s.other-queue", account);
	OK(store_message_queue_create(pg, name, "{\"Key\":\"v\\u00e4\",\"deferred_max_dequeue\":\"3\"}", &status,
				      &err));
	assert_int_equal(status, MESSAGE_OK);
	OK(store_message_queue_create(pg, name, "{\"deferred_max_dequeue\":\"3\",\"key\":\"v\\u00e4\"}", &status,
				      &err));
	assert_int_equal(status, MESSAGE_SAME);
	OK(store_message_queue_create(pg, name, NULL, &status, &err));
	assert_int_equal(status, MESSAGE_EXISTS);
	OK(store_message_queue_set_metadata(pg, name, "{\"deferred_function\":\"a b\"}", &status, &err));
	assert_int_equal(status, MESSAGE_BAD_METADATA);
	OK(store_message_queue_get(pg, name, &got, &status, &err));
	assert_string_equal(got.name, "other-queue");
	assert_non_null(strstr(got.metadata, "\"deferred_max_dequeue\" : \"3\""));
	assert_int_equal(got.messages, 0);
	message_queue_clear(&got);
	OK(store_message_queues(pg, account, NULL, NULL, 10, &list, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(list[0].name, "other-queue");
	assert_string_equal(list[1].name, "queue");
	message_queues_free(list, n);
	OK(store_message_queues(pg, account, "que", "queue-x", 10, &list, &n, &err));
	assert_true(n == 0 && list == NULL);
	message_queues_free(list, n);

	OK(store_message_queue_get_acl(pg, name, &acl, &status, &err));
	assert_true(acl == NULL && status == MESSAGE_OK);
	OK(store_message_queue_set_acl(pg, name, "[ 1 ]", &status, &err));
	OK(store_message_queue_get_acl(pg, name, &acl, &status, &err));
	assert_string_equal(acl, "[ 1 ]");
	free(acl);
	OK(store_message_queue_set_acl(pg, none, NULL, &status, &err));
	assert_int_equal(status, MESSAGE_NO_QUEUE);

	OK(store_message_queue_rm(pg, name, 1000, &status, &err));
	assert_int_equal(status, MESSAGE_OK);
	OK(store_message_queue_rm(pg, name, 1000, &status, &err));
	assert_int_equal(status, MESSAGE_NO_QUEUE);
	OK(store_message_queue_get(pg, name, &got, &status, &err));
	assert_true(status == MESSAGE_NO_QUEUE && got.name == NULL && got.metadata == NULL);
	OK(store_message_sweep(pg, &from, &expired, &err));
	assert_int_equal(expired, 0);
}

static void a_queue_of_many_is_cleared_and_removed_in_steps(void **state)
{
	static struct message_put items[12000];
	enum message_status status;
	struct message_queue got;
	bool all;

	(void)state;
	for (size_t i = 0; i < 12000; i++)
		items[i] = (struct message_put){ .queue = queue, .text = "x", .text_len = 1, .ttl_s = 600 };
	OK(store_message_put(pg, items, 12000, &err));
	OK(store_message_clear(pg, queue, 0, &all, &status, &err)); /* one step at least */
	assert_false(all);
	OK(store_message_clear(pg, queue, 60000, &all, &status, &err));
	assert_true(all);
	OK(store_message_queue_get(pg, queue, &got, &status, &err));
	assert_int_equal(got.messages, 0);
	message_queue_clear(&got);
	OK(store_message_put(pg, items, 12000, &err));
	OK(store_message_queue_rm(pg, queue, 60000, &status, &err));
	OK(store_message_queue_create(pg, queue, NULL, &status, &err));
	assert_int_equal(status, MESSAGE_OK);
}

static void an_error_of_the_server_leaves_everything_as_it_was(void **state)
{
	struct message_put items[2] = { { .queue = queue, .text = "fine", .text_len = 4 },
					{ .queue = queue, .text = "\xff", .text_len = 1 } };
	struct message_get get = { .queue = queue, .max = 1, .peek = true };
	struct deferred_error why = { 0 };
	enum message_status status;
	bool all;

	(void)state;
	OK(store_message_clear(pg, queue, 1000, &all, &status, &err));
	assert_int_equal(store_message_put(pg, items, 2, &why), DEFERRED_EDB);
	assert_string_equal(why.sqlstate, "22021");
	OK(store_message_get(pg, &get, 1, &err));
	assert_int_equal(get.n, 0);
	message_get_clear(&get);
}

static void accounts_are_kept_as_they_came(void **state)
{
	unsigned char one[93], two[61];
	const unsigned char *const cipher[2] = { one, two };
	const size_t len[2] = { sizeof(one), sizeof(two) };
	struct deferred_error why = { 0 };
	struct account_row *rows, *a = NULL;
	size_t n;

	(void)state;
	memset(one, 0, sizeof(one));
	memset(two, 255, sizeof(two));
	OK(store_account_add(pg, account, cipher, len, &err));
	assert_int_equal(store_account_add(pg, account, cipher, len, &why), DEFERRED_EDB);
	assert_string_equal(why.sqlstate, "42710");
	OK(store_account_set_properties(pg, account, "{\"a\": [1]}", &err));
	assert_int_equal(store_account_set_properties(pg, "nobody12345", "{}", NULL), DEFERRED_ENOTFOUND);
	OK(store_account_rotate(pg, account, 1, two, sizeof(two), &err));
	OK(store_account_enable(pg, account, false, &err));
	OK(store_account_ls(pg, &rows, &n, &err));
	for (size_t i = 0; i < n; i++)
		if (strcmp(rows[i].name, account) == 0)
			a = &rows[i];
	assert_non_null(a);
	assert_false(a->enabled);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(a->cipher_len[i], sizeof(two));
		assert_memory_equal(a->cipher[i], two, sizeof(two));
	}
	assert_string_equal(a->properties, "{\"a\": [1]}");
	store_account_free(rows, n);
	OK(account_rm_exec(pg, account, &err));
	error_clear(&why);
	assert_int_equal(account_rm_exec(pg, account, &why), DEFERRED_EDB);
	assert_string_equal(why.sqlstate, "42704");
}

static int set_up(void **state)
{
	struct deferred_error err = { 0 };
	enum message_status status;

	(void)state;
	/* Two builds may use one database at the same time. */
	snprintf(account, sizeof(account), "test%d", (int)getpid());
	snprintf(queue, sizeof(queue), "%s.queue", account);
	snprintf(none, sizeof(none), "%s.none", account);
	if (pg_open(&pg, getenv("DEFERRED_TEST_DB"), "store_message_test", &err) == 0 &&
	    store_message_session(pg, &err) == 0 && store_message_queue_create(pg, queue, NULL, &status, &err) == 0 &&
	    status == MESSAGE_OK)
		return 0;
	print_error("%s\n", err.message);
	return -1;
}

static int tear_down(void **state)
{
	enum message_status status;

	(void)state;
	store_message_queue_rm(pg, queue, 10000, &status, NULL);
	pg_close(pg);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_of_any_length_come_back_to_the_byte),
		cmocka_unit_test(times_are_microseconds_of_the_database),
		cmocka_unit_test(a_batch_may_hold_gets_and_peeks_of_several_queues),
		cmocka_unit_test(queues_are_made_listed_and_removed),
		cmocka_unit_test(an_error_of_the_server_leaves_everything_as_it_was),
		cmocka_unit_test(a_queue_of_many_is_cleared_and_removed_in_steps),
		cmocka_unit_test(accounts_are_kept_as_they_came),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_message", tests, set_up, tear_down);
}
