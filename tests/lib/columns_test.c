/* SPDX-License-Identifier: MIT */
/* The columns of a statement lie beside each other in one block, and a column without a value is a single NULL. */
#include "store/columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define ALIGNED(p) assert_int_equal((uintptr_t)(p) % sizeof(*(p)), 0)

/* That none reaches beyond the block, the sanitizers see. */
static void columns_are_aligned_and_apart(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 5, 7, 500, 10001 };

	(void)state;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		size_t n = sizes[k];
		struct columns c;

		assert_int_equal(columns_init(&c, n, "test", NULL), 0);
		assert_int_equal(c.n, n);
		ALIGNED(c.text);
		ALIGNED(c.len);
		ALIGNED(c.int8);
		ALIGNED(c.float8);
		ALIGNED(c.int4);
		for (size_t i = 0; i < n; i++) {
			c.text[i] = "text";
			c.len[i] = i;
			c.int8[i] = -(int64_t)i;
			c.float8[i] = (double)i / 2;
			c.int4[i] = (int32_t)i * 3;
			c.nulls[i] = i % 2;
		}
		for (size_t i = 0; i < n; i++) {
			assert_string_equal(c.text[i], "text");
			assert_int_equal(c.len[i], i);
			assert_true(c.int8[i] == -(int64_t)i && c.float8[i] == (double)i / 2 &&
				    c.int4[i] == (int32_t)i * 3 && c.nulls[i] == i % 2);
		}
		columns_clear(&c);
		assert_null(c.text);
		columns_clear(&c);
	}
}

static void none_at_all_is_no_error(void **state)
{
	struct columns c;

	(void)state;
	assert_int_equal(columns_init(&c, 0, "test", NULL), 0);
	assert_non_null(c.text);
	columns_clear(&c);
}

static void a_column_without_a_value_costs_no_bytes_for_its_rows(void **state)
{
	static const int64_t values[] = { -1, -1, 9 };
	static const char *const texts[] = { NULL, "ab", NULL };
	struct pg_args args;
	struct columns c;

	(void)state;
	assert_int_equal(columns_init(&c, 3, "test", NULL), 0);
	pg_args_init(&args);
	COLUMN_INT8(&args, &c, values[i]);
	COLUMN_INT8_OR_NULL(&args, &c, values[i], -1);
	COLUMN_INT8_OR_NULL(&args, &c, (int64_t)-1, -1);
	COLUMN_TEXT_OR_NULL(&args, &c, texts[i], strlen(c.text[i]));
	COLUMN_TEXT_OR_NULL(&args, &c, texts[0], strlen(c.text[i]));
	assert_int_equal(args.n, 5);
	assert_int_equal(args.arg[0].len - args.arg[1].len, 2 * 8); /* one NULL of some has a length and no bytes */
	assert_true(!args.arg[1].null && args.arg[2].null);
	assert_true(!args.arg[3].null && args.arg[4].null);
	pg_args_clear(&args);
	columns_clear(&c);
}

#if !defined(__SANITIZE_ADDRESS__)
static void more_rows_than_there_is_memory_for_are_refused(void **state)
{
	struct deferred_error err = { 0 };
	struct columns c;

	(void)state;
	assert_int_equal(columns_init(&c, SIZE_MAX / 16, "test", &err), DEFERRED_ENOMEM);
	assert_int_equal(err.code, DEFERRED_ENOMEM);
	assert_string_equal(err.where, "test");
	assert_int_equal(c.n, 0);
	columns_clear(&c);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_aligned_and_apart),
		cmocka_unit_test(none_at_all_is_no_error),
		cmocka_unit_test(a_column_without_a_value_costs_no_bytes_for_its_rows),
#if !defined(__SANITIZE_ADDRESS__)
		cmocka_unit_test(more_rows_than_there_is_memory_for_are_refused),
#endif
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("columns", tests, NULL, NULL);
}
