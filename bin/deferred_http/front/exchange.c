/* SPDX-License-Identifier: MIT */
#include "front/exchange.h"

#include "base/clock.h"
#include "http/text.h"
#include "protocol/cors.h"
#include "protocol/error_body.h"
#include "protocol/refusal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEWEST_VERSION "2026-06-06"

/* ---- answers ---------------------------------------------------------------------------------- */

enum served_step exchange_fault(struct exchange *x, enum fault fault)
{
	reply_fault(&x->reply, fault);
	return SERVED_ANSWER;
}

enum served_step exchange_fault_param(struct exchange *x, enum fault fault, const char *name, const char *value,
				      const char *reason)
{
	reply_fault(&x->reply, fault);
	reply_detail(&x->reply, "QueryParameterName", name);
	reply_detail(&x->reply, "QueryParameterValue", value ? value : "");
	if (reason)
		reply_detail(&x->reply, "Reason", reason);
	return SERVED_ANSWER;
}

enum fault exchange_fault_of(enum message_status status)
{
	switch (status) {
	case MESSAGE_OK:
	case MESSAGE_SAME:
		return FAULT_NONE;
	case MESSAGE_NO_QUEUE:
		return FAULT_QueueNotFound;
	case MESSAGE_NO_MESSAGE:
		return FAULT_MessageNotFound;
	case MESSAGE_STALE_RECEIPT:
		return FAULT_PopReceiptMismatch;
	case MESSAGE_QUEUE_FULL:
		return FAULT_ServerBusy; /* clients wait and try again, which is what a full queue asks for */
	case MESSAGE_EXISTS:
		return FAULT_QueueAlreadyExists;
	case MESSAGE_BEING_DELETED:
		return FAULT_QueueBeingDeleted;
	case MESSAGE_BAD_METADATA:
		return FAULT_InvalidMetadata;
	case MESSAGE_TOO_LARGE:
		return FAULT_RequestBodyTooLarge;
	case MESSAGE_FORBIDDEN:
		return FAULT_AuthorizationFailure;
	case MESSAGE_NOT_GIVEN:
		return FAULT_InsufficientAccountPermissions;
	case MESSAGE_QUOTA:
		return FAULT_AccountQuotaExceeded;
	}
	return FAULT_InternalError;
}

bool exchange_number(struct exchange *x, const char *name, int64_t min, int64_t max, int64_t *number)
{
	const char *text = request_param(&x->request, name);
	int64_t n;

	if (!text)
		return true;
	if (request_param_times(&x->request, name) > 1 || !text_whole(text, &n)) {
		exchange_fault_param(x, FAULT_InvalidQueryParameterValue, name, text, "Is no whole number.");
		return false;
	}
	if (n < min || n > max) {
		exchange_fault_param(x, FAULT_OutOfRangeQueryParameterValue, name, text, NULL);
		reply_detail(&x->reply, "MinimumAllowed", arena_printf(&x->arena, "%" PRId64, min));
		reply_detail(&x->reply, "MaximumAllowed", arena_printf(&x->arena, "%" PRId64, max));
		return false;
	}
	*number = n;
	return true;
}

