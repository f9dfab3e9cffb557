/* SPDX-License-Identifier: MIT */
#include "base/detached.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

bool detached_start(void *(*f)(void *arg), void *arg)
{
	pthread_attr_t detached;
	sigset_t all, before;
	pthread_t thread;
	int rc;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = pthread_create(&thread, &detached, f, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&detached);
	errno = rc;
	return rc == 0;
}
