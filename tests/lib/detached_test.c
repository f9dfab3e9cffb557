/* SPDX-License-Identifier: MIT */
#include "base/detached.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static sem_t ended;

static void *look_at_mask(void *mask)
{
	pthread_sigmask(SIG_BLOCK, NULL, mask);
	sem_post(&ended);
	return NULL;
}

static void a_thread_takes_no_signals(void **state)
{
	sigset_t of_thread, before, after;

	(void)state;
	sem_init(&ended, 0, 0);
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	assert_true(detached_start(look_at_mask, &of_thread));
	sem_wait(&ended);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_true(sigismember(&of_thread, SIGTERM) && sigismember(&of_thread, SIGCHLD) &&
		    sigismember(&of_thread, SIGHUP));
	assert_false(sigismember(&before, SIGTERM) || sigismember(&after, SIGTERM));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_thread_takes_no_signals) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("detached", tests, NULL, NULL);
}
