/* SPDX-License-Identifier: MIT */
/*
 * store_web - the statements of deferred_web: what a page shows, and the one by which an operator acts.
 *
 * A page is one transaction: store_web_begin(), then what it reads, then store_web_end(). In it no statement takes
 * longer than
 * STORE_WEB_MS, or waits for a lock for more than 100 ms. Nothing counts over the history. What hands out a result
 * hands out the rows that its file of sql/queries describes, given, to be freed with pg_result_free().
 */
#ifndef STORE_WEB_H
#define STORE_WEB_H

#include "port/pg.h"
#include "rows/web.h"
#include "store/admin.h"

#define STORE_WEB_MS 2000
#define STORE_WEB_COUNT 1000     /* jobs of a queue are counted so far */
#define STORE_WEB_LOOK 10000     /* jobs that one step of a search looks at */
#define STORE_WEB_LOOK_SAID 2000 /* the same where what they said is read, from each partition of the log */
#define STORE_WEB_ROWS 50        /* jobs on a page */
#define STORE_WEB_ENDS 2000      /* ends without success whose errors are put in groups */
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

/* Rows for which no more than a number is to be said. */
enum store_web_rows {
	WEB_QUEUES,       /* number: where counting stops. Source: admin_status_queues.sql */
	WEB_DEAD,         /* number: ends to look at. Source: web_dead.sql */
	WEB_DEAD_COUNT,   /* number: ends to look at. Source: web_dead_hour.sql */
	WEB_WORKERS,      /* Source: web_workers.sql */
	WEB_ACCOUNTS,     /* Source: web_accounts.sql */
	WEB_RULES,        /* Source: rule_ls.sql */
	WEB_JOB_ATTEMPTS, /* number: job. Source: web_job_attempts.sql */
	WEB_JOB_SAID      /* number: job. Needs deferred_reader. Source: web_job_said.sql */
};
int store_web_rows(struct pg *pg, enum store_web_rows what, int64_t number, struct pg_result **res,
		   struct deferred_error *err);

/* What is searched for beside filter, whose state is NULL. */
struct store_web_search {
	bool part;           /* the label is a part of one */
	const char *outcome; /* of the last attempt; NULL: any */
	/* what an attempt said: the first line of it, numbers as #; NULL: anything. Needs deferred_reader, and a
	 * path_len of 0 */
	const char *error;
	bool error_part; /* it is a part of that */
	/* In the params, by keys from the outermost on; needs deferred_reader. path_len 0: anything. */
	const char *const *path, *value;
	size_t path_len;
	bool value_index;          /* there is one of what the path leads to: store_index_usable() */
	const char *const *hidden; /* functions whose params and errors are not looked at */
	size_t hidden_len;
};
/* Source: web_jobs.sql, web_jobs_params.sql, web_jobs_error.sql. */
int store_web_jobs(struct pg *pg, const struct store_admin_filter *filter, const struct store_web_search *search,
		   struct pg_result **res, struct deferred_error *err);

/* What follows in the transaction is planned for what it is given: for tags, whose index can be read as a bitmap only,
 * and for values that have an index. No partition, nor the net, is read as a whole then. */
int store_web_indexed(struct pg *pg, bool tags, struct deferred_error *err);

/* What an action is done to: one of these; all of them 0 and NULL: anything. */
struct store_web_target {
	int64_t job, flow;
	const char *queue, *fn, *schedule;
};

/* before 0: from the newest. Source: web_actions.sql. */
int store_web_actions(struct pg *pg, const struct store_web_target *target, int64_t before, bool no_errors,
		      struct pg_result **res, struct deferred_error *err);

/* settings: a JSON object for the verb "set", else NULL. *res: why it was not done. Needs deferred_operator. Source:
 * web_act.sql. */
int store_web_act(struct pg *pg, const char *verb, const struct store_web_target *target, const char *settings,
		  const char *who, const char *address, struct pg_result **res, struct deferred_error *err);

/* To a flow, of which the jobs before that one; 0: all. Needs deferred_operator. Source: web_act_flow.sql. */
int store_web_act_flow(struct pg *pg, const char *verb, int64_t flow, int64_t before, const char *who,
		       const char *address, struct pg_result **res, struct deferred_error *err);

/* Of what the queue holds, from one id to another; 0: from its beginning, to the newest. typed: its name, as somebody
 * typed it. *res: as the statement says. Needs deferred_operator. Source: web_act_clear.sql. */
int store_web_act_clear(struct pg *pg, const char *queue, const char *typed, int64_t from, int64_t to, const char *who,
			const char *address, struct pg_result **res, struct deferred_error *err);

/*
 * A schedule. params are as they were typed, and opts is a JSON object as deferred.schedule() takes it. The form showed
 * this version. NULL: a new schedule.
 */
struct store_web_schedule {
	const char *name, *version, *rule, *fn, *params, *opts;
};
/* *res: why not. Needs deferred_operator. Source: web_act_schedule_set.sql. */
int store_web_act_schedule_set(struct pg *pg, const struct store_web_schedule *schedule, const char *who,
			       const char *address, struct pg_result **res, struct deferred_error *err);

/* The next 1,000 jobs that fit; at: as the last call answered, NULL: from the beginning. verb: retry or cancel. dry:
 * they are counted only. *res: as the statement says. Needs deferred_operator. Source: web_act_some.sql. */
int store_web_act_some(struct pg *pg, const char *verb, const struct store_admin_filter *filter, const char *at,
		       bool dry, const char *who, const char *address, struct pg_result **res,
		       struct deferred_error *err);

/* After limits changed, in no transaction: mark the jobs they are about, for about so long; what is left is marked by
 * claims that meet it. Needs deferred_operator. Source: admin_queue_mark.sql. */
int store_web_mark(struct pg *pg, int limit_ms, struct deferred_error *err);

#endif
