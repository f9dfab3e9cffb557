/* SPDX-License-Identifier: MIT */
#include "engine/pure/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* What a row below does not say: the first attempt of a job that wishes nothing, of a worker that goes on. */
#define IN(...) ((struct verdict_in){ .max_attempts = 3, .backoff = { 10000, 3600000, 2 }, __VA_ARGS__ })
#define ATTEMPT(...) ((struct attempt){ .retry_after_ms = -1, .exit_code = -1, __VA_ARGS__ })
#define JOB(...) (&(const struct job){ .attempt = 1, __VA_ARGS__ })

#pragma GCC diagnostic ignored "-Woverride-init"

static struct attempt judged(struct attempt a, struct job *job, struct verdict_in in, uint64_t seed)
{
	a.job = job;
	verdict(&a, &in, &seed);
	return a;
}

static void an_attempt_ends_its_job_or_counts_or_does_neither(void **state)
{
	const struct {
		const char *what;
		struct attempt attempt;
		const struct job *job;
		struct verdict_in in;
		enum job_outcome outcome;
		bool counts, final;
	} table[] = {
		{ "a success", ATTEMPT(.outcome = JOB_OK), JOB(), IN(), JOB_OK, true, true },
		{ "a success, though it was asked to stop", ATTEMPT(.outcome = JOB_OK), JOB(),
		  IN(.stopping = true, .stop_outcome = JOB_SUPERSEDED), JOB_OK, true, true },
		{ "cancelled by its function", ATTEMPT(.outcome = JOB_CANCELLED), JOB(), IN(), JOB_CANCELLED, true,
		  true },
		{ "a failure", ATTEMPT(.outcome = JOB_FAILED), JOB(), IN(), JOB_FAILED, true, false },
		{ "a failure for good", ATTEMPT(.outcome = JOB_FAILED, .dead = true), JOB(), IN(), JOB_FAILED, true,
		  true },
		{ "the last failure", ATTEMPT(.outcome = JOB_FAILED), JOB(.attempt = 3), IN(), JOB_FAILED, true, true },
		{ "the last one, as the job says", ATTEMPT(.outcome = JOB_CRASHED), JOB(.max_attempts = 1), IN(),
		  JOB_CRASHED, true, true },
		{ "not the last one, as the job says", ATTEMPT(.outcome = JOB_TIMEOUT),
		  JOB(.attempt = 3, .max_attempts = 4), IN(), JOB_TIMEOUT, true, false },
		{ "not the last one, for some did not count", ATTEMPT(.outcome = JOB_FAILED),
		  JOB(.attempt = 5, .attempt_base = 3), IN(), JOB_FAILED, true, false },
		{ "what it needs is missing here", ATTEMPT(.outcome = JOB_FAILED, .unready = true), JOB(.attempt = 3),
		  IN(), JOB_FAILED, false, false },
		{ "put off", ATTEMPT(.outcome = JOB_SNOOZED), JOB(.attempt = 3), IN(), JOB_SNOOZED, false, false },
		{ "failed because it was asked to end", ATTEMPT(.outcome = JOB_FAILED), JOB(.attempt = 3),
		  IN(.stopping = true, .stop_outcome = JOB_SUPERSEDED), JOB_SUPERSEDED, false, false },
		{ "failed for good while it was asked to end", ATTEMPT(.outcome = JOB_FAILED, .dead = true), JOB(),
		  IN(.stopping = true, .stop_outcome = JOB_INTERRUPTED), JOB_FAILED, true, true },
		{ "failed with a wish while it was asked to end", ATTEMPT(.outcome = JOB_FAILED, .retry_after_ms = 5),
		  JOB(), IN(.stopping = true, .stop_outcome = JOB_INTERRUPTED), JOB_FAILED, true, false },
		{ "crashed while it was asked to end", ATTEMPT(.outcome = JOB_CRASHED), JOB(.attempt = 3),
		  IN(.stopping = true, .stop_outcome = JOB_INTERRUPTED), JOB_CRASHED, true, true },
		{ "killed by the next start", ATTEMPT(.outcome = JOB_SUPERSEDED), JOB(.attempt = 3), IN(),
		  JOB_SUPERSEDED, false, false },
		{ "cut off by us, who stop", ATTEMPT(.outcome = JOB_INTERRUPTED), JOB(.attempt = 3),
		  IN(.stopping = true), JOB_INTERRUPTED, false, false },
		{ "cut off by us, whose leases end", ATTEMPT(.outcome = JOB_INTERRUPTED), JOB(.attempt = 3),
		  IN(.fenced = true), JOB_INTERRUPTED, false, false },
		{ "cut off for its runner's disorder", ATTEMPT(.outcome = JOB_INTERRUPTED), JOB(.attempt = 3), IN(),
		  JOB_INTERRUPTED, true, true },
		{ "cut off with its batch", ATTEMPT(.outcome = JOB_INTERRUPTED, .shared = true), JOB(.attempt = 3),
		  IN(), JOB_INTERRUPTED, false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct job job = *table[i].job;
		struct attempt a = judged(table[i].attempt, &job, table[i].in, i);

		if (a.outcome != table[i].outcome || a.counts != table[i].counts || a.final != table[i].final)
			fail_msg("%s: %s, counts %d, final %d", table[i].what, job_outcome_text(a.outcome), a.counts,
				 a.final);
	}
}

static void a_job_that_was_cut_off_with_its_batch_is_a_suspect_unless_we_did_it(void **state)
{
	struct attempt shared = ATTEMPT(.outcome = JOB_INTERRUPTED, .shared = true);
	struct job job = *JOB();

	(void)state;
	assert_true(judged(shared, &job, IN(), 1).suspect);
	assert_false(judged(shared, &job, IN(.stopping = true), 1).suspect);
	assert_false(judged(shared, &job, IN(.fenced = true), 1).suspect);
	assert_false(judged(ATTEMPT(.outcome = JOB_CRASHED), &job, IN(), 1).suspect);
	assert_int_equal(judged(shared, &job, IN(), 1).delay_ms, 0);
}

/* Of a back-off the last fifth is random. */
static void it_is_due_again_as_it_wishes_or_after_a_back_off(void **state)
{
	const struct {
		const char *what;
		struct attempt attempt;
		const struct job *job;
		struct verdict_in in;
		int64_t least_ms, most_ms;
	} table[] = {
		{ "the first failure", ATTEMPT(.outcome = JOB_FAILED), JOB(), IN(), 8000, 10000 },
		{ "the second failure", ATTEMPT(.outcome = JOB_FAILED), JOB(.attempt = 2), IN(), 16000, 20000 },
		{ "the second that counts", ATTEMPT(.outcome = JOB_FAILED), JOB(.attempt = 9, .attempt_base = 7), IN(),
		  16000, 20000 },
		{ "by the floor of the job", ATTEMPT(.outcome = JOB_FAILED), JOB(.backoff_floor_ms = 500), IN(), 400,
		  500 },
		{ "by the exponent of the job", ATTEMPT(.outcome = JOB_FAILED),
		  JOB(.attempt = 2, .backoff_exponent = 10), IN(), 80000, 100000 },
		{ "by the ceiling of the job", ATTEMPT(.outcome = JOB_FAILED),
		  JOB(.attempt = 2, .backoff_ceiling_ms = 12000), IN(), 9600, 12000 },
		{ "by a floor above the usual ceiling", ATTEMPT(.outcome = JOB_FAILED),
		  JOB(.backoff_floor_ms = 7200000), IN(), 5760000, 7200000 },
		{ "by a ceiling below the usual floor", ATTEMPT(.outcome = JOB_FAILED),
		  JOB(.attempt = 2, .backoff_ceiling_ms = 100), IN(), 80, 100 },
		{ "by a ceiling below its own floor", ATTEMPT(.outcome = JOB_FAILED),
		  JOB(.backoff_floor_ms = 500, .backoff_ceiling_ms = 100), IN(), 80, 100 },
		{ "when the function wishes", ATTEMPT(.outcome = JOB_FAILED, .retry_after_ms = 77), JOB(.attempt = 2),
		  IN(), 77, 77 },
		{ "at once", ATTEMPT(.outcome = JOB_FAILED, .retry_after_ms = 0), JOB(), IN(), 0, 0 },
		{ "put off as it wishes", ATTEMPT(.outcome = JOB_SNOOZED, .retry_after_ms = 90000), JOB(.attempt = 7),
		  IN(), 90000, 90000 },
		{ "put off, but not at once", ATTEMPT(.outcome = JOB_SNOOZED, .retry_after_ms = 0), JOB(), IN(),
		  VERDICT_SNOOZE_MIN_MS, VERDICT_SNOOZE_MIN_MS },
		{ "put off without a wish: by all attempts", ATTEMPT(.outcome = JOB_SNOOZED),
		  JOB(.attempt = 3, .attempt_base = 2), IN(), 32000, 40000 },
		{ "unready: by all attempts", ATTEMPT(.outcome = JOB_FAILED, .unready = true),
		  JOB(.attempt = 3, .attempt_base = 2), IN(), 32000, 40000 },
		{ "unready: its wishes do not count",
		  ATTEMPT(.outcome = JOB_FAILED, .unready = true, .retry_after_ms = 0), JOB(.backoff_floor_ms = 1),
		  IN(), 8000, 10000 },
		{ "what the next start killed is ready at once",
		  ATTEMPT(.outcome = JOB_SUPERSEDED, .retry_after_ms = 9), JOB(), IN(), 0, 0 },
		{ "what we cut off is ready at once", ATTEMPT(.outcome = JOB_INTERRUPTED), JOB(), IN(.fenced = true), 0,
		  0 },
		{ "what is over is not", ATTEMPT(.outcome = JOB_FAILED, .retry_after_ms = 9), JOB(.attempt = 3), IN(),
		  0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (uint64_t seed = 0; seed < 50; seed++) {
			struct job job = *table[i].job;
			struct attempt a = judged(table[i].attempt, &job, table[i].in, seed);

			if (a.delay_ms < table[i].least_ms || a.delay_ms > table[i].most_ms)
				fail_msg("%s, seed %llu: %lld ms", table[i].what, (unsigned long long)seed,
					 (long long)a.delay_ms);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_that_was_cut_off_with_its_batch_is_a_suspect_unless_we_did_it),
		cmocka_unit_test(an_attempt_ends_its_job_or_counts_or_does_neither),
		cmocka_unit_test(it_is_due_again_as_it_wishes_or_after_a_back_off),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
