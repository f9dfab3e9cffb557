/* SPDX-License-Identifier: MIT */
#include "front/batcher.h"

#include "base/clock.h"
#include "base/log.h"
#include "front/db_connection.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_LOOK_MS 500 /* how often a thread with nothing to do looks after its connection */
#define TRIES 3          /* of a statement that the server rolled back for no fault of its own */

struct list {
	struct batcher_job *first, **end;
};

struct worker {
	struct batcher *batcher;
	struct db_connection db;
	pthread_t thread;
	bool slow;
};

struct batcher {
	char *conninfo;
	pthread_mutex_t lock;
	pthread_cond_t fast_work, slow_work;
	struct list waiting[BATCHER_KINDS];
	bool stopping;
	struct worker *workers;
	int workers_len;
};

/* ---- what waits ------------------------------------------------------------------------------- */

static void list_init(struct list *list)
{
	list->first = NULL;
	list->end = &list->first;
}

static void push_job(struct list *list, struct batcher_job *job)
{
	job->next = NULL;
	*list->end = job;
	list->end = &job->next;
}

static int64_t message_of(const struct batcher_job *job)
{
	return job->kind == BATCHER_UPDATE ? job->update.id : job->kind == BATCHER_DELETE ? job->delete.id : 0;
}

static bool is_among(struct batcher_job *const *jobs, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (message_of(jobs[i]) == id)
			return true;
	return false;
}

static int messages_of(const struct batcher_job *job)
{
	return job->kind == BATCHER_GET ? job->get.max : 0;
}

/* A statement cannot say which of two changes of one message came first. So the second stays in the list. */
static size_t take_jobs(struct list *list, struct batcher_job **jobs, size_t max)
{
	struct batcher_job **at = &list->first;
	int messages = 0;
	size_t n = 0;

	while (*at && n < max && messages + messages_of(*at) <= BATCHER_MESSAGES_MAX) {
		struct batcher_job *job = *at;
		int64_t id = message_of(job);

		messages += messages_of(job);
		if (id != 0 && is_among(jobs, n, id)) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		if (list->end == &job->next)
			list->end = at;
		jobs[n++] = job;
	}
	return n;
}

static size_t take_oldest(struct batcher *batcher, bool slow, struct batcher_job **jobs)
{
	enum batcher_kind kind = slow ? BATCHER_SLOW : BATCHER_PUT;

	if (slow)
		return take_jobs(&batcher->waiting[BATCHER_SLOW], jobs, 1);
	for (enum batcher_kind k = BATCHER_PUT; k <= BATCHER_CALL; k++)
		if (batcher->waiting[k].first &&
		    (!batcher->waiting[kind].first ||
		     batcher->waiting[k].first->since_ns < batcher->waiting[kind].first->since_ns))
			kind = k;
	return take_jobs(&batcher->waiting[kind], jobs, kind == BATCHER_CALL ? 1 : BATCHER_MAX);
}

/* ---- running it ------------------------------------------------------------------------------- */

static int send_items(struct pg *pg, struct batcher_job **jobs, size_t n, struct deferred_error *err)
{
	union {
		struct message_put put[BATCHER_MAX];
		struct message_get get[BATCHER_MAX];
		struct message_update update[BATCHER_MAX];
		struct message_delete delete[BATCHER_MAX];
		struct json_api_defer defer[BATCHER_MAX];
	} items;
	int rc = DEFERRED_EINVAL;

#define RUN(member, run) \
	do { \
		for (size_t i = 0; i < n; i++) \
			items.member[i] = jobs[i]->member; \
		rc = run(pg, items.member, n, err); \
		for (size_t i = 0; i < n; i++) \
			jobs[i]->member = items.member[i]; \
	} while (0)
	switch (jobs[0]->kind) {
	case BATCHER_PUT:
		RUN(put, store_message_put);
		break;
	case BATCHER_GET:
		RUN(get, store_message_get);
		for (size_t i = 0; rc < 0 && i < n; i++)
			message_get_clear(&jobs[i]->get);
		break;
	case BATCHER_UPDATE:
		RUN(update, store_message_update);
		break;
	case BATCHER_DELETE:
		RUN(delete, store_message_delete);
		break;
	case BATCHER_DEFER:
		RUN(defer, store_json_api_defer);
		break;
	case BATCHER_CALL:
	case BATCHER_SLOW:
		rc = jobs[0]->call.f(jobs[0]->call.data, pg, err);
		break;
	case BATCHER_KINDS:
		break;
	}
#undef RUN
	return rc;
}

