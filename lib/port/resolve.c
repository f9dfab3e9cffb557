/* SPDX-License-Identifier: MIT */
#include "port/resolve.h"

#include "base/detached.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct resolve {
	atomic_size_t users; /* the caller, and each thread; the last one frees */
	int event;
	size_t n;
	struct name {
		struct resolve *all;
		char *host; /* NULL: nothing is looked up */
		struct addrinfo *found;
		int error;
		atomic_bool answered; /* found and error are not written any more */
	} name[];
};

static void leave(struct resolve *r)
{
	if (atomic_fetch_sub(&r->users, 1) != 1)
		return;
	for (size_t i = 0; i < r->n; i++) {
		if (r->name[i].found)
			freeaddrinfo(r->name[i].found);
		free(r->name[i].host);
	}
	if (r->event >= 0)
		close(r->event);
	free(r);
}

static void *look_up(void *arg)
{
	struct name *name = arg;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };

	name->error = getaddrinfo(name->host, NULL, &hints, &name->found);
	atomic_store(&name->answered, true);
	eventfd_write(name->all->event, 1);
	leave(name->all);
	return NULL;
}

struct resolve *resolve_start(char *const *names, size_t n)
{
	struct resolve *r = calloc(1, sizeof(*r) + n * sizeof(r->name[0]));
	bool started;
	int cause;

	if (!r)
		return NULL;
	atomic_init(&r->users, 1);
	r->n = n;
	r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	started = r->event >= 0;
	for (size_t i = 0; started && i < n; i++) {
		struct name *name = &r->name[i];

		name->all = r;
		if (!names[i])
			continue;
		name->host = strdup(names[i]);
		atomic_fetch_add(&r->users, 1);
		started = name->host && detached_start(look_up, name);
		if (!started)
			leave(r);
	}
	if (started)
		return r;
	cause = errno;
	leave(r);
	errno = cause;
	return NULL;
}

int resolve_fd(const struct resolve *r)
{
	return r->event;
}

size_t resolve_pending(struct resolve *r)
{
	eventfd_t times;
	size_t pending = 0;

	eventfd_read(r->event, &times);
	for (size_t i = 0; i < r->n; i++)
		pending += r->name[i].host && !atomic_load(&r->name[i].answered);
	return pending;
}

const struct addrinfo *resolve_found(const struct resolve *r, size_t i, const char **why)
{
	const struct name *name = &r->name[i];
	bool answered = atomic_load(&name->answered);

	*why = answered && name->error ? gai_strerror(name->error) : NULL;
	return answered ? name->found : NULL;
}

void resolve_end(struct resolve *r)
{
	if (r)
		leave(r);
}
