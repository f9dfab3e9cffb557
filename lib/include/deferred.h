/* SPDX-License-Identifier: MIT */
#ifndef DEFERRED_H
#define DEFERRED_H

/*
 * libdeferred - store a function call in PostgreSQL now, have it run later by check_deferred.
 *
 * Shape. A job is a function name, params (the text of one JSON value) and options. It is stored by
 * the caller's own transaction where there is one, and is run at least once if and only if that
 * transaction commits.
 *
 * Order of calls. Simplest:
 *
 *     if (defer("send_mail", "{\"to\": \"a@example.org\"}", NULL) < 0)
 *         fprintf(stderr, "%s\n", deferred_last_error()->message);
 *
 * With a context of one's own: deferred_open(), then any of deferred_defer(), deferred_defer_many(),
 * deferred_cancel(), deferred_update(), deferred_wait(), deferred_result(), then deferred_close(). On a connection and
 * in a transaction of one's own: the functions named ..._conn(), which need no context. A mail: deferred_send_mail(),
 * deferred_send_mail_conn().
 *
 * Threads. A context and a connection are used by one thread at a time. Any thread may call defer(); its calls take
 * turns on one connection.
 *
 * Memory. Arguments are borrowed for the call. A `const char *` that the library returns is valid until the next call
 * on the same object. Other results are freed by the function that their description names.
 *
 * Errors. Functions return 0 or a positive id on success, and a negative DEFERRED_E... code on failure. On failure they
 * fill in `err`, unless it is NULL. The library never prints, exits or aborts.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DEFERRED_VERSION "0.2.0"

#if defined(__GNUC__)
#define DEFERRED_API __attribute__((visibility("default")))
#else
#define DEFERRED_API
#endif

/* A libpq connection: `PGconn` is `struct pg_conn`, and <libpq-fe.h> need not be included. */
struct pg_conn;

/* Codes are never reused. DEFERRED_ERRORS(X) is X(name, value, text) for each. */
#define DEFERRED_ERRORS(X) \
	X(EINVAL, -1, "invalid argument") \
	X(ENOMEM, -2, "out of memory") \
	X(EDB, -3, "refused by the database") \
	X(ECONNECT, -4, "server unreachable") \
	X(ELOST, -5, "connection lost, outcome unknown") \
	X(ECONFIG, -6, "configuration wrong") \
	X(ESCHEMA, -7, "schema missing, older or newer than this program") \
	X(EPLUGIN, -8, "plugin refused") \
	X(ETIMEOUT, -9, "time is up") \
	X(ENOTFOUND, -10, "no such job or track") \
	X(EFAILED, -11, "the function failed") \
	X(ESYSTEM, -12, "system call failed") \
	X(ESTALE, -13, "the claim is not valid any more")

enum deferred_code {
	DEFERRED_SUCCESS = 0,
	DEFERRED_SPOOLED = 1, /* not stored yet, but kept in the spool: only with deferred_open_opts.spool */
#define DEFERRED_ERROR_CODE(name, value, text) DEFERRED_##name = value,
	DEFERRED_ERRORS(DEFERRED_ERROR_CODE)
#undef DEFERRED_ERROR_CODE
};

struct deferred_error {
	int code;          /* enum deferred_code */
	char sqlstate[6];  /* from the server, else "" */
	char where[64];    /* function or query that failed, else "" */
	char message[512]; /* lower-case, quotes the object, ends with the cause */
	char hint[256];    /* what to do about it, else "" */
};

/* How to treat a key that an unfinished job of the same queue and role has already. */
enum deferred_on_duplicate {
	DEFERRED_DUPLICATE_SKIP = 0, /* store nothing, return the id of that job */
	DEFERRED_DUPLICATE_ERROR,    /* DEFERRED_EDB, sqlstate 23505 */
	DEFERRED_DUPLICATE_REPLACE,  /* cancel that job unless it is being run (55006), store this one */
	/* give that job the params, times, priority and label of this call, unless it is being run (55006) */
	DEFERRED_DUPLICATE_UPDATE
};

/* Options that are rarely needed. All zero means all defaults. */
struct deferred_more_opts {
	/* how long after its end the job keeps its key; 0: until the end; or DEFERRED_KEY_UNTIL_START */
	int64_t key_until_ms;
	uint64_t reserved[7]; /* zero; room for options to come */
};

