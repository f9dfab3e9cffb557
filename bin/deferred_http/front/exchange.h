/* SPDX-License-Identifier: MIT */
/*
 * exchange - one request and its answer, from the first byte to the last.
 *
 * exchange_step() does as much as it can without waiting. exchange_wait() starts what it waits for, and calls wake()
 * from another thread. Then exchange_step() is called again. So no thread of the server waits for the database.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "front/account_cache.h"
#include "front/batcher.h"
#include "front/request_metrics.h"
#include "front/waiter.h"
#include "http/access_log.h"
#include "http/budget.h"
#include "http/crypto.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/server.h"
#include "protocol/accounts.h"
#include "protocol/auth.h"
#include "protocol/route.h"

#define MESSAGE_TEXT_MAX 65536
#define FRONT_API_BODY_MAX (4 * 1024 * 1024)

struct exchange;

/* The JSON API: api/api.c. */
struct front_api {
	enum served_step (*begin)(struct exchange *x);
	void (*finish)(struct exchange *x); /* adds what every answer has */
};

/* Shared by all exchanges. */
struct front {
	struct batcher *batcher;
	struct account_cache *account_cache;
	const struct front_api *api;
	struct waiter *waiter;
	struct request_metrics *request_metrics;
	struct access_log *log;    /* NULL: none */
	bool metrics_only;         /* serves metrics, and is not counted in them */
	char keep_alive[32];       /* value of the header */
	_Atomic uint64_t ready_ns; /* when /readyz was last true */
};

struct exchange {
	struct front *front;
	struct arena arena;
	struct request request;
	struct reply reply;
	char id[CRYPTO_GUID_SIZE];
	int64_t began_us;
	uint64_t began_ns;
	const struct operation *op; /* NULL: unknown */
	struct accounts *accounts;
	const struct account *account; /* addressed; NULL: unknown */
	struct auth auth;
	bool refreshed, authorized;
	bool awaits_body; /* set before the first step: the body comes later */
	struct budget_hold hold;
	enum served_step (*next)(struct exchange *x), (*after_refresh)(struct exchange *x);
	enum { WAIT_NOTHING, WAIT_DATABASE, WAIT_ACCOUNTS, WAIT_JOB } waits_for; /* after SERVED_WAIT */
	struct batcher_job job;
	int (*call)(struct exchange *x, struct pg *pg, struct deferred_error *err);
	struct account_cache_waiter waiter;
	void (*wake)(void *data);
	void *wake_data;
	int64_t now_us; /* of the answer */

	/* Kept by operations between their steps. */
	const char *queue;          /* "account.queue" */
	enum message_status status; /* of a call */
	const char *text;           /* what a call read or is to write; in the arena */
	const struct reply_pair *metadata;
	struct message_queue *list; /* queues */
	size_t list_len;
	int64_t number;
	bool timed_out;

	/* Of the JSON API. */
	bool is_api;
	const struct route *route;
	struct json_api_request ask;
	struct json_api_answer answer;
	struct waiter_entry ended;
};

/* For struct server_app. */
enum served_step exchange_step(void *exchange);
void exchange_wait(void *exchange, void (*wake)(void *data), void *data);
void exchange_refuse(void *exchange, enum fault fault);
void exchange_end(void *exchange);

/* ---- for operations: each ends with one of these, or with a step of its own --------------------- */

/* Answer with an error. */
enum served_step exchange_fault(struct exchange *x, enum fault fault);
enum served_step exchange_fault_param(struct exchange *x, enum fault fault, const char *name, const char *value,
				      const char *reason);

/* Runs x->job, then next. If the job cannot run, the answer is 503 or 500 instead. */
enum served_step exchange_batch(struct exchange *x, enum batcher_kind kind,
				enum served_step (*next)(struct exchange *x));
enum served_step exchange_call(struct exchange *x, enum batcher_kind kind,
			       int (*f)(struct exchange *x, struct pg *pg, struct deferred_error *err),
			       enum served_step (*next)(struct exchange *x));

/* For exchange_call(): reads the policies of the queue into x->text. NULL: none. */
int exchange_read_acl(struct exchange *x, struct pg *pg, struct deferred_error *err);

/* Runs next when the accounts have been read again. */
enum served_step exchange_refresh(struct exchange *x, enum served_step (*next)(struct exchange *x));

/* The error that a status stands for. FAULT_NONE: success. */
enum fault exchange_fault_of(enum message_status status);

/* A number among the parameters. Without it, *number stays. False: it is not a number from min to max. Then the fault
 * is set, and the operation returns SERVED_ANSWER. */
bool exchange_number(struct exchange *x, const char *name, int64_t min, int64_t max, int64_t *number);

#endif
