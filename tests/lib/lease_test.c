/* SPDX-License-Identifier: MIT */
/* Leases of jobs that wait in a pool without runners. */
#include "engine/step/lease.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS NS_PER_MS
#define NOW (1000 * NS_PER_S)

static struct pool pool;
static struct ledger ledger;
static struct lease lease;

static int set_up(void **state)
{
	(void)state;
	pool = (struct pool){ .pending_tail = &pool.pending, .run_us = -1 };
	lease = (struct lease){ 0 };
	ledger_init(&ledger);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	job_list_free(pool.pending);
	ledger_clear(&ledger);
	return 0;
}

static struct job *hold(int64_t id, uint64_t since_ns, int64_t lease_ms)
{
	struct job *job = job_new("default", "f", "", "{}", 2);

	assert_non_null(job);
	job->id = job->receipt = id;
	job->lease_ns = since_ns;
	job->lease_ms = job->granted_ms = lease_ms;
	pool_add(&pool, job);
	return job;
}

static void the_shorter_of_two_leases_decides(void **state)
{
	struct lease_oldest o = lease_oldest(&lease, &pool);

	(void)state;
	assert_int_equal(o.n, 0);
	assert_true(o.fence_ns == UINT64_MAX && o.renew_ns == UINT64_MAX);
	hold(1, NOW, 60000);
	hold(2, NOW + 1000 * MS, 3000);
	o = lease_oldest(&lease, &pool);
	assert_int_equal(o.n, 2);
	assert_int_equal(o.renew_ns, NOW + 2000 * MS);
	assert_int_equal(o.fence_ns, NOW + 3700 * MS);
	assert_int_equal(lease_shortest_ns(&pool, 60000), 2700 * MS);
	assert_int_equal(lease_shortest_ns(&pool, 1000), 900 * MS);
}

static void a_lease_that_a_renewal_left_out_waits_for_the_next_try(void **state)
{
	(void)state;
	hold(1, NOW, 3000);
	lease.renewal_ns = NOW + 1;
	lease.renew_ns = NOW + 5000 * MS;
	assert_int_equal(lease_oldest(&lease, &pool).renew_ns, NOW + 5000 * MS);
	hold(2, NOW + 1, 3000); /* claimed since */
	assert_int_equal(lease_oldest(&lease, &pool).renew_ns, NOW + 1000 * MS + 1);
}

static void a_job_whose_lease_is_about_to_end_is_given_back_and_others_stay(void **state)
{
	(void)state;
	hold(1, NOW, 3000);
	hold(2, NOW, 60000);
	assert_false(lease_fence(&lease, &pool, &ledger, NOW + 2700 * MS - 1));
	assert_int_equal(pool_load(&pool), 2);
	assert_true(lease_fence(&lease, &pool, &ledger, NOW + 2700 * MS));
	assert_int_equal(pool_load(&pool), 1);
	assert_int_equal(pool.pending->id, 2);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 1);
	assert_false(lease_fence(&lease, &pool, &ledger, NOW + 2700 * MS));
}

/* Sorted as the cycle sorts them. The lease itself has no id. */
static void a_renewed_lease_counts_from_the_renewal_and_a_job_that_is_gone_is_forgotten(void **state)
{
	struct store_lease leases[] = {
		{ .id = 0, .receipt = 1, .left_ms = 5000 },
		{ .id = 2, .receipt = 2, .gone = JOB_GONE_CANCELLED },
	};
	uint64_t now = clock_ns();
	struct store_cycle cycle = { .sent_ns = now + 500 * MS, .leases = leases, .leases_len = 2 };

	(void)state;
	hold(1, now, 3000);
	hold(2, now, 3000);
	lease_after_renewal(&pool, &ledger, &cycle);
	assert_int_equal(pool_load(&pool), 1);
	assert_int_equal(pool.pending->lease_ns, now + 500 * MS);
	assert_int_equal(pool.pending->granted_ms, 5000);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 0);
	assert_int_equal(ledger.closing.len, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_shorter_of_two_leases_decides, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_lease_that_a_renewal_left_out_waits_for_the_next_try, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_job_whose_lease_is_about_to_end_is_given_back_and_others_stay, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			a_renewed_lease_counts_from_the_renewal_and_a_job_that_is_gone_is_forgotten, set_up, tear_down),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