#define DEFERRED_KEY_UNTIL_START (-1) /* the key is free again when the first attempt starts */

/* As what a job that is waited for has to end, so that the one that waits is run. */
enum deferred_after_on {
	DEFERRED_AFTER_OK = 0, /* well */
	DEFERRED_AFTER_FAILED, /* dead, expired or cancelled */
	DEFERRED_AFTER_ENDED   /* in whatever way */
};

/* An event is waited for, not a job. */
#define DEFERRED_AFTER_EVENT (-1)

/* A job or an event that a job waits for. */
struct deferred_after {
	int64_t job; /* its id: of a call that was deferred before; or DEFERRED_AFTER_EVENT */
	enum deferred_after_on on;
	/* what the job that waits calls it, 1 to 100 characters; NULL: by its id. Of an event, as option wait_for of
	 * deferred.defer(): its name, or a JSON object that begins with "{": {"event": "paid:4711", "within": "1h"} */
	const char *as;
};

/* Options of a job. All zero means all defaults: `struct deferred_opts o = {0};`. */
struct deferred_opts {
	const char *queue;      /* 1 to 88 of [A-Za-z0-9_.-]; NULL: "default" */
	const char *label;      /* text for people; NULL: none */
	int priority;           /* -32768 to 32767, larger is taken earlier */
	int64_t delay_ms;       /* not before that long after now (database clock) */
	const char *run_at;     /* or not before this time, as PostgreSQL reads a timestamptz */
	int64_t expires_ms;     /* not started later than that long after now; 0: never expires */
	const char *expires_at; /* or not later than this time */
	const char *key;        /* at most one hot job of the queue that the same role deferred has it; NULL: none */
	enum deferred_on_duplicate on_duplicate;
	int max_attempts;           /* attempts before the job is dead; 0: default of the function */
	int64_t timeout_ms;         /* limit of one attempt; 0: default of the function */
	int64_t backoff_floor_ms;   /* delay after the first failed attempt; 0: default */
	int64_t backoff_ceiling_ms; /* longest delay; 0: default */
	double backoff_exponent;    /* factor from one delay to the next, 1 to 100; 0: default */
	/* at most `concurrency` jobs of the role and queue that have this key run at once; NULL: none */
	const char *concurrency_key;
	int concurrency;         /* 1 to 10000; 0: 1. With 1 they run one after the other in the order of their ids */
	const char *const *tags; /* words to find it by: at most 32 of 1 to 100 characters, ended by NULL; NULL: none */
	const struct deferred_after *after; /* jobs and events it waits for, each named once; NULL: none */
	size_t after_len;                   /* 1 to 1000; 0: none */
	/* W3C trace context of the caller, 55 characters, for logs and the function; NULL: none */
	const char *traceparent;
	int64_t flow; /* flow it is added to, of deferred_flow_open(), or a job of it; 0: none */
	const struct deferred_more_opts *more; /* NULL: none of them */
};

/* One of many jobs. */
struct deferred_call_spec {
	const char *fn;
	const char *params;               /* NULL means {} */
	const struct deferred_opts *opts; /* NULL for defaults */
};

struct deferred;

/*
 * deferred_open - make a context with a connection of its own. It waits no longer than deferred_open_with() says.
 *
 * d         receives the context; closed with deferred_close().
 * conninfo  libpq connection string; NULL: DEFERRED_DB, else `database { conninfo }` of the config
 *           file (DEFERRED_CONFIG, else /etc/deferred/deferred.conf where it exists), else libpq's PG*. The client
 *           encoding is UTF-8, whatever it says.
 *
 * Returns 0, or DEFERRED_ECONNECT, DEFERRED_ESCHEMA, DEFERRED_EDB (sqlstate 42501: the role lacks the rights of
 * deferred_producer), DEFERRED_ECONFIG, DEFERRED_ENOMEM.
 */
DEFERRED_API int deferred_open(struct deferred **d, const char *conninfo, struct deferred_error *err);

/* How long a context waits. All zero means all defaults. */
struct deferred_open_opts {
	/* limit for an answer of the server; 0: `database { answer_timeout }` of the config file; negative: none */
	int64_t answer_ms;
	/* limit for a lock; 0: `database { lock_timeout }` of the config file; negative: none */
	int64_t lock_ms;
	/* name of a database of the config file, with conninfo NULL; NULL: as conninfo and settings say */
	const char *shard;
	/* absolute path of a spool, a folder for calls of deferred_defer() while the server cannot be reached; "": the
	 * setting spool; NULL: none */
	const char *spool;
	uint64_t reserved[4]; /* zero; room for options to come */
};

