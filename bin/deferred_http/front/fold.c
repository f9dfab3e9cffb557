/* SPDX-License-Identifier: MIT */
#include "front/fold.h"

#include "base/clock.h"
#include "front/link.h"
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_LOOK_MS 500 /* how often a thread with nothing to do looks after its connection */
#define TRIES 3          /* of a statement that the server rolled back for no fault of its own */

struct list {
	struct fold_job *first, **end;
};

struct worker {
	struct fold *fold;
	struct link link;
	pthread_t thread;
	bool slow;
};

struct fold {
	char *conninfo;
	pthread_mutex_t lock;
	pthread_cond_t fast_work, slow_work;
	struct list waiting[FOLD_KINDS];
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

static void push(struct list *list, struct fold_job *job)
{
	job->next = NULL;
	*list->end = job;
	list->end = &job->next;
}

static int64_t message_of(const struct fold_job *job)
{
	return job->kind == FOLD_UPDATE ? job->update.id : job->kind == FOLD_DELETE ? job->delete.id : 0;
}

static bool among(struct fold_job *const *jobs, size_t n, int64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (message_of(jobs[i]) == id)
			return true;
	return false;
}

static int messages_of(const struct fold_job *job)
{
	return job->kind == FOLD_GET ? job->get.max : 0;
}

/* Two changes of one message are never in one statement, which could not say which came first: the second stays in the
 * list. */
static size_t take(struct list *list, struct fold_job **jobs, size_t max)
{
	struct fold_job **at = &list->first;
	int messages = 0;
	size_t n = 0;

	while (*at && n < max && messages + messages_of(*at) <= FOLD_MESSAGES_MAX) {
		struct fold_job *job = *at;
		int64_t id = message_of(job);

		messages += messages_of(job);
		if (id != 0 && among(jobs, n, id)) {
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

static size_t take_oldest(struct fold *fold, bool slow, struct fold_job **jobs)
{
	enum fold_kind kind = slow ? FOLD_SLOW : FOLD_PUT;

	if (slow)
		return take(&fold->waiting[FOLD_SLOW], jobs, 1);
	for (enum fold_kind k = FOLD_PUT; k <= FOLD_CALL; k++)
		if (fold->waiting[k].first && (!fold->waiting[kind].first ||
					       fold->waiting[k].first->since_ns < fold->waiting[kind].first->since_ns))
			kind = k;
	return take(&fold->waiting[kind], jobs, kind == FOLD_CALL ? 1 : FOLD_MAX);
}

/* ---- running it ------------------------------------------------------------------------------- */

static int send_items(struct pg *pg, struct fold_job **jobs, size_t n, struct deferred_error *err)
{
	union {
		struct message_put put[FOLD_MAX];
		struct message_get get[FOLD_MAX];
		struct message_update update[FOLD_MAX];
		struct message_delete delete[FOLD_MAX];
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
	case FOLD_PUT:
		RUN(put, store_message_put);
		break;
	case FOLD_GET:
		RUN(get, store_message_get);
		for (size_t i = 0; rc < 0 && i < n; i++)
			message_get_clear(&jobs[i]->get);
		break;
	case FOLD_UPDATE:
		RUN(update, store_message_update);
		break;
	case FOLD_DELETE:
		RUN(delete, store_message_delete);
		break;
	case FOLD_CALL:
	case FOLD_SLOW:
		rc = jobs[0]->call.f(jobs[0]->call.data, pg, err);
		break;
	case FOLD_KINDS:
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

/*
 * Run them as one statement. Returns 0 or FOLD_AGAIN; or an error, after as many tries as make sense: nothing was done
 * then, or the connection is lost and nobody knows.
 */
static int run_together(struct worker *w, struct fold_job **jobs, size_t n, struct deferred_error *err)
{
	for (int try = 0;; try++) {
		struct pg *pg = link_get(&w->link, err);
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
			link_drop(&w->link, err);
			return DEFERRED_ELOST;
		}
		if (class == ERROR_READ_ONLY || class == ERROR_SCHEMA) {
			/* It had no effect: but this server, or this schema, is none to go on with. */
			link_drop(&w->link, err);
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

static enum fold_outcome outcome_of(int rc, const struct fold_job *job, const struct deferred_error *err)
{
	static const char *const names[] = { "put", "get", "update", "delete", "call", "call" };

	switch (rc) {
	case 0:
		return FOLD_DONE;
	case DEFERRED_ECONNECT:
	case DEFERRED_ELOST:
		return FOLD_BUSY; /* the link has told */
	case DEFERRED_ETIMEOUT:
	case DEFERRED_ENOMEM:
		log_line(LOG_L_WARNING, "%s: %s", names[job->kind], err->message);
		return FOLD_BUSY;
	default:
		log_line(LOG_L_ERROR, "%s: %s (%s)", names[job->kind], err->message, err->sqlstate);
		return FOLD_FAILED;
	}
}

static void submit_again(struct fold *fold, struct fold_job *job)
{
	pthread_mutex_lock(&fold->lock);
	push(&fold->waiting[job->kind], job);
	pthread_cond_signal(&fold->slow_work);
	pthread_mutex_unlock(&fold->lock);
}

static void run(struct worker *w, struct fold_job **jobs, size_t n)
{
	struct deferred_error err = { 0 };
	int rc = run_together(w, jobs, n, &err);

	if (rc == FOLD_AGAIN) {
		submit_again(w->fold, jobs[0]);
		return;
	}
	/* One of them may be what the statement cannot take; the others shall not suffer. */
	if (rc < 0 && rc != DEFERRED_ELOST && rc != DEFERRED_ECONNECT && n > 1) {
		for (size_t i = 0; i < n; i++)
			run(w, &jobs[i], 1);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		jobs[i]->outcome = outcome_of(rc, jobs[i], &err);
		jobs[i]->wake(jobs[i]->wake_data);
	}
}

/* Those that may run are moved to the front; returns how many they are. The others are answered. */
static size_t sort_out(struct fold_job **jobs, size_t n)
{
	size_t may = 0;

	for (size_t i = 0; i < n; i++) {
		if (!jobs[i]->may_run || jobs[i]->may_run(jobs[i]->wake_data)) {
			jobs[may++] = jobs[i];
		} else {
			jobs[i]->outcome = FOLD_BUSY;
			jobs[i]->wake(jobs[i]->wake_data);
		}
	}
	return may;
}

static void wait_for_work(struct worker *w)
{
	pthread_cond_t *work = w->slow ? &w->fold->slow_work : &w->fold->fast_work;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += IDLE_LOOK_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	if (pthread_cond_timedwait(work, &w->fold->lock, &until) != ETIMEDOUT)
		return;
	pthread_mutex_unlock(&w->fold->lock);
	link_idle(&w->link);
	pthread_mutex_lock(&w->fold->lock);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct fold_job *jobs[FOLD_MAX];

	link_idle(&w->link);
	pthread_mutex_lock(&w->fold->lock);
	for (;;) {
		size_t n = take_oldest(w->fold, w->slow, jobs);

		if (n > 0) {
			pthread_mutex_unlock(&w->fold->lock);
			n = sort_out(jobs, n);
			if (n > 0)
				run(w, jobs, n);
			pthread_mutex_lock(&w->fold->lock);
		} else if (w->fold->stopping) {
			break;
		} else {
			wait_for_work(w);
		}
	}
	pthread_mutex_unlock(&w->fold->lock);
	link_close(&w->link);
	return NULL;
}

/* ---- public ----------------------------------------------------------------------------------- */

static void fold_free(struct fold *fold)
{
	pthread_cond_destroy(&fold->fast_work);
	pthread_cond_destroy(&fold->slow_work);
	pthread_mutex_destroy(&fold->lock);
	free(fold->workers);
	free(fold->conninfo);
	free(fold);
}

struct fold *fold_start(const char *conninfo, int threads, struct deferred_error *err)
{
	struct fold *fold = calloc(1, sizeof(*fold));
	pthread_condattr_t attr;

	if (!fold || !(fold->workers = calloc((size_t)threads + 1, sizeof(*fold->workers))) ||
	    !(fold->conninfo = strdup(conninfo ? conninfo : ""))) {
		if (fold)
			free(fold->workers);
		free(fold);
		error_set(err, DEFERRED_ENOMEM, "fold", "out of memory");
		return NULL;
	}
	pthread_mutex_init(&fold->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fold->fast_work, &attr);
	pthread_cond_init(&fold->slow_work, &attr);
	pthread_condattr_destroy(&attr);
	for (int k = 0; k < FOLD_KINDS; k++)
		list_init(&fold->waiting[k]);
	for (int i = 0; i <= threads; i++) {
		struct worker *w = &fold->workers[i];

		w->fold = fold;
		w->slow = i == threads;
		link_init(&w->link, fold->conninfo, "database");
		errno = pthread_create(&w->thread, NULL, work, w);
		if (errno != 0) {
			error_errno(err, DEFERRED_ESYSTEM, "fold", "cannot start a thread");
			fold_stop(fold);
			return NULL;
		}
		fold->workers_len++;
	}
	return fold;
}

void fold_submit(struct fold *fold, struct fold_job *job)
{
	job->since_ns = clock_ns();
	pthread_mutex_lock(&fold->lock);
	push(&fold->waiting[job->kind], job);
	pthread_cond_signal(job->kind == FOLD_SLOW ? &fold->slow_work : &fold->fast_work);
	pthread_mutex_unlock(&fold->lock);
}

void fold_expire(struct fold *fold)
{
	uint64_t now = clock_ns();
	struct fold_job *late = NULL, *next;

	pthread_mutex_lock(&fold->lock);
	for (int k = 0; k < FOLD_KINDS; k++) {
		/* The oldest stand first, but for the slow ones, which may have been put back. */
		for (struct fold_job **at = &fold->waiting[k].first; *at;) {
			struct fold_job *job = *at;

			/* It may be younger than `now`. */
			if (job->since_ns + FOLD_WAIT_MS * NS_PER_MS > now) {
				at = &job->next;
				continue;
			}
			*at = job->next;
			if (fold->waiting[k].end == &job->next)
				fold->waiting[k].end = at;
			job->next = late;
			late = job;
		}
	}
	pthread_mutex_unlock(&fold->lock);
	for (; late; late = next) {
		next = late->next;
		late->outcome = FOLD_BUSY;
		late->wake(late->wake_data);
	}
}

bool fold_ready(struct fold *fold)
{
	for (int i = 0; i < fold->workers_len; i++)
		if (!fold->workers[i].slow && link_ready(&fold->workers[i].link))
			return true;
	return false;
}

void fold_stop(struct fold *fold)
{
	pthread_mutex_lock(&fold->lock);
	fold->stopping = true;
	pthread_cond_broadcast(&fold->fast_work);
	pthread_cond_broadcast(&fold->slow_work);
	pthread_mutex_unlock(&fold->lock);
	for (int i = 0; i < fold->workers_len; i++)
		pthread_join(fold->workers[i].thread, NULL);
	fold_free(fold);
}
