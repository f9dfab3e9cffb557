/* SPDX-License-Identifier: MIT */
/* The context of a process that opens none, shared by its threads. */
#include "api/context.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t default_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static struct deferred *default_context;
static _Thread_local struct deferred_error last_error;

/* Another thread of the parent may have held it. That thread does not exist in the child. */
static void renew_mutex(void)
{
	pthread_mutex_init(&default_mutex, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, renew_mutex);
}

/*
 * A child shares the socket of its parent, and closing the connection properly would end the parent's session. So the
 * child closes only its copy of the socket, and keeps the rest.
 */
static int check_default_context(struct deferred_error *err)
{
	struct deferred *d = default_context, *mine = NULL;
	int rc;

	if (d && d->pid == getpid())
		return 0;
	rc = context_open(&mine, NULL, NULL, err);
	if (rc < 0)
		return rc;
	if (d && d->pg)
		close(pg_fd(d->pg));
	mine->inherited = d;
	default_context = mine;
	return 0;
}

int64_t deferred_default_defer(const char *fn, const char *params, const struct deferred_opts *opts)
{
	int64_t id = 0;
	int rc;

	error_clear(&last_error);
	pthread_once(&default_once, watch_forks);
	pthread_mutex_lock(&default_mutex);
	rc = check_default_context(&last_error);
	if (rc == 0)
		rc = deferred_defer(default_context, fn, params, opts, &id, &last_error);
	pthread_mutex_unlock(&default_mutex);
	return rc < 0 ? rc : id;
}

const struct deferred_error *deferred_last_error(void)
{
	return &last_error;
}