/*
 * deferred_open_with - the same, and say how long to wait. opts: NULL for defaults.
 *
 * The limit for connecting is connect_timeout of conninfo, 10 s for each address by default. A dead connection is
 * noticed by tcp_user_timeout after 30 s, and by keepalives after 60 s. A statement that lasts longer than answer_ms is
 * cancelled, within another second. The function that waited returns
 *
 *     0                  it was done just then;
 *     DEFERRED_ETIMEOUT  it is known not to have been stored;
 *     DEFERRED_ELOST     nobody knows: no answer came even then, or it is stored here, and waits for a synchronous
 *     standby. err->message tells which.
 *
 * With a spool, a server that cannot be reached is not an error here. deferred_defer() connects again, at most once a
 * second. If that fails, the call goes into the spool.
 *
 * A limit of locks costs two more round trips a call, for it is set in a transaction, where a pooler may be in between.
 * Nothing is asked of the server at the start of a session.
 * Returns as deferred_open(), and DEFERRED_EINVAL.
 */
DEFERRED_API int deferred_open_with(struct deferred **d, const char *conninfo, const struct deferred_open_opts *opts,
				    struct deferred_error *err);

/*
 * deferred_shard_for - of several databases in the config file (sections shard), the one that has a route.
 *
 * route  any text: what is deferred with it stays together. NULL: any of those that accept jobs, by chance
 * name   receives the name of the shard, for deferred_open_opts; size bytes, 33 are enough
 *
 * A route keeps its shard while the same shards accept jobs. Adding or removing a shard moves only its share of the
 * routes. deferred(3) describes the computation for programs in other languages. Returns 0, DEFERRED_ENOTFOUND (no
 * shard accepts jobs), DEFERRED_EINVAL, DEFERRED_ECONFIG, DEFERRED_ENOMEM.
 */
DEFERRED_API int deferred_shard_for(const char *route, char *name, size_t size, struct deferred_error *err);

/* deferred_close - close the connection and free the context. NULL is accepted. */
DEFERRED_API void deferred_close(struct deferred *d);

/*
 * deferred_defer - have `fn` run later by some worker.
 *
 * d       open context.
 * fn      name of the function, 1 to 127 bytes; need not be loadable here. NULL, allowed where opts names a
 *         queue: a message, which becomes a call where that queue is bound to a function.
 * params  UTF-8 text of one JSON value, NUL-terminated; NULL means {}. It reaches the function
 *         byte for byte.
 * opts    NULL for defaults.
 * id      receives the job id (> 0) on success, else left alone; may be NULL. 0: the queue is full and has
 *         been told to drop what comes then.
 *
 * Returns 0. DEFERRED_SPOOLED: the server cannot be reached, and the call is on disk in the spool. Then id is left
 * alone, and deferred_spooled_id() has the UUID. `deferred spool drain` stores the job later. A negative code means
 * that no job was stored. These are DEFERRED_EINVAL (shape of an argument), DEFERRED_EDB (see err->sqlstate),
 * DEFERRED_ECONNECT (nothing was sent) and DEFERRED_ENOMEM. DEFERRED_ETIMEOUT: the
 * server took too long and stored nothing; see deferred_open_with(). After DEFERRED_ELOST the job may have been stored:
 * the connection broke, or no answer came in time. It is also the code if the wait for a synchronous standby was
 * cancelled; one server has the job then. A call with a key can be repeated safely. Source:
 * sql/queries/job/job_enqueue.sql.
 */
DEFERRED_API int deferred_defer(struct deferred *d, const char *fn, const char *params,
				const struct deferred_opts *opts, int64_t *id, struct deferred_error *err);

/* deferred_spooled_id - the UUID of the call that the last deferred_defer() of the context kept in the spool; "": it
 * kept none. In SQL, deferred.spooled(UUID) returns the id of the job once it is stored. */
DEFERRED_API const char *deferred_spooled_id(const struct deferred *d);

/*
 * deferred_defer_conn - the same on the caller's connection: in a transaction the caller opened the job exists exactly
 * if that transaction commits. The connection must be idle (no result pending, not in pipeline mode); nothing of its
 * session is changed. The caller's own notice receiver gets the server's messages about the commit, such as a cancelled
 * wait for a standby.
 */
