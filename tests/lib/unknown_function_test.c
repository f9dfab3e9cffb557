/* SPDX-License-Identifier: MIT */
#include "engine/step/unknown_function.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct job *new_job(const char *fn)
{
	struct job *job = job_new("default", fn, "", "{}", 2);

	assert_non_null(job);
	return job;
}

static void a_claim_is_limited_to_known_functions_once_an_unknown_one_was_met(void **state)
{
	char noop[] = "sample.noop", echo[] = "sample.echo";
	struct runner_function functions[] = { { .name = noop }, { .name = echo } };
	struct pool pool = { .functions = { .served = functions, .served_len = 2 } };
	struct unknown_function u = { 0 };
	struct ledger ledger;
	const char **known;
	size_t len;

	(void)state;
	ledger_init(&ledger);
	assert_null(unknown_function_known(&u, &pool, &len));
	assert_int_equal(len, 0);
	for (int i = 0; i < 3; i++)
		job_list_push(&pool.unknown, new_job("nobody.has"));
	job_list_push(&pool.unknown, new_job("nobody.either"));
	job_list_push(&pool.late, new_job("sample.noop"));
	unknown_function_return(&u, &pool, &ledger);
	assert_int_equal(u.len, 2);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 5);
	assert_int_equal(ledger.first->set_aside, false); /* it was only late */
	for (const struct job *job = ledger.first->next; job; job = job->next)
		assert_true(job->set_aside);
	known = unknown_function_known(&u, &pool, &len);
	assert_int_equal(len, 2);
	assert_string_equal(known[0], "sample.noop");
	assert_string_equal(known[1], "sample.echo");
	free(known);
	unknown_function_clear(&u); /* new plugins */
	assert_null(unknown_function_known(&u, &pool, &len));
	ledger_clear(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_claim_is_limited_to_known_functions_once_an_unknown_one_was_met),
	};

	log_set_level(LOG_L_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("unknown_function", tests, NULL, NULL);
}
