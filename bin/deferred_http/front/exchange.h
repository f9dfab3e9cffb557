/* SPDX-License-Identifier: MIT */
/*
 * exchange - one request and its answer, from the first byte to the last, whatever carries them.
 *
 * exchange_step() does as much as it can without waiting. What it then waits for is started by exchange_wait(), which
 * calls wake() from another thread when exchange_step() is to be called again; so that a server can put the connection
 * aside in between.
 *
 * The order of checks: form of the request; account; name of the queue; which operation; authorization; all of these
 * need the headers only, and before them nothing of a body is kept. Then parameters and body; and last what the
 * database says.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "http/access_log.h"
#include "http/server.h"
#include "protocol/accounts.h"
#include "protocol/auth.h"
#include "http/budget.h"
#include "http/crypto.h"
#include "front/fold.h"
#include "front/keeper.h"
#include "front/tally.h"
#include "http/reply.h"
#include "http/request.h"
#include "protocol/route.h"

#define MESSAGE_TEXT_MAX 65536

/* STEP_BODY: it may be done once the body is there. Comes at most once, and not where the body is there from the start.
 * */
enum step { STEP_DONE, STEP_FOLD, STEP_ACCOUNTS, STEP_BODY };

/* What all exchanges share. */
struct front {
	struct fold *fold;
	struct keeper *keeper;
	struct tally *tally;
	struct access_log *log;    /* NULL: none */
	bool metrics_only;         /* and not counted among them */
	char keep_alive[32];       /* value of the header */
	_Atomic uint64_t ready_ns; /* when /readyz last found all well */
};

struct exchange {
	struct front *front;
	struct arena arena;
	struct request request;
	struct reply reply;
	char id[CRYPTO_GUID_SIZE];
	int64_t began_us;
	uint64_t began_ns;
	const struct operation *op; /* NULL: none was found */
	struct accounts *accounts;
	const struct account *account; /* addressed; NULL: unknown */
	struct auth auth;
	bool refreshed, authorized;
	bool awaits_body; /* set before the first step: the body comes later */
	struct budget_hold hold;
	enum step (*next)(struct exchange *x), (*after_refresh)(struct exchange *x);
	enum step waited, last; /* waited for; told last */
	struct fold_job job;
	int (*call)(struct exchange *x, struct pg *pg, struct deferred_error *err);
	struct keeper_waiter waiter;
	void (*wake)(void *data);
	void *wake_data;
	int64_t now_us; /* of the answer */

	/* What operations keep between their steps. */
	const char *queue;          /* "account.queue" */
	enum message_status status; /* of a call */
	const char *text;           /* what a call read or is to write; in the arena */
	const struct reply_pair *metadata;
	struct message_queue *list; /* queues */
	size_t list_len;
	int64_t number;
	bool timed_out;
};

void exchange_init(struct exchange *x, struct front *front);

/* What a server carries requests to; its data is the front. */
extern const struct server_app exchange_app;

/* request is filled in up to address_read(); and the body, unless the exchange awaits it. */
enum step exchange_step(struct exchange *x);
/* For STEP_FOLD and STEP_ACCOUNTS. */
void exchange_wait(struct exchange *x, enum step step, void (*wake)(void *data), void *data);
void exchange_clear(struct exchange *x);

/* The answer is that error, without a look at the rest: in place of exchange_step(). */
void exchange_refuse(struct exchange *x, enum fault fault);

/* ---- for operations: each ends in one of these, or in a step of its own ------------------------- */

/* Answer with an error. */
enum step exchange_fault(struct exchange *x, enum fault fault);
enum step exchange_fault_param(struct exchange *x, enum fault fault, const char *name, const char *value,
			       const char *reason);

/* Run x->job, then go on with next, which is called only where it was run; else the answer is 503 or 500. */
enum step exchange_fold(struct exchange *x, enum fold_kind kind, enum step (*next)(struct exchange *x));
enum step exchange_call(struct exchange *x, enum fold_kind kind,
			int (*f)(struct exchange *x, struct pg *pg, struct deferred_error *err),
			enum step (*next)(struct exchange *x));

/* For exchange_call(): the policies of the queue in x->text, NULL: none. */
int exchange_read_acl(struct exchange *x, struct pg *pg, struct deferred_error *err);

/* Go on with next when the accounts have been read anew. */
enum step exchange_refresh(struct exchange *x, enum step (*next)(struct exchange *x));

/* The error that a status stands for; FAULT_NONE for those of success. */
enum fault exchange_fault_of(enum message_status status);

/*
 * A number among the parameters. Missing: *number is left alone. False: no number, or not within min..max; the fault is
 * set, and the operation returns STEP_DONE.
 */
bool exchange_number(struct exchange *x, const char *name, int64_t min, int64_t max, int64_t *number);

#endif