DEFERRED_API int deferred_defer_conn(struct pg_conn *conn, const char *fn, const char *params,
				     const struct deferred_opts *opts, int64_t *id, struct deferred_error *err);

/*
 * deferred_defer_many - defer `n` calls, all or none of them.
 *
 * calls  array of n specs.
 * ids    receives n ids in the order of calls; may be NULL.
 *
 * Up to some thousands are sent in one statement. More are sent by COPY if the role may write the tables itself
 * (deferred_owner or a member). Other roles send several statements in one transaction. Returns as deferred_defer(). If
 * a call is refused before anything is sent, err->message names its number, counted from 0. Source:
 * sql/queries/job/job_enqueue_many.sql.
 */
DEFERRED_API int deferred_defer_many(struct deferred *d, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
				     struct deferred_error *err);

/* deferred_defer_many_conn - the same on the caller's connection; in a failed call inside an open
 * transaction that transaction is aborted, as after any failed statement. */
DEFERRED_API int deferred_defer_many_conn(struct pg_conn *conn, const struct deferred_call_spec *calls, size_t n,
					  int64_t *ids, struct deferred_error *err);

/*
 * deferred_defer_flow - defer jobs that wait for each other, all or none of them.
 *
 * flow  UTF-8 text of one JSON object, as for deferred.defer_flow() in SQL. Borrowed.
 *       {"jobs": [{"name", "fn", "params", "after": [names], ...}], "then": [...], "on_failure", "label"}
 * id    receives the id of the flow (> 0) on success; may be NULL. SQL lists the ids of its jobs: deferred.flow_jobs().
 *
 * Returns as deferred_defer(). Source: sql/queries/flow/flow_add.sql.
 */
DEFERRED_API int deferred_defer_flow(struct deferred *d, const char *flow, int64_t *id, struct deferred_error *err);

/* deferred_defer_flow_conn - the same on the caller's connection, and in its transaction. */
DEFERRED_API int deferred_defer_flow_conn(struct pg_conn *conn, const char *flow, int64_t *id,
					  struct deferred_error *err);

/*
 * deferred_flow_open - begin a flow to which jobs are added one by one (opts.flow). Its own jobs and other transactions
 * may add jobs too. The flow ends once it is closed and all its jobs have ended.
 *
 * flow  as of deferred_defer_flow(), but that "jobs" may be left out: "{}" at least. Borrowed.
 * id    receives the id of the flow (> 0) on success; may be NULL.
 *
 * Returns as deferred_defer(). Source: sql/queries/flow/admin_flow_open.sql.
 */
DEFERRED_API int deferred_flow_open(struct deferred *d, const char *flow, int64_t *id, struct deferred_error *err);

/* deferred_flow_open_conn - the same on the caller's connection, and in its transaction. */
DEFERRED_API int deferred_flow_open_conn(struct pg_conn *conn, const char *flow, int64_t *id,
					 struct deferred_error *err);

/*
 * deferred_flow_close - have such a flow end as soon as all its jobs have; its callbacks wait for that. One that is
 * closed already stays so.
 *
 * Returns 0, or as deferred_defer(); DEFERRED_EDB with sqlstate 22023 where there is no such flow. Source:
 * sql/queries/flow/admin_flow_close.sql.
 */
DEFERRED_API int deferred_flow_close(struct deferred *d, int64_t id, struct deferred_error *err);

/* deferred_flow_close_conn - the same on the caller's connection, and in its transaction. */
DEFERRED_API int deferred_flow_close_conn(struct pg_conn *conn, int64_t id, struct deferred_error *err);

/* An event for jobs that wait. All zero but the name means all defaults. */
struct deferred_event {
	const char *name;     /* 1 to 200 characters */
	const char *payload;  /* UTF-8 text of one JSON value, at most 65536 bytes; NULL: none */
	int64_t keep_ms;      /* how long it counts for jobs deferred later; 0: a day; negative: not at all */
	const char *role;     /* the role whose jobs wait for it; NULL: the role that acts */
	uint64_t reserved[4]; /* zero; room for options to come */
};