static void short_sleep(int try)
{
	struct timespec ts = { 0, (long)(try + 1) * 20 * 1000000 };

	nanosleep(&ts, NULL);
}

/* Runs them as one statement, with as many tries as make sense. Returns 0, BATCHER_AGAIN, or an error. After
 * DEFERRED_ELOST nobody knows whether it ran. After other errors it had no effect. */
static int run_together(struct worker *w, struct batcher_job **jobs, size_t n, struct deferred_error *err)
{
	for (int try = 0;; try++) {
		struct pg *pg = db_connection_get(&w->db, err);
		enum error_class class;
		int rc;

		if (!pg)
			return DEFERRED_ECONNECT;
		error_clear(err);
		rc = send_items(pg, jobs, n, err);
		if (rc >= 0)
			return rc;
		class = error_class(err->sqlstate);
		if (rc == DEFERRED_ELOST || rc == DEFERRED_ECONNECT || pg_broken(pg) || class == ERROR_CONNECTION) {
			db_connection_drop(&w->db, err);
			return DEFERRED_ELOST;
		}
		if (class == ERROR_READ_ONLY || class == ERROR_SCHEMA) {
			/* It had no effect: but this server, or this schema, is none to go on with. */
			db_connection_drop(&w->db, err);
			return DEFERRED_ECONNECT;
		}
		if (class == ERROR_PREPARED)
			pg_set_unnamed(pg);
		else if (class != ERROR_TRANSIENT)
			return rc;
		if (try + 1 == TRIES)
			return DEFERRED_ETIMEOUT;
		short_sleep(try);
	}
}

static enum batcher_outcome outcome_of(int rc, const struct batcher_job *job, const struct deferred_error *err)
{
	static const char *const names[] = { "put", "get", "update", "delete", "defer", "call", "call" };

	switch (rc) {
	case 0:
		return BATCHER_DONE;
	case DEFERRED_ECONNECT:
	case DEFERRED_ELOST:
		return BATCHER_BUSY; /* db_connection.c has logged it */
	case DEFERRED_ETIMEOUT:
	case DEFERRED_ENOMEM:
		log_error(LOG_L_WARNING, err, "%s", names[job->kind]);
		return BATCHER_BUSY;
	default:
		log_line(LOG_L_ERROR, "%s: %s (%s)", names[job->kind], err->message, err->sqlstate);
		return BATCHER_FAILED;
	}
}

static void submit_again(struct batcher *batcher, struct batcher_job *job)
{
	pthread_mutex_lock(&batcher->lock);
	push_job(&batcher->waiting[job->kind], job);
	pthread_cond_signal(&batcher->slow_work);
	pthread_mutex_unlock(&batcher->lock);
}

static void run_jobs(struct worker *w, struct batcher_job **jobs, size_t n)
{
	struct deferred_error err = { 0 };
	int rc = run_together(w, jobs, n, &err);

	if (rc == BATCHER_AGAIN) {
		submit_again(w->batcher, jobs[0]);
		return;
	}
	/* One of them may be what the statement cannot take. The others run without it. */
	if (rc < 0 && rc != DEFERRED_ELOST && rc != DEFERRED_ECONNECT && n > 1) {
		for (size_t i = 0; i < n; i++)
			run_jobs(w, &jobs[i], 1);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		jobs[i]->outcome = outcome_of(rc, jobs[i], &err);
		jobs[i]->wake(jobs[i]->wake_data);
	}
}

/* Moves jobs that may run to the front, and returns how many there are. The others are answered. */
static size_t sort_out(struct batcher_job **jobs, size_t n)
{
	size_t may = 0;

	for (size_t i = 0; i < n; i++) {
		if (!jobs[i]->may_run || jobs[i]->may_run(jobs[i]->wake_data)) {
			jobs[may++] = jobs[i];
		} else {
			jobs[i]->outcome = BATCHER_BUSY;
			jobs[i]->wake(jobs[i]->wake_data);
		}
	}
	return may;
}

