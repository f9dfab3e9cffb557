/* SPDX-License-Identifier: MIT */
/*
 * store_admin - the statements of the command `deferred`: look at jobs, retry and purge them.
 *
 * One function a file of sql/queries; a function that hands out a result hands out the rows that file
 * describes, given, to be freed with pg_result_free(). Nothing here counts over the history: what is
 * looked at is bounded, and store_admin_look() bounds the time.
 */
#ifndef STORE_ADMIN_H
#define STORE_ADMIN_H

#include "port/pg.h"
#include "rows/admin.h"
#include "rows/history.h"
#include "rows/job.h"
#include "rows/queue.h"
#include "rows/why.h"
#include "rows/worker.h"

#include <signal.h>

/* Begin a read-only transaction in which no statement takes longer than `timeout_ms`. It ends with the connection. */
int store_admin_look(struct pg *pg, int timeout_ms, struct deferred_error *err);

/* Which jobs. Members NULL: any. */
struct store_admin_filter {
	const char *queue, *fn;
	const char *state; /* one of JOB_STATES; NULL: those the command is for */
	const char *label, *key, *rule, *by;
	bool label_index;          /* there is one of labels: index_usable.sql */
	const char *const *tags;   /* all of which it has */
	size_t tags_len;           /* 0: any */
	const char *error;         /* first line of what the last attempt said, numbers as #; for a retry only */
	const char *since, *until; /* timestamps of the database, of when they were deferred */
	bool running;              /* those that workers hold; of the others queue and fn count then */
	int limit;
	int64_t after; /* go on after this one; 0: from the beginning */
};

/* Timestamps as the database writes them: each of text, or where that is NULL of ms before now; both NULL or negative:
 * NULL.
 * Source: admin_times.sql. */
int store_admin_times(struct pg *pg, const char *const text[2], const int64_t ms[2], struct pg_result **res,
		      struct deferred_error *err);

/* The columns of those running are others. Source: admin_ls_hot.sql, admin_ls_ended.sql, admin_ls_done.sql,
 * admin_ls_running.sql. */
int store_admin_ls(struct pg *pg, const struct store_admin_filter *filter, struct pg_result **res,
		   struct deferred_error *err);

/* The user of this machine, as what commands do is written down by. Valid until the next call; for a program with one
 * thread. */
const char *store_admin_user(void);

/* Returns DEFERRED_ENOTFOUND where there is no such job, or it has ended. Source: admin_cancel.sql. */
int store_admin_cancel(struct pg *pg, int64_t id, struct deferred_error *err);

/* Returns DEFERRED_ENOTFOUND where there is no such job. Source: admin_retry.sql. */
int store_admin_retry(struct pg *pg, int64_t id, struct deferred_error *err);

/*
 * Cancel or retry the jobs that fit, 1,000 in a transaction, until *stop or all is done or, where limit_ms is not 0, so
 * long has passed. dry: count them, up to STORE_ADMIN_COUNT_MAX. What is in *bulk counts also where it fails. Source:
 * admin_cancel_some.sql, admin_retry_some.sql.
 */
enum store_admin_verb { STORE_ADMIN_CANCEL, STORE_ADMIN_RETRY };
struct store_admin_bulk {
	int64_t done, refused;
	char why[512]; /* the first was refused */
	bool more;     /* there may be more of them */
};
int store_admin_some(struct pg *pg, enum store_admin_verb verb, const struct store_admin_filter *filter, bool dry,
		     int limit_ms, const volatile sig_atomic_t *stop, struct store_admin_bulk *bulk,
		     struct deferred_error *err);

/* Defer the jobs of a JSON array. Source: admin_add_lines.sql. */
int store_admin_add_lines(struct pg *pg, const char *json, size_t len, struct pg_result **res,
			  struct deferred_error *err);

/* Counting stops at this many jobs of a queue. */
#define STORE_ADMIN_COUNT_MAX 100000
#define STORE_ADMIN_ENDS 10000 /* without success, among which dead jobs are looked for */

/* What a commit survives. Source: admin_durability.sql. */

/* Functions of jobs that no worker has, looked for among so many jobs from either end. Source:
 * admin_functions_unknown.sql. */