/*
 * deferred_send_event - have the jobs run that wait for an event, as deferred.send_event() in SQL.
 *
 * event  Borrowed.
 *
 * Returns as deferred_defer(); DEFERRED_EDB with sqlstate 42501 if the role may not send events to jobs of event->role.
 * Source: sql/queries/flow/event_send.sql.
 */
DEFERRED_API int deferred_send_event(struct deferred *d, const struct deferred_event *event,
				     struct deferred_error *err);

/* deferred_send_event_conn - the same on the caller's connection, and in its transaction. */
DEFERRED_API int deferred_send_event_conn(struct pg_conn *conn, const struct deferred_event *event,
					  struct deferred_error *err);

/*
 * deferred_cancel - take a job out of the queue. Its final outcome is `cancelled`. Of a cancel and a success, the one
 * that commits first counts. The worker asks an attempt in progress to stop, and kills it after the setting
 * `kill_after`. A worker that listens learns of the cancel at once, others within 5 s, when they renew their leases.
 * Returns 0, or DEFERRED_ENOTFOUND where the job is unknown, belongs to somebody else or has finished. Source:
 * sql/queries/job/job_cancel.sql.
 */
DEFERRED_API int deferred_cancel(struct deferred *d, int64_t id, struct deferred_error *err);

/*
 * deferred_update - change a job that has not been claimed, as deferred.update() in SQL.
 *
 * changes  UTF-8 text of a JSON object, such as {"priority": 5, "delay": "1h"}. Its members are queue, label, priority,
 *          delay or run_at, max_attempts, timeout and params. Members that are left out keep their values. Borrowed.
 *
 * Returns 0, DEFERRED_EINVAL, or DEFERRED_ENOTFOUND where the job is unknown or belongs to somebody else. DEFERRED_EDB:
 * see sqlstate; 55006 means that the job is claimed or has ended, and 22023 that a change is invalid. Source:
 * sql/queries/job/job_update.sql.
 */
DEFERRED_API int deferred_update(struct deferred *d, int64_t id, const char *changes, struct deferred_error *err);

/* deferred_update_conn - the same on the caller's connection, and in its transaction. */
DEFERRED_API int deferred_update_conn(struct pg_conn *conn, int64_t id, const char *changes,
				      struct deferred_error *err);

/* ---- for functions: on a connection of their own, about the job they are run for ------------------- */

/*
 * deferred_finish_conn - record the attempt as ok in the caller's transaction: its work and the success commit
 * together, or neither does.
 *
 * conn     connection of the caller, idle, with the rights of deferred_producer. In a transaction of the caller the
 *          success holds only if that commits; outside one it holds at once. Best the last statement: the lease cannot
 *          be renewed until the commit, so the commit must come 5 s before the lease ends.
 * id       of the job, as in struct deferred_call.
 * receipt  as there: good for this job alone.
 * result   text for the log, UTF-8, at most 8192 bytes; NULL: none. Copied.
 *
 * Returns 0. After the commit, neither the result nor the death of the function changes the outcome. Before it they do:
 * return DEFERRED_FAILED unless the commit is known to have worked. Calls given to host->defer are lost: defer them on
 * `conn` instead. DEFERRED_ESTALE: the claim is no longer valid, because the job was cancelled or the lease ended. A
 * transaction that the caller opened is then aborted and must be rolled back. Another attempt does the job, unless it
 * was cancelled. DEFERRED_EDB: see sqlstate. 40001 means that the lease was renewed since a repeatable read transaction
 * began: repeat the transaction. DEFERRED_ELOST: the commit may have been stored. DEFERRED_EINVAL. Source:
 * sql/queries/claim/job_finish_self.sql.
 */
DEFERRED_API int deferred_finish_conn(struct pg_conn *conn, int64_t id, int64_t receipt, const char *result,
				      struct deferred_error *err);

/*
 * deferred_extend_conn - extend the lease. The worker renews it while it can reach the server. Call this before work
 * that must survive an absent server or a stopped worker.
 *
 * conn      as above; not inside a long transaction, which would keep the worker from renewing.
 * lease_ms  milliseconds from now on, 1 to 604800000 (7 days). A longer lease is not shortened. If the host dies,
 *           nobody else takes the job before that time.
 *
 * Returns 0, DEFERRED_ESTALE as above, DEFERRED_EINVAL, DEFERRED_EDB, DEFERRED_ELOST. Source:
 * sql/queries/claim/job_extend.sql.
 */