static void wait_for_work(struct worker *w)
{
	pthread_cond_t *work = w->slow ? &w->batcher->slow_work : &w->batcher->fast_work;
	struct timespec until = clock_deadline(IDLE_LOOK_MS);

	if (pthread_cond_clockwait(work, &w->batcher->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
		return;
	pthread_mutex_unlock(&w->batcher->lock);
	db_connection_idle(&w->db);
	pthread_mutex_lock(&w->batcher->lock);
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	struct batcher_job *jobs[BATCHER_MAX];

	db_connection_idle(&w->db);
	pthread_mutex_lock(&w->batcher->lock);
	for (;;) {
		size_t n = take_oldest(w->batcher, w->slow, jobs);

		if (n > 0) {
			pthread_mutex_unlock(&w->batcher->lock);
			n = sort_out(jobs, n);
			if (n > 0)
				run_jobs(w, jobs, n);
			pthread_mutex_lock(&w->batcher->lock);
		} else if (w->batcher->stopping) {
			break;
		} else {
			wait_for_work(w);
		}
	}
	pthread_mutex_unlock(&w->batcher->lock);
	db_connection_close(&w->db);
	return NULL;
}

/* ---- public ----------------------------------------------------------------------------------- */

static void batcher_free(struct batcher *batcher)
{
	pthread_cond_destroy(&batcher->fast_work);
	pthread_cond_destroy(&batcher->slow_work);
	pthread_mutex_destroy(&batcher->lock);
	free(batcher->workers);
	free(batcher->conninfo);
	free(batcher);
}

struct batcher *batcher_start(const char *conninfo, int threads, struct deferred_error *err)
{
	struct batcher *batcher = calloc(1, sizeof(*batcher));

	if (!batcher || !(batcher->workers = calloc((size_t)threads + 1, sizeof(*batcher->workers))) ||
	    !(batcher->conninfo = strdup(conninfo ? conninfo : ""))) {
		if (batcher)
			free(batcher->workers);
		free(batcher);
		error_set(err, DEFERRED_ENOMEM, "batcher", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&batcher->lock, NULL);
	pthread_cond_init(&batcher->fast_work, NULL);
	pthread_cond_init(&batcher->slow_work, NULL);
	for (int k = 0; k < BATCHER_KINDS; k++)
		list_init(&batcher->waiting[k]);
	for (int i = 0; i <= threads; i++) {
		struct worker *w = &batcher->workers[i];

		w->batcher = batcher;
		w->slow = i == threads;
		db_connection_init(&w->db, batcher->conninfo, "database");
		errno = pthread_create(&w->thread, NULL, run_worker, w);
		if (errno != 0) {
			error_errno(err, DEFERRED_ESYSTEM, "batcher",
				    "cannot start a thread\nraise the limit of processes (ulimit -u)");
			batcher_stop(batcher);
			return NULL;
		}
		batcher->workers_len++;
	}
	return batcher;
}

void batcher_submit(struct batcher *batcher, struct batcher_job *job)
{
	job->since_ns = clock_ns();
	pthread_mutex_lock(&batcher->lock);
	push_job(&batcher->waiting[job->kind], job);
	pthread_cond_signal(job->kind == BATCHER_SLOW ? &batcher->slow_work : &batcher->fast_work);
	pthread_mutex_unlock(&batcher->lock);
}

void batcher_expire(struct batcher *batcher)
{
	uint64_t now = clock_ns();
	struct batcher_job *late = NULL, *next;

	pthread_mutex_lock(&batcher->lock);
	for (int k = 0; k < BATCHER_KINDS; k++) {
		/* The oldest are first. Only slow ones may have been put back. */
		for (struct batcher_job **at = &batcher->waiting[k].first; *at;) {
			struct batcher_job *job = *at;

			/* It may be younger than `now`. */
			if (job->since_ns + BATCHER_WAIT_MS * NS_PER_MS > now) {
				at = &job->next;
				continue;
			}
			*at = job->next;
			if (batcher->waiting[k].end == &job->next)
				batcher->waiting[k].end = at;
			job->next = late;
			late = job;
		}
	}
	pthread_mutex_unlock(&batcher->lock);
	for (; late; late = next) {
		next = late->next;
		late->outcome = BATCHER_BUSY;
		late->wake(late->wake_data);
	}
}

bool batcher_ready(struct batcher *batcher)
{
	for (int i = 0; i < batcher->workers_len; i++)
		if (!batcher->workers[i].slow && db_connection_ready(&batcher->workers[i].db))
			return true;
	return false;
}

void batcher_stop(struct batcher *batcher)
{
	pthread_mutex_lock(&batcher->lock);
	batcher->stopping = true;
	pthread_cond_broadcast(&batcher->fast_work);
	pthread_cond_broadcast(&batcher->slow_work);
	pthread_mutex_unlock(&batcher->lock);
	for (int i = 0; i < batcher->workers_len; i++)
		pthread_join(batcher->workers[i].thread, NULL);
	batcher_free(batcher);
}
