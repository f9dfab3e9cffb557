/* SPDX-License-Identifier: MIT */
#include "http/limits.h"

#include "base/clock.h"

#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#define NO_DEADLINE UINT64_MAX

void limits_init(struct limits *l, int open_max, int per_address_max)
{
	*l = (struct limits){ .open_max = open_max,
			      .per_address_max = per_address_max > 0 ? per_address_max : INT_MAX };
	pthread_mutex_init(&l->lock, NULL);
}

void limits_free(struct limits *l)
{
	pthread_mutex_destroy(&l->lock);
}

static struct limits_entry *older_of(struct limits_entry *a, struct limits_entry *b)
{
	return !a || atomic_load(&b->since_ns) < atomic_load(&a->since_ns) ? b : a;
}

/* Locked. The fresh connection waits too, so it is the one to close if the server works for all others. */
static void evict_for(struct limits *l, const struct limits_entry *fresh)
{
	struct limits_entry *same = NULL, *any = NULL, *victim;
	int of_address = 0, address_max = fresh->address[0] ? l->per_address_max : INT_MAX;

	if (l->open <= l->open_max && l->open <= address_max)
		return;
	for (struct limits_entry *e = l->entries; e; e = e->next) {
		bool is_same = strcmp(e->address, fresh->address) == 0;

		if (e->evicted)
			continue;
		of_address += is_same;
		if (atomic_load(&e->deadline_ns) == NO_DEADLINE)
			continue;
		any = older_of(any, e);
		same = is_same ? older_of(same, e) : same;
	}
	victim = of_address > address_max ? same : l->open > l->open_max ? any : NULL;
	if (victim) {
		victim->evicted = true;
		l->open--;
		shutdown(victim->fd, SHUT_RDWR);
	}
}

void limits_enter(struct limits *l, struct limits_entry *e, int64_t deadline_ms)
{
	limits_wait(e, deadline_ms);
	pthread_mutex_lock(&l->lock);
	e->next = l->entries;
	e->before = &l->entries;
	if (e->next)
		e->next->before = &e->next;
	l->entries = e;
	l->open++;
	evict_for(l, e);
	pthread_mutex_unlock(&l->lock);
}

void limits_leave(struct limits *l, struct limits_entry *e)
{
	pthread_mutex_lock(&l->lock);
	*e->before = e->next;
	if (e->next)
		e->next->before = e->before;
	l->open -= !e->evicted;
	pthread_mutex_unlock(&l->lock);
}

void limits_wait(struct limits_entry *e, int64_t deadline_ms)
{
	uint64_t now = clock_ns();

	atomic_store(&e->since_ns, now);
	atomic_store(&e->deadline_ns, deadline_ms < 0 ? NO_DEADLINE : now + (uint64_t)deadline_ms * NS_PER_MS);
}

void limits_tick(struct limits *l)
{
	uint64_t now = clock_ns();

	pthread_mutex_lock(&l->lock);
	for (struct limits_entry *e = l->entries; e; e = e->next)
		if (atomic_load(&e->deadline_ns) < now)
			shutdown(e->fd, SHUT_RDWR);
	pthread_mutex_unlock(&l->lock);
}