DEFERRED_API int deferred_extend_conn(struct pg_conn *conn, int64_t id, int64_t receipt, int64_t lease_ms,
				      struct deferred_error *err);

/* How a job ended. */
struct deferred_outcome {
	char state[16];   /* done, dead, cancelled or expired */
	char outcome[16]; /* of the last attempt: ok, failed, crashed, timeout, ... */
	int attempt;      /* number of attempts made */
	char error[512];  /* "" if none; cut at 511 bytes */
};

/*
 * deferred_wait - wait until a job has ended for good.
 *
 * timeout_ms  how long to wait; 0 asks once, negative waits for ever.
 * outcome     filled in on success; may be NULL.
 *
 * Returns 0, DEFERRED_ETIMEOUT while the job is hot, DEFERRED_ENOTFOUND. Needs the rights of
 * deferred_worker or deferred_viewer (then `error` is ""). Source: sql/queries/claim/job_outcome.sql.
 */
DEFERRED_API int deferred_wait(struct deferred *d, int64_t id, int64_t timeout_ms, struct deferred_outcome *outcome,
			       struct deferred_error *err);

/*
 * deferred_result - the result of a job that has ended.
 *
 * result  receives the text that its function reported; "" if none. A text that is longer than size - 1 bytes is cut
 *         between two characters. 8193 bytes hold each result.
 *
 * Returns 0, DEFERRED_ETIMEOUT while the job is hot, DEFERRED_ENOTFOUND where the job is unknown or belongs to somebody
 * else, DEFERRED_EINVAL. deferred_wait() says how it ended. Source: sql/queries/job/job_result.sql.
 */
DEFERRED_API int deferred_result(struct deferred *d, int64_t id, char *result, size_t size, struct deferred_error *err);

/*
 * deferred_default_defer - deferred_defer() on a context the library opens at the first call, and
 * opens again when its connection was lost. Returns the job id (> 0), 0 for a job that a full queue
 * dropped, or a negative code;
 * deferred_last_error() then tells more.
 */
DEFERRED_API int64_t deferred_default_defer(const char *fn, const char *params, const struct deferred_opts *opts);

/* deferred_last_error - the last failure of deferred_default_defer() in this thread. */
DEFERRED_API const struct deferred_error *deferred_last_error(void);

/* deferred_strerror - short text of a code; never NULL. */
DEFERRED_API const char *deferred_strerror(int code);

/* deferred_version - DEFERRED_VERSION of the library in use. */
DEFERRED_API const char *deferred_version(void);

/* ---- back-off --------------------------------------------------------------------------------- */

/*
 * How long a polling loop sleeps: arithmetic only, no clock, no random part, no I/O. The interval starts at the floor.
 * Each poll without work makes it longer. A hit takes it back to the floor, or a step down.
 *
 *     struct deferred_backoff b = DEFERRED_BACKOFF_DEFAULTS;
 *
 *     b.interval_ceiling_ms = 10000;
 *     if (deferred_backoff_check(&b, &err) < 0)
 *         ...
 *     for (;;)
 *         if (poll_for_work())
 *             deferred_backoff_hit(&b);
 *         else
 *             sleep_ms(deferred_backoff_empty(&b));
 *
 * The caller's own storage, used by one thread at a time. Settings may be changed between calls: the
 * interval reached so far is kept as far as the new bounds allow.
 */
struct deferred_backoff {
	int64_t interval_floor_ms;   /* shortest interval, >= 1 */
	int64_t interval_ceiling_ms; /* longest, >= the floor */
	double exponent;             /* factor from one interval to the next, >= 1 */
	int gradual_decrease;        /* after a hit: 0: the floor at once; else the interval divided by the exponent */
	double interval_ms;          /* what the next empty poll sleeps; 0 before the first. Not rounded, so that a
	                              * small exponent moves a short interval too. */
};

/* 1 s, doubled up to 60 s, back at once. */
#define DEFERRED_BACKOFF_DEFAULTS \
	{ \
		1000, 60000, 2.0, 0, 0.0 \
	}

/*
 * deferred_backoff_check - are the settings usable? Returns 0, or DEFERRED_EINVAL for a floor below 1 ms, a
 * ceiling below the floor, an exponent that is below 1 or no finite number. Source: lib/base/backoff.c.
 */
DEFERRED_API int deferred_backoff_check(const struct deferred_backoff *b, struct deferred_error *err);