#define STORE_ADMIN_UNKNOWN_JOBS 10000

/*
 * Change n settings, named as the columns and in their units; a value NULL goes back to the default. metadata: JSON,
 * NULL: not given. create: add the queue if it is not there; else DEFERRED_EDB with sqlstate 42704.
 * Source: admin_queue_set.sql, admin_function_set.sql.
 */
int store_admin_queue_set(struct pg *pg, const char *queue, const char *const *names, const char *const *values,
			  size_t n, const char *metadata, bool create, struct deferred_error *err);
int store_admin_function_set(struct pg *pg, const char *fn, const char *const *names, const char *const *values,
			     size_t n, struct deferred_error *err);

/* End the pause that the breaker made of a function. *paused: there was one. Source: function_resume.sql. */
int store_admin_function_resume(struct pg *pg, const char *fn, bool *paused, struct deferred_error *err);

/* *unoffered: workers are known, and none of them has this function. Source: function_unoffered.sql. */
int store_admin_function_unoffered(struct pg *pg, const char *fn, bool *unoffered, struct deferred_error *err);

/* After limits changed, mark the jobs they are about: many short transactions. Source: admin_queue_mark.sql. */
int store_admin_mark(struct pg *pg, int64_t *marked, struct deferred_error *err);

/* Hot jobs of a queue, counted as far as STORE_ADMIN_COUNT_MAX, and the largest id of any queue. DEFERRED_ENOTFOUND
 * where there is no such queue. Source: admin_queue_hot.sql. */
int store_admin_queue_hot(struct pg *pg, const char *queue, int64_t *hot, int64_t *last_id, struct deferred_error *err);

/* Cancel the jobs of a queue up to an id: many short transactions, *cancelled counts those that were committed.
 * Source: admin_queue_clear.sql. */
int store_admin_queue_clear(struct pg *pg, const char *queue, int64_t last_id, int64_t *cancelled,
			    struct deferred_error *err);

/* Source: admin_queue_rm.sql. */
int store_admin_queue_rm(struct pg *pg, const char *queue, struct deferred_error *err);

/* Add the partitions the next weeks need. Source: maintain_partitions.sql. */
int store_admin_maintain(struct pg *pg, int64_t *added, struct deferred_error *err);

/* Steps of a purge, each a short transaction. Times in milliseconds. dead_ms: of dead jobs; below 0: they stay. */

/*
 * Drop one partition. *res holds its name, NULL when none is left, and false if it is in use. It goes as a whole the
 * next time, so it is to be among those of `but` from then on: "{name,name}". Source: admin_purge_partition.sql.
 */
int store_admin_purge_partition(struct pg *pg, int64_t older_ms, int64_t dead_ms, const char *but,
				struct pg_result **res, struct deferred_error *err);

int store_admin_purge_hold(struct pg *pg, const char *aside, bool *mine, struct deferred_error *err);
int store_admin_copy_out(struct pg *pg, const char *aside,
			 int (*row)(void *data, const char *row, size_t len, struct deferred_error *err), void *data,
			 int64_t *rows, struct deferred_error *err);

/* Delete attempts from pages [page, page + pages) of a partition. Source: admin_purge_log.sql. */
int store_admin_purge_log(struct pg *pg, const char *part, int64_t older_ms, int64_t dead_ms, int64_t page,
			  int32_t pages, int64_t *deleted, struct deferred_error *err);

/* Delete some of the next `batch` jobs from *id on, and move *id on; 0 when all are done. Source: admin_purge_jobs.sql.
 * */
int store_admin_purge_jobs(struct pg *pg, int64_t older_ms, int64_t *id, int32_t batch, const char *but,
			   int64_t *deleted, struct deferred_error *err);

/* The same of what stands beside jobs that are gone, and of flows from *id on. Source: admin_purge_orphans.sql. */
int store_admin_purge_orphans(struct pg *pg, int64_t older_ms, int64_t *id, int32_t batch, int64_t *deleted,
			      struct deferred_error *err);

/* Source: admin_purge_workers.sql. */
int store_admin_purge_workers(struct pg *pg, int64_t older_ms, int64_t *deleted, struct deferred_error *err);

#endif