/* Adds what every answer has. */
static void finish_exchange(struct exchange *x)
{
	struct reply *reply = &x->reply;
	const char *version = request_value(&x->request, "x-ms-version"),
		   *id = request_value(&x->request, "x-ms-client-request-id");
	const char *detail;

	if (x->is_api) {
		x->front->api->finish(x);
		return;
	}
	x->now_us = text_now_us();
	detail = reply->fault == FAULT_AuthenticationFailed ? refusal_detail(&x->auth, &x->request, x->began_us) : NULL;
	if (detail)
		reply_detail(reply, "AuthenticationErrorDetail", detail);
	if (reply->fault != FAULT_NONE)
		error_body_write(reply, x->id, x->now_us);
	/* It is held until the client has taken it. */
	if (reply->body.failed || !budget_hold(&x->hold, BUDGET_ANSWERS, reply->body.len)) {
		exchange_fault(x, FAULT_ServerBusy);
		error_body_write(reply, x->id, x->now_us);
	}
	reply_header(reply, "Server", "deferred_http/" DEFERRED_VERSION);
	reply_header(reply, "x-ms-request-id", x->id);
	reply_header(reply, "x-ms-version", version && text_is_version(version) ? version : NEWEST_VERSION);
	if (id && strlen(id) <= 1024)
		reply_header(reply, "x-ms-client-request-id", id);
	if (!reply->close)
		reply_header(reply, "Keep-Alive", x->front->keep_alive);
	if (reply->body.len > 0)
		reply_header(reply, "Content-Type", reply->content_type ? reply->content_type : "application/xml");
	if (x->account && x->request.verb != VERB_OPTIONS)
		cors_headers(&x->request, &x->account->properties, reply);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

static int run_call(void *data, struct pg *pg, struct deferred_error *err)
{
	struct exchange *x = data;

	return x->call(x, pg, err);
}

enum served_step exchange_batch(struct exchange *x, enum batcher_kind kind,
				enum served_step (*next)(struct exchange *x))
{
	x->job.kind = kind;
	x->next = next;
	x->waits_for = WAIT_DATABASE;
	return SERVED_WAIT;
}

enum served_step exchange_call(struct exchange *x, enum batcher_kind kind,
			       int (*f)(struct exchange *x, struct pg *pg, struct deferred_error *err),
			       enum served_step (*next)(struct exchange *x))
{
	x->call = f;
	x->job.call.f = run_call;
	x->job.call.data = x;
	return exchange_batch(x, kind, next);
}

/* A client whose share of answers is used up has nothing taken for it. */
static bool has_room(void *data)
{
	const struct exchange *x = data;

	return budget_has(&x->hold, BUDGET_ANSWERS, (size_t)x->job.get.max * MESSAGE_TEXT_MAX);
}

/* Messages wait to be written into the answer: they are held as from now. */
static void hold_messages(void *data)
{
	struct exchange *x = data;
	size_t bytes = 0;

	for (size_t i = 0; x->job.outcome == BATCHER_DONE && i < x->job.get.n; i++)
		bytes += x->job.get.messages[i].text_len;
	if (!budget_hold(&x->hold, BUDGET_ANSWERS, bytes))
		x->job.outcome = BATCHER_BUSY;
	x->wake(x->wake_data);
}

void exchange_wait(void *exchange, void (*wake)(void *data), void *data)
{
	struct exchange *x = exchange;

	if (x->waits_for == WAIT_ACCOUNTS) {
		x->waiter = (struct account_cache_waiter){ .wake = wake, .wake_data = data };
		account_cache_refresh(x->front->account_cache, &x->waiter);
		return;
	}
	if (x->waits_for == WAIT_JOB) {
		x->ended.wake = wake;
		x->ended.wake_data = data;
		waiter_add(x->front->waiter, &x->ended);
		return;
	}
	x->job.wake = wake;
	x->job.wake_data = data;
	if (x->job.kind == BATCHER_GET) {
		x->wake = wake;
		x->wake_data = data;
		x->job.wake = hold_messages;
		x->job.wake_data = x;
		x->job.may_run = has_room;
	}
	batcher_submit(x->front->batcher, &x->job);
}

enum served_step exchange_step(void *exchange)
{
	struct exchange *x = exchange;
	bool failed = x->waits_for == WAIT_DATABASE && x->job.outcome != BATCHER_DONE;
	enum served_step step;

	x->waits_for = WAIT_NOTHING;
	step = !failed ? x->next(x)
		       : exchange_fault(x, x->job.outcome == BATCHER_BUSY ? FAULT_ServerBusy : FAULT_InternalError);
	if (step == SERVED_ANSWER)
		finish_exchange(x);
	return step;
}

void exchange_refuse(void *exchange, enum fault fault)
{
	exchange_fault(exchange, fault);
	finish_exchange(exchange);
}

void exchange_end(void *exchange)
{
	struct exchange *x = exchange;

	if (x->job.kind == BATCHER_GET)
		message_get_clear(&x->job.get);
	message_queues_free(x->list, x->list_len);
	json_api_answer_clear(&x->answer);
	accounts_release(x->accounts);
	reply_clear(&x->reply);
	arena_clear(&x->arena);
	budget_release(&x->hold);
}

/* ---- for operations -------------------------------------------------------------------------- */

int exchange_read_acl(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	char *acl = NULL;
	int rc = store_message_queue_get_acl(pg, x->queue, &acl, &x->status, err);

	if (rc == 0 && acl)
		x->text = arena_copy(&x->arena, acl, strlen(acl));
	free(acl);
	return rc;
}

static enum served_step take_accounts(struct exchange *x)
{
	accounts_release(x->accounts);
	x->accounts = account_cache_accounts(x->front->account_cache);
	x->account = accounts_find(x->accounts, x->request.account);
	return x->after_refresh(x);
}

enum served_step exchange_refresh(struct exchange *x, enum served_step (*next)(struct exchange *x))
{
	x->refreshed = true;
	x->after_refresh = next;
	x->next = take_accounts;
	x->waits_for = WAIT_ACCOUNTS;
	return SERVED_WAIT;
}
