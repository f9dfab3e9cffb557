/* SPDX-License-Identifier: MIT */
#include "engine/pure/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct job *new_job(int64_t id)
{
	struct job *job = job_new("default", "noop", "", "{}", 2);

	assert_non_null(job);
	job->id = id;
	return job;
}

static void end(struct ledger *l, int64_t id, uint64_t now)
{
	struct attempt *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	a->job = new_job(id);
	ledger_end(l, a, now);
}

/* The ids in a state, in order: {1,2} as 12. */
static int64_t ids(const struct ledger *l, enum ledger_state state)
{
	size_t n;
	struct job **jobs = ledger_jobs(l, state, &n);
	int64_t text = 0;

	assert_int_equal(n, l->n[state]);
	for (size_t i = 0; i < n; i++)
		text = text * 10 + jobs[i]->id;
	free(jobs);
	return text;
}

static enum ledger_state not_2(void *data, struct job *job)
{
	(void)data;
	return job->id == 2 ? LEDGER_REFUSED : LEDGER_NONE;
}

static enum ledger_state leave(void *data, struct job *job)
{
	(void)data;
	(void)job;
	return LEDGER_NONE;
}

static void what_is_recorded_leaves_and_what_is_refused_stays(void **state)
{
	struct ledger l;

	(void)state;
	ledger_init(&l);
	end(&l, 1, 100);
	end(&l, 2, 200);
	assert_int_equal(l.ended_ns, 100);
	ledger_record(&l);
	end(&l, 3, 300); /* during the cycle */
	assert_int_equal(l.ended_ns, 300);
	assert_int_equal(ids(&l, LEDGER_RECORDING), 12);
	assert_int_equal(ids(&l, LEDGER_ENDED), 3);
	ledger_each(&l, LEDGER_RECORDING, not_2, NULL);
	assert_int_equal(ids(&l, LEDGER_RECORDING), 0);
	assert_int_equal(ids(&l, LEDGER_REFUSED), 2);
	assert_int_equal(ledger_len(&l), 2);
	ledger_each(&l, LEDGER_REFUSED, leave, NULL);
	ledger_record(&l);
	ledger_each(&l, LEDGER_RECORDING, leave, NULL);
	assert_int_equal(ledger_len(&l), 0);
	assert_null(l.first);
	end(&l, 4, 400); /* the end of the list is where it should be */
	assert_int_equal(ids(&l, LEDGER_ENDED), 4);
	ledger_clear(&l);
}

static void a_cycle_that_fails_leaves_everything_in_its_place(void **state)
{
	struct ledger l;

	(void)state;
	ledger_init(&l);
	end(&l, 1, 100);
	ledger_return(&l, new_job(2));
	ledger_record(&l);
	ledger_give_back(&l, 1);
	end(&l, 3, 200);
	assert_int_equal(ids(&l, LEDGER_RETURNING), 2);
	ledger_undo(&l, LEDGER_ENDED);
	assert_int_equal(ids(&l, LEDGER_ENDED), 13); /* the older one first */
	assert_int_equal(ids(&l, LEDGER_RETURNED), 2);
	assert_int_equal(l.n[LEDGER_RECORDING] + l.n[LEDGER_RETURNING], 0);
	ledger_record(&l);
	ledger_undo(&l, LEDGER_SET_ASIDE);
	assert_int_equal(ids(&l, LEDGER_SET_ASIDE), 13);
	ledger_clear(&l);
}

static void those_set_apart_go_one_by_one_each_at_its_time(void **state)
{
	struct ledger l;
	struct attempt **a;
	size_t n;

	(void)state;
	ledger_init(&l);
	for (int id = 1; id <= 3; id++)
		end(&l, id, 100);
	ledger_record(&l);
	ledger_undo(&l, LEDGER_SET_ASIDE);
	a = ledger_attempts(&l, LEDGER_SET_ASIDE, &n);
	assert_int_equal(n, 3);
	a[0]->again_ns = 50;
	a[1]->again_ns = 20;
	a[2]->again_ns = 20;
	free(a);
	assert_int_equal(ledger_due_ns(&l, LEDGER_SET_ASIDE), 20);
	ledger_record_set_aside(&l, 19);
	assert_int_equal(l.n[LEDGER_RECORDING], 0);
	ledger_record_set_aside(&l, 20);
	assert_int_equal(ids(&l, LEDGER_RECORDING), 2);
	ledger_each(&l, LEDGER_RECORDING, leave, NULL);
	ledger_record_set_aside(&l, 60);
	assert_int_equal(ids(&l, LEDGER_RECORDING), 1);
	assert_int_equal(ledger_due_ns(&l, LEDGER_SET_ASIDE), 20);
	ledger_clear(&l);
}

