/* SPDX-License-Identifier: MIT */
/*
 * store_web - statements of deferred_web that need more than a call of NAME_exec().
 *
 * A page is one transaction: store_web_begin(), its statements, store_web_end(). No statement takes longer than
 * STORE_WEB_MS, or waits for a lock for more than 100 ms. No statement counts rows of the history. The caller frees
 * results with pg_result_free().
 */
#ifndef STORE_WEB_H
#define STORE_WEB_H

#include "port/pg.h"
#include "rows/web.h"
#include "store/admin.h"

#define STORE_WEB_MS 2000
#define STORE_WEB_COUNT 1000     /* jobs of a queue that are counted */
#define STORE_WEB_LOOK 10000     /* jobs that one step of a search looks at */
#define STORE_WEB_LOOK_SAID 2000 /* the same where errors are read, from each partition of the log */
#define STORE_WEB_ROWS 50        /* jobs on a page */
#define STORE_WEB_PARAMS 65536   /* characters of params that are shown */

/* role: to act as; NULL: the one that logged in. Source: web_session.sql. */
int store_web_begin(struct pg *pg, const char *role, bool read_only, struct deferred_error *err);
int store_web_end(struct pg *pg, bool commit, struct deferred_error *err);

struct store_web_me {
	char role[64];
	bool viewer, reader, operator;
};
/* Source: web_me.sql. */
int store_web_me(struct pg *pg, struct store_web_me *me, struct deferred_error *err);

/* A search, besides the filter, whose state is NULL. */
struct store_web_search {
	bool part;           /* the label is a part of one */
	const char *outcome; /* of the last attempt; NULL: any */
	/* the first line of an error, with numbers as #; NULL: any. Needs deferred_reader, and a path_len of 0 */
	const char *error;
	bool error_part; /* it is a part of the line */
	/* A value in the params, by keys from the outermost on. Needs deferred_reader. path_len 0: any params. */
	const char *const *path, *value;
	size_t path_len;
	bool value_index;          /* there is an index of that path: index_usable.sql */
	const char *const *hidden; /* functions whose params and errors are not looked at */
	size_t hidden_len;
};
/* Source: web_jobs.sql, web_jobs_params.sql, web_jobs_error.sql. */
int store_web_jobs(struct pg *pg, const struct store_admin_filter *filter, const struct store_web_search *search,
		   struct pg_result **res, struct deferred_error *err);

/* Plan the statements of this transaction for their parameters. With tags, the index of tags is read as a bitmap;
 * without, an index of values is used. No partition is read as a whole then. */
int store_web_indexed(struct pg *pg, bool tags, struct deferred_error *err);

/* Mark the jobs of changed limits, outside of a transaction, for about that long. Claims mark the other jobs when they
 * meet them. Needs deferred_operator. Source: admin_queue_mark.sql. */
int store_web_mark(struct pg *pg, int limit_ms, struct deferred_error *err);

#endif
