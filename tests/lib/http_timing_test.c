/* SPDX-License-Identifier: MIT */
/* How long it takes to find out that a signature is wrong: as long where there is no such account. */
#include "protocol/auth.h"
#include "http/crypto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "http_call.h"

#define TRIES 10000 /* of each kind */
#define AT 1795198532
#define DATE "Fri, 20 Nov 2026 18:15:32 GMT"
#define HEAD \
	"POST /sally/myqueue/messages?messagettl=3600\nHost: 127.0.0.1:10001\nx-ms-date: " DATE \
	"\nx-ms-version: 2021-12-02\nContent-Length: 120"

enum { WRONG_KEY, NO_ACCOUNT, DISABLED, EARLY, KINDS };

/* What a try costs may be measured of this process alone: others that have the processor meanwhile do not count. */
static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t try_once(int kind, const struct request *r, const struct account *account)
{
	int64_t began = cpu_ns();
	struct auth auth;
	bool in = auth_read(r, AT, &auth);

	/* EARLY is what is not to be: the answer is given once it is known that there is no account. */
	if (kind != EARLY)
		in = auth_judge(&auth, r, account) || !in;
	began = cpu_ns() - began;
	assert_true(in == (kind == EARLY));
	return began;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static double median(int64_t *times, size_t n)
{
	qsort(times, n, sizeof(*times), by_size);
	return (double)times[n / 2];
}

static double distance(double a, double b)
{
	return a < b ? b - a : a - b;
}

/* Tries of all kinds take turns, so that whatever slows the machine slows all of them. Returns by how much two halves
 * of one kind differ. */
static double measure(const struct request *r, double medians[KINDS])
{
	static int64_t times[KINDS][2][TRIES / 2];
	const struct account wrong = { .name = "sally",
				       .enabled = true,
				       .keys = { .len = { 32, 32 }, .key = { { 1 }, { 2 } } } };
	const struct account disabled = { .name = "sally", .keys = { .len = { 32, 32 }, .key = { { 3 }, { 4 } } } };
	const struct account *const accounts[KINDS] = { &wrong, NULL, &disabled, NULL };
	double noise = 0;

	for (size_t i = 0; i < TRIES; i++)
		for (size_t k = 0; k < KINDS; k++) {
			int kind = (int)((i + k) % KINDS);

			times[kind][i % 2][i / 2] = try_once(kind, r, accounts[kind]);
		}
	for (int kind = 0; kind < KINDS; kind++) {
		double half[2] = { median(times[kind][0], TRIES / 2), median(times[kind][1], TRIES / 2) };

		medians[kind] = (half[0] + half[1]) / 2;
		if (distance(half[0], half[1]) > noise)
			noise = distance(half[0], half[1]);
	}
	return noise;
}

/* A difference is one of more than a tenth; where halves of one kind differ by as much as 1/40 nothing was measured. */
static void whether_there_is_an_account_cannot_be_told_by_the_time(void **state)
{
	double all[KINDS], noise, tenth;
	struct arena arena = { 0 };
	struct request r;
	int rounds = 0;

	(void)state;
	assert_int_equal(http_call(&r, &arena,
				   HEAD
				   "\nAuthorization: SharedKey sally:KMX607xoe3v7hcNpWxkhVsZ5DcKDSH7CBU8Khxp8sWU="),
			 FAULT_NONE);
	do {
		noise = measure(&r, all);
		tenth = all[WRONG_KEY] / 10;
	} while (noise > tenth / 4 && ++rounds < 20);
	print_message("# median of %d: wrong key %.0f ns, no account %.0f ns, disabled %.0f ns, early %.0f ns; halves "
		      "differ by up to %.0f ns\n",
		      TRIES, all[WRONG_KEY], all[NO_ACCOUNT], all[DISABLED], all[EARLY], noise);
	assert_true(distance(all[WRONG_KEY], all[NO_ACCOUNT]) < tenth);
	assert_true(distance(all[WRONG_KEY], all[DISABLED]) < tenth);
	assert_true(distance(all[WRONG_KEY], all[EARLY]) > tenth);
	arena_clear(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(whether_there_is_an_account_cannot_be_told_by_the_time) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("http_timing", tests, NULL, NULL);
}