/* deferred_backoff_empty - a poll found nothing. Returns how long to sleep in milliseconds, >= 1, and makes the
 * next interval longer. */
DEFERRED_API int64_t deferred_backoff_empty(struct deferred_backoff *b);

/* deferred_backoff_hit - a poll found something: the next interval is shorter. */
DEFERRED_API void deferred_backoff_hit(struct deferred_backoff *b);

/* ---- mail ------------------------------------------------------------------------------------- */

/* A mailbox: `mail` is the address, `label` the name shown for it (UTF-8, may be NULL). */
struct deferred_mailbox {
	const char *mail;
	const char *label;
};

struct deferred_attachment {
	const char *path;      /* absolute path below [mail] attachment_dir, read when the mail is sent */
	const char *name;      /* name shown; NULL: last part of path */
	const char *type;      /* MIME type; NULL: from the name, else application/octet-stream */
	int delete_after_send; /* remove the file, but only once the mail has gone out */
	/* in place of a path, and then with a name. It becomes part of the params, whose size is limited. Copied */
	const void *content;
	size_t content_len; /* bytes */
	/* the HTML shows it by "cid:" and this: letters, digits, . _ - + @; NULL: it is an ordinary attachment */
	const char *cid;
};

/* A header of the mail's own, such as List-Unsubscribe; deferred_functions(7) lists which may be. */
struct deferred_header {
	const char *name;
	const char *text;
};

/* All text is UTF-8. */
struct deferred_mail {
	struct deferred_mailbox from;     /* mail NULL: [mail] from */
	struct deferred_mailbox reply_to; /* mail NULL: none */
	const struct deferred_mailbox *to, *cc, *bcc;
	size_t to_len, cc_len, bcc_len; /* at least one recipient in all */
	const char *subject;
	const char *text, *html; /* at least one; both: multipart/alternative */
	const struct deferred_attachment *attachments;
	size_t attachments_len;
	const char *label; /* of the job; NULL: the subject */
	const struct deferred_header *headers;
	size_t headers_len;
	const char *calendar; /* an invitation: an iCalendar object with a line METHOD; NULL: none */
};

/*
 * deferred_send_mail - send a mail later or now.
 *
 * d     open context; may be NULL where the mail is sent now, or to use the default context.
 * mail  what to send.
 * opts  options of the job; opts->label, if set, wins over mail->label. NULL for defaults.
 * id    receives the job id, or 0 when the mail was sent at once; may be NULL.
 *
 * With `defer = 1` in section [mail] of the config file the mail becomes a job of function send_mail. Otherwise the
 * plugin send_mail is loaded and sends it now. A mail that breaks a rule of deferred_functions(7) is neither stored nor
 * sent: DEFERRED_EINVAL. The worker checks [mail] attachment_dir and the sender of its config file later. Returns 0,
 * any code of deferred_defer(), DEFERRED_EPLUGIN, or DEFERRED_EFAILED with the server's answer in err->message. Source:
 * lib/api/mail.c.
 */
DEFERRED_API int deferred_send_mail(struct deferred *d, const struct deferred_mail *mail,
				    const struct deferred_opts *opts, int64_t *id, struct deferred_error *err);

/*
 * deferred_send_mail_conn - have a mail sent later, in the caller's transaction.
 *
 * conn  connection of the caller, as for deferred_defer_conn(). The mail goes out only if its open transaction commits.
 * mail, opts, id, err  as for deferred_send_mail().
 *
 * The mail always becomes a job, whatever `defer` in section [mail] says, because a sent mail cannot be rolled back. No
 * config file is read. Returns 0, DEFERRED_EINVAL as deferred_send_mail(), or any code of deferred_defer_conn().
 */
DEFERRED_API int deferred_send_mail_conn(struct pg_conn *conn, const struct deferred_mail *mail,
					 const struct deferred_opts *opts, int64_t *id, struct deferred_error *err);

#ifdef __cplusplus
}
#endif

/*
 * The word users type. Newer C libraries may take the name for themselves: define
 * DEFERRED_NO_SHORT_NAMES and call deferred_default_defer().
 */
#ifndef DEFERRED_NO_SHORT_NAMES
static inline int64_t defer(const char *fn, const char *params, const struct deferred_opts *opts)
{
	return deferred_default_defer(fn, params, opts);
}
#endif

#endif
