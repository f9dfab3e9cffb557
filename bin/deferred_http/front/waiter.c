/* SPDX-License-Identifier: MIT */
#include "front/waiter.h"

#include "base/clock.h"
#include "front/db_connection.h"
#include "rows/api.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define LOOK_MS 50    /* shortest time between two looks */
#define LOOK_SHARE 10 /* and between them that many times as long as the last look took */

struct waiter {
	struct db_connection db;
	char *conninfo;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct waiter_entry *entries;
	bool quiet, stopping;
};

/* Sets until_ns of the entries whose jobs have ended to 0. Without a database they wait on. */
static void look_for_ends(struct waiter *w, struct waiter_entry *list)
{
	struct deferred_error err = { 0 };
	struct pg *pg = db_connection_get(&w->db, NULL);
	struct pg_result *res = NULL;
	struct waiter_entry **all;
	size_t n = 0, len = 0;
	int64_t *ids;

	for (struct waiter_entry *e = list; e; e = e->next)
		len++;
	all = calloc(len, sizeof(*all));
	ids = calloc(len, sizeof(*ids));
	for (struct waiter_entry *e = list; all && ids && e; e = e->next) {
		all[n] = e;
		ids[n++] = e->id;
	}
	if (pg && n > 0 && api_ended_exec(pg, ids, n, &res, &err) < 0)
		db_connection_drop(&w->db, &err);
	for (size_t row = 0; res && row < pg_rows(res); row++) {
		int64_t item = api_ended_row(res, row).item;

		if (item >= 1 && (size_t)item <= n)
			all[item - 1]->until_ns = 0;
	}
	pg_result_free(res);
	free(all);
	free(ids);
}

/* Wakes the entries that need not wait. Returns the others. */
static struct waiter_entry *wake_entries(struct waiter_entry *list, bool everyone)
{
	struct waiter_entry *rest = NULL, *next;
	uint64_t now = clock_ns();

	for (; list; list = next) {
		next = list->next;
		if (everyone || list->until_ns <= now) {
			list->wake(list->wake_data);
		} else {
			list->next = rest;
			rest = list;
		}
	}
	return rest;
}

static void *run_waiter(void *arg)
{
	struct waiter *w = arg;

	pthread_mutex_lock(&w->lock);
	while (!w->stopping || w->entries) {
		struct waiter_entry *list = w->entries, **end = &list;
		bool quiet = w->quiet || w->stopping;
		uint64_t began = clock_ns(), took_ms;
		struct timespec until;

		if (!list) {
			pthread_cond_wait(&w->changed, &w->lock);
			continue;
		}
		w->entries = NULL;
		pthread_mutex_unlock(&w->lock);
		if (!quiet)
			look_for_ends(w, list);
		list = wake_entries(list, quiet);
		took_ms = (clock_ns() - began) / NS_PER_MS;
		pthread_mutex_lock(&w->lock);
		for (end = &list; *end;)
			end = &(*end)->next;
		*end = w->entries;
		w->entries = list;
		until = clock_deadline((int)(took_ms * LOOK_SHARE > LOOK_MS ? took_ms * LOOK_SHARE : LOOK_MS));
		while (!w->quiet && !w->stopping &&
		       pthread_cond_clockwait(&w->changed, &w->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
			;
	}
	pthread_mutex_unlock(&w->lock);
	db_connection_close(&w->db);
	return NULL;
}

struct waiter *waiter_start(const char *conninfo, struct deferred_error *err)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (!w || !(w->conninfo = strdup(conninfo ? conninfo : ""))) {
		free(w);
		error_set(err, DEFERRED_ENOMEM, "waiter", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	db_connection_init(&w->db, w->conninfo, "waiting");
	errno = pthread_create(&w->thread, NULL, run_waiter, w);
	if (errno != 0) {
		error_errno(err, DEFERRED_ESYSTEM, "waiter",
			    "cannot start a thread\nraise the limit of processes (ulimit -u)");
		free(w->conninfo);
		free(w);
		return NULL;
	}
	return w;
}

void waiter_add(struct waiter *w, struct waiter_entry *entry)
{
	pthread_mutex_lock(&w->lock);
	entry->next = w->entries;
	w->entries = entry;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void waiter_quiesce(struct waiter *w)
{
	pthread_mutex_lock(&w->lock);
	w->quiet = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void waiter_stop(struct waiter *w)
{
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w->conninfo);
	free(w);
}
