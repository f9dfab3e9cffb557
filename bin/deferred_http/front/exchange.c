/* SPDX-License-Identifier: MIT */
#include "front/exchange.h"

#include "base/clock.h"
#include "protocol/cors.h"
#include "front/ops.h"
#include "protocol/address.h"
#include "protocol/error_body.h"
#include "protocol/refusal.h"
#include "http/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEWEST_VERSION "2026-06-06"

static enum step begin(struct exchange *x);

void exchange_init(struct exchange *x, struct front *front)
{
	memset(x, 0, sizeof(*x));
	x->front = front;
	x->began_us = text_now_us();
	x->began_ns = clock_ns();
	x->next = begin;
	crypto_guid(x->id);
	reply_init(&x->reply, &x->arena);
}

/* ---- answers ---------------------------------------------------------------------------------- */

enum step exchange_fault(struct exchange *x, enum fault fault)
{
	reply_fault(&x->reply, fault);
	return STEP_DONE;
}

enum step exchange_fault_param(struct exchange *x, enum fault fault, const char *name, const char *value,
			       const char *reason)
{
	reply_fault(&x->reply, fault);
	reply_detail(&x->reply, "QueryParameterName", name);
	reply_detail(&x->reply, "QueryParameterValue", value ? value : "");
	if (reason)
		reply_detail(&x->reply, "Reason", reason);
	return STEP_DONE;
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

/* What every answer has. */
static void finish(struct exchange *x)
{
	struct reply *reply = &x->reply;
	const char *version = request_value(&x->request, "x-ms-version"),
		   *id = request_value(&x->request, "x-ms-client-request-id");
	const char *detail;

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

enum step exchange_fold(struct exchange *x, enum fold_kind kind, enum step (*next)(struct exchange *x))
{
	x->job.kind = kind;
	x->next = next;
	return STEP_FOLD;
}

enum step exchange_call(struct exchange *x, enum fold_kind kind,
			int (*f)(struct exchange *x, struct pg *pg, struct deferred_error *err),
			enum step (*next)(struct exchange *x))
{
	x->call = f;
	x->job.call.f = run_call;
	x->job.call.data = x;
	return exchange_fold(x, kind, next);
}

/* A client whose share of answers is used up has nothing taken for it. */
static bool has_room(void *data)
{
	const struct exchange *x = data;

	return budget_has(&x->hold, BUDGET_ANSWERS, (size_t)x->job.get.max * MESSAGE_TEXT_MAX);
}

/* Messages wait to be written into the answer: they are held as from now. */
static void got(void *data)
{
	struct exchange *x = data;
	size_t bytes = 0;

	for (size_t i = 0; x->job.outcome == FOLD_DONE && i < x->job.get.n; i++)
		bytes += x->job.get.messages[i].text_len;
	if (!budget_hold(&x->hold, BUDGET_ANSWERS, bytes))
		x->job.outcome = FOLD_BUSY;
	x->wake(x->wake_data);
}

void exchange_wait(struct exchange *x, enum step step, void (*wake)(void *data), void *data)
{
	x->waited = step;
	if (step == STEP_FOLD && x->job.kind == FOLD_GET) {
		x->wake = wake;
		x->wake_data = data;
		x->job.wake = got;
		x->job.wake_data = x;
		x->job.may_run = has_room;
		fold_submit(x->front->fold, &x->job);
	} else if (step == STEP_FOLD) {
		x->job.wake = wake;
		x->job.wake_data = data;
		fold_submit(x->front->fold, &x->job);
	} else {
		x->waiter = (struct keeper_waiter){ .wake = wake, .wake_data = data };
		keeper_refresh(x->front->keeper, &x->waiter);
	}
}

enum step exchange_step(struct exchange *x)
{
	enum step step = STEP_DONE;

	if (x->waited == STEP_FOLD && x->job.outcome != FOLD_DONE)
		exchange_fault(x, x->job.outcome == FOLD_BUSY ? FAULT_ServerBusy : FAULT_InternalError);
	else
		step = x->next(x);
	x->waited = STEP_DONE;
	if (step == STEP_DONE)
		finish(x);
	return step;
}

void exchange_refuse(struct exchange *x, enum fault fault)
{
	exchange_fault(x, fault);
	finish(x);
}

void exchange_clear(struct exchange *x)
{
	if (x->job.kind == FOLD_GET)
		message_get_clear(&x->job.get);
	message_queues_free(x->list, x->list_len);
	accounts_release(x->accounts);
	reply_clear(&x->reply);
	arena_clear(&x->arena);
	budget_release(&x->hold);
}

/* ---- who is it -------------------------------------------------------------------------------- */

static enum step (*const operations[])(struct exchange *x) = {
	[RUN_LIST_QUEUES] = op_list_queues,
	[RUN_GET_PROPERTIES] = op_get_properties,
	[RUN_SET_PROPERTIES] = op_set_properties,
	[RUN_GET_STATS] = op_get_stats,
	[RUN_DELEGATION_KEY] = op_delegation_key,
	[RUN_CREATE_QUEUE] = op_create_queue,
	[RUN_DELETE_QUEUE] = op_delete_queue,
	[RUN_GET_METADATA] = op_get_metadata,
	[RUN_SET_METADATA] = op_set_metadata,
	[RUN_GET_ACL] = op_get_acl,
	[RUN_SET_ACL] = op_set_acl,
	[RUN_PUT_MESSAGE] = op_put_message,
	[RUN_GET_MESSAGES] = op_get_messages,
	[RUN_PEEK_MESSAGES] = op_peek_messages,
	[RUN_CLEAR_MESSAGES] = op_clear_messages,
	[RUN_UPDATE_MESSAGE] = op_update_message,
	[RUN_DELETE_MESSAGE] = op_delete_message,
	[RUN_PUT_RAW] = op_put_raw,
};

/* An MD5 of the body that is not its own: the body was damaged on the way. */
static enum fault check_md5(const struct request *r)
{
	const char *header = request_value(r, "content-md5");
	unsigned char given[CRYPTO_MD5_BYTES], is[CRYPTO_MD5_BYTES];

	if (!header || !*header)
		return FAULT_NONE;
	if (!crypto_base64_decode(header, given, sizeof(given)))
		return FAULT_InvalidMd5;
	return crypto_md5(r->body, r->body_len, is) && crypto_equal(given, is, sizeof(is)) ? FAULT_NONE
											   : FAULT_Md5Mismatch;
}

static enum step operate(struct exchange *x)
{
	const struct request *r = &x->request;
	int64_t timeout;

	if (!exchange_number(x, "timeout", INT64_MIN, INT64_MAX, &timeout))
		return STEP_DONE;
	if (x->op->takes_body && r->body_too_large) {
		exchange_fault(x, FAULT_RequestBodyTooLarge);
		reply_detail(&x->reply, "MaxLimit", arena_printf(&x->arena, "%d", REQUEST_BODY_MAX));
		return STEP_DONE;
	}
	if (x->op->takes_body) {
		enum fault fault = check_md5(r);

		if (fault != FAULT_NONE)
			return exchange_fault(x, fault);
	}
	x->queue = r->level == LEVEL_ACCOUNT ? NULL : arena_printf(&x->arena, "%s.%s", r->account, r->queue);
	return operations[x->op->run](x);
}

static enum step authorized(struct exchange *x)
{
	x->authorized = true;
	budget_account(&x->hold, x->account->name);
	x->next = operate;
	return x->awaits_body ? STEP_BODY : operate(x);
}

static enum step check_sas(struct exchange *x)
{
	enum fault fault = x->auth.signature
				   ? FAULT_NONE
				   : sas_check(&x->auth.sas, &x->request, &x->op->need, x->began_us / 1000000);

	if (fault == FAULT_AuthenticationFailed)
		x->auth.why = AUTH_TOKEN_TIME;
	return fault == FAULT_NONE ? authorized(x) : exchange_fault(x, fault);
}

int exchange_read_acl(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	char *acl = NULL;
	int rc = store_message_queue_get_acl(pg, x->queue, &acl, &x->status, err);

	if (rc == 0 && acl)
		x->text = arena_copy(&x->arena, acl, strlen(acl));
	free(acl);
	return rc;
}

static enum step take_policy(struct exchange *x)
{
	struct sas_policy policies[JSON_POLICIES_MAX], *policy = NULL;
	size_t n = json_read_policies(&x->arena, x->text, policies);

	for (size_t i = 0; i < n; i++)
		if (strcmp(policies[i].id, x->auth.sas.si) == 0)
			policy = &policies[i];
	x->text = NULL;
	if (sas_take_policy(&x->auth.sas, policy))
		return check_sas(x);
	x->auth.why = AUTH_POLICY;
	return exchange_fault(x, FAULT_AuthenticationFailed);
}

static enum step identify(struct exchange *x)
{
	x->account = accounts_find(x->accounts, x->request.account);
	if (!auth_judge(&x->auth, &x->request, x->account)) {
		/* The account may be new, or its key: they are read anew before the answer is no. */
		if (x->refreshed)
			return exchange_fault(x, x->accounts ? FAULT_AuthenticationFailed : FAULT_ServerBusy);
		return exchange_refresh(x, identify);
	}
	if (x->auth.signature || x->auth.sas.of_account || !x->auth.sas.si[0])
		return check_sas(x);
	x->queue = arena_printf(&x->arena, "%s.%s", x->request.account, x->request.queue);
	/* The policy is looked up each time, so that taking it away takes the rights away at once. */
	return exchange_call(x, FOLD_CALL, exchange_read_acl, take_policy);
}

static enum step take_accounts(struct exchange *x)
{
	accounts_release(x->accounts);
	x->accounts = keeper_accounts(x->front->keeper);
	x->account = accounts_find(x->accounts, x->request.account);
	return x->after_refresh(x);
}

enum step exchange_refresh(struct exchange *x, enum step (*next)(struct exchange *x))
{
	x->refreshed = true;
	x->after_refresh = next;
	x->next = take_accounts;
	return STEP_ACCOUNTS;
}

/* ---- what does it want ------------------------------------------------------------------------ */

static enum step refuse(struct exchange *x)
{
	const struct request *r = &x->request;

	exchange_fault(x, r->fault);
	if (r->fault == FAULT_InvalidHeaderValue && r->fault_name) {
		reply_detail(&x->reply, "HeaderName", r->fault_name);
	} else if (r->fault == FAULT_InvalidQueryParameterValue && r->fault_name) {
		reply_detail(&x->reply, "QueryParameterName", r->fault_name);
	}
	return STEP_DONE;
}

static enum step begin(struct exchange *x)
{
	struct request *r = &x->request;
	enum fault fault = r->fault;

	if (health_is_asked(r))
		return op_health(x);
	if (x->front->metrics_only)
		return op_metrics(x);
	x->accounts = keeper_accounts(x->front->keeper);
	x->account = accounts_find(x->accounts, r->account);
	if (fault != FAULT_NONE)
		return refuse(x);
	if (r->verb == VERB_OPTIONS) {
		if (!x->accounts)
			return exchange_fault(x, FAULT_ServerBusy);
		cors_preflight(r, x->account ? &x->account->properties : NULL, &x->reply);
		return STEP_DONE;
	}
	if (r->level != LEVEL_ACCOUNT && (fault = address_check_queue(r->queue)) != FAULT_NONE)
		return exchange_fault(x, fault);
	fault = route_find(r, &x->op);
	if (fault == FAULT_InvalidQueryParameterValue)
		return exchange_fault_param(x, fault, "comp", request_param(r, "comp"), NULL);
	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	if (!auth_read(r, x->began_us / 1000000, &x->auth))
		return exchange_fault(x, FAULT_AuthenticationFailed);
	if (!address_is_account(r->account)) {
		x->auth.why = AUTH_NO_ACCOUNT;
		return exchange_fault(x, FAULT_AuthenticationFailed);
	}
	return identify(x);
}

/* ---- of the server ---------------------------------------------------------------------------- */

static void app_begin(void *exchange, void *data, struct served *parts)
{
	struct exchange *x = exchange;

	exchange_init(x, data);
	*parts = (struct served){ &x->arena, &x->request, &x->reply, &x->hold, &x->awaits_body };
}

static void app_headers(void *exchange)
{
	address_read(&((struct exchange *)exchange)->request);
}

static enum served_step app_step(void *exchange)
{
	struct exchange *x = exchange;

	x->last = exchange_step(x);
	return x->last == STEP_DONE ? SERVED_ANSWER : x->last == STEP_BODY ? SERVED_BODY : SERVED_WAIT;
}

static void app_wait(void *exchange, void (*wake)(void *data), void *data)
{
	struct exchange *x = exchange;

	exchange_wait(x, x->last, wake, data);
}

static bool app_takes_body(const void *exchange)
{
	return ((const struct exchange *)exchange)->op->takes_body;
}

static void app_refuse(void *exchange, enum fault fault)
{
	exchange_refuse(exchange, fault);
}

static void app_log(void *exchange, size_t bytes_out, bool cut)
{
	const struct exchange *x = exchange;
	enum fault fault = x->reply.fault;
	struct access_entry entry = {
		.request = &x->request,
		.id = x->id,
		.began_us = x->began_us,
		.began_ns = x->began_ns,
		.op = x->op ? x->op->name : NULL,
		.account = x->account ? x->account->name : NULL,
		.auth = x->authorized ? x->auth.scheme : NULL,
		.status = x->reply.status,
		.code = fault != FAULT_NONE ? fault_info(fault)->code : NULL,
		.reason = fault == FAULT_AuthenticationFailed ? refusal_word(x->auth.why) : NULL,
		.bytes_out = bytes_out,
		.cut = cut,
	};

	if (!x->front->metrics_only)
		tally_add(x->front->tally, x->op, x->reply.status, (int64_t)((clock_ns() - x->began_ns) / 1000));
	if (x->front->log)
		access_log_write(x->front->log, &entry);
}

static void app_end(void *exchange)
{
	exchange_clear(exchange);
}

const struct server_app exchange_app = {
	.exchange_bytes = sizeof(struct exchange),
	.begin = app_begin,
	.headers = app_headers,
	.step = app_step,
	.wait = app_wait,
	.takes_body = app_takes_body,
	.refuse = app_refuse,
	.log = app_log,
	.end = app_end,
};
