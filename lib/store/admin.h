/* SPDX-License-Identifier: MIT */
/*
 * store_admin - the statements of the command `deferred`: look at jobs, retry and purge them.
 *
 * There is one function for each file of sql/queries. A result has the rows that the file describes, and is freed with
 * pg_result_free(). Nothing here reads the whole history: each search is bounded, and store_admin_look() bounds the
 * time.
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
	const char *changes;       /* as deferred.update() takes them; for an update only */
	const char *error;         /* first line of what the last attempt said, numbers as #; for a retry only */
	bool from_start;           /* of a retry: steps are deleted */
	const char *since, *until; /* timestamps of the database, of when they were deferred */
	const char *ended_since, *ended_until; /* the same, of when they ended */
	bool running;                          /* those that workers hold; of the others queue and fn count then */
	int limit;
	int64_t after; /* go on after this one; 0: from the beginning */
};

/* Does the filter ask for the time of an end, and for no state in which jobs have ended? store_admin_ls() cannot list
 * such jobs. */
bool store_admin_lacks_end(const struct store_admin_filter *filter);
#define STORE_ADMIN_END_STATES "done, dead, cancelled or expired"

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
int store_admin_retry_from_start(struct pg *pg, int64_t id, struct deferred_error *err); /* its steps are deleted */

/* changes: JSON. Returns DEFERRED_ENOTFOUND where there is no such job. Source: admin_update.sql. */
int store_admin_update(struct pg *pg, int64_t id, const char *changes, struct deferred_error *err);

/*
 * Cancel, retry or update the matching jobs, 1,000 in a transaction, until *stop, the end, or limit_ms if it is not 0.
 * With dry, count them, up to STORE_ADMIN_COUNT_MAX. The result *bulk is valid after a failure too. Source:
 * admin_cancel_some.sql, admin_retry_some.sql, admin_update_some.sql.
 */
enum store_admin_verb { STORE_ADMIN_CANCEL, STORE_ADMIN_RETRY, STORE_ADMIN_UPDATE };
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

/* The durability of a commit. Source: admin_durability.sql. */

/* Functions of jobs that no worker has. The search reads this many jobs from either end. Source:
 * admin_functions_unknown.sql. */
#define STORE_ADMIN_UNKNOWN_JOBS 10000

/* After limits changed, mark the jobs they are about: many short transactions. Source: admin_queue_mark.sql. */
int store_admin_mark(struct pg *pg, int64_t *marked, struct deferred_error *err);

/* Hot jobs of a queue, counted as far as STORE_ADMIN_COUNT_MAX, and the largest id of any queue. DEFERRED_ENOTFOUND
 * where there is no such queue. Source: admin_queue_hot.sql. */
int store_admin_queue_hot(struct pg *pg, const char *queue, int64_t *hot, int64_t *last_id, struct deferred_error *err);

/* Cancel the jobs of a queue up to an id: many short transactions, *cancelled counts those that were committed.
 * Source: admin_queue_clear.sql. */
int store_admin_queue_clear(struct pg *pg, const char *queue, int64_t last_id, int64_t *cancelled,
			    struct deferred_error *err);

/* Write a table that a purge has set aside as CSV. */
int store_admin_copy_out(struct pg *pg, const char *aside,
			 int (*row)(void *data, const char *row, size_t len, struct deferred_error *err), void *data,
			 int64_t *rows, struct deferred_error *err);

#endif