static void what_is_locked_is_given_back_later(void **state)
{
	struct ledger l;
	struct job *late = new_job(1);

	(void)state;
	ledger_init(&l);
	late->release_ns = 50;
	ledger_return(&l, late);
	ledger_return(&l, new_job(2));
	assert_int_equal(ledger_due_ns(&l, LEDGER_RETURNED), 0);
	ledger_give_back(&l, 10);
	assert_int_equal(ids(&l, LEDGER_RETURNING), 2);
	assert_int_equal(ledger_due_ns(&l, LEDGER_RETURNED), 50);
	assert_int_equal(ledger_due_ns(&l, LEDGER_SET_ASIDE), UINT64_MAX);
	ledger_clear(&l);
}

static void a_lease_is_given_up_once_nothing_of_it_is_held(void **state)
{
	int64_t still[] = { 5, 7 }, abandoned[] = { 7 };
	struct store_ids held = { still, 2, 2 };
	struct ledger l;

	(void)state;
	ledger_init(&l);
	ledger_left(&l, 9);
	ledger_left(&l, 5);
	ledger_left(&l, 5);
	ledger_left(&l, 7);
	ledger_left(&l, 9);
	ledger_close(&l, &held);
	assert_int_equal(l.closed.len, 1);
	assert_int_equal(l.closed.id[0], 9);
	ledger_undo(&l, LEDGER_ENDED); /* it failed: the next cycle does it */
	assert_int_equal(l.closed.len, 0);
	held = (struct store_ids){ abandoned, 1, 1 };
	ledger_close(&l, &held);
	assert_int_equal(l.closed.len, 2);
	ledger_closed(&l);
	ledger_close(&l, &held);
	assert_int_equal(l.closed.len, 0); /* the one that ends by itself is not given up */
	ledger_left(&l, 3);
	ledger_forget_leases(&l);
	ledger_close(&l, &held);
	assert_int_equal(l.closed.len, 0);
	ledger_clear(&l);
}

static void children_are_asked_for_and_leave_in_order(void **state)
{
	struct job *children;
	struct ledger l;

	(void)state;
	ledger_init(&l);
	ledger_child(&l, new_job(1));
	end(&l, 2, 10);
	ledger_child(&l, new_job(3));
	ledger_return(&l, new_job(4));
	ledger_ask(&l);
	assert_int_equal(ids(&l, LEDGER_ASKING), 13);
	ledger_undo(&l, LEDGER_ENDED);
	assert_int_equal(ids(&l, LEDGER_CHILD), 13);
	ledger_ask(&l);
	ledger_child(&l, new_job(5)); /* claimed meanwhile: asked for by the next cycle */
	children = ledger_take(&l, LEDGER_ASKING);
	assert_int_equal(children->id, 1);
	assert_int_equal(children->next->id, 3);
	assert_null(children->next->next);
	assert_int_equal(ledger_len(&l), 3);
	job_list_free(children);
	assert_null(ledger_take(&l, LEDGER_ASKING));
	children = ledger_take(&l, LEDGER_CHILD); /* the last one */
	assert_int_equal(children->id, 5);
	ledger_child(&l, children);
	assert_int_equal(ids(&l, LEDGER_CHILD), 5);
	assert_int_equal(ids(&l, LEDGER_RETURNED), 4);
	ledger_clear(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_recorded_leaves_and_what_is_refused_stays),
		cmocka_unit_test(a_cycle_that_fails_leaves_everything_in_its_place),
		cmocka_unit_test(those_set_apart_go_one_by_one_each_at_its_time),
		cmocka_unit_test(what_is_locked_is_given_back_later),
		cmocka_unit_test(children_are_asked_for_and_leave_in_order),
		cmocka_unit_test(a_lease_is_given_up_once_nothing_of_it_is_held),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
