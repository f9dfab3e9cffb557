/* SPDX-License-Identifier: MIT */
#include "front/dispatch.h"

#include "base/clock.h"
#include "front/ops.h"
#include "http/text.h"
#include "protocol/address.h"
#include "protocol/cors.h"
#include "protocol/refusal.h"

#include <string.h>

/* ---- who is it -------------------------------------------------------------------------------- */

static enum served_step (*const operations[])(struct exchange *x) = {
	[OP_LIST_QUEUES] = service_ops_list_queues,
	[OP_GET_PROPERTIES] = service_ops_get_properties,
	[OP_SET_PROPERTIES] = service_ops_set_properties,
	[OP_GET_STATS] = service_ops_get_stats,
	[OP_DELEGATION_KEY] = service_ops_delegation_key,
	[OP_CREATE_QUEUE] = queue_ops_create,
	[OP_DELETE_QUEUE] = queue_ops_delete,
	[OP_GET_METADATA] = queue_ops_get_metadata,
	[OP_SET_METADATA] = queue_ops_set_metadata,
	[OP_GET_ACL] = queue_ops_get_acl,
	[OP_SET_ACL] = queue_ops_set_acl,
	[OP_PUT_MESSAGE] = message_ops_put,
	[OP_GET_MESSAGES] = message_ops_get,
	[OP_PEEK_MESSAGES] = message_ops_peek,
	[OP_CLEAR_MESSAGES] = message_ops_clear,
	[OP_UPDATE_MESSAGE] = message_ops_update,
	[OP_DELETE_MESSAGE] = message_ops_delete,
	[OP_PUT_RAW] = message_ops_put_raw,
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

static enum served_step run_operation(struct exchange *x)
{
	const struct request *r = &x->request;
	int64_t timeout;

	if (!exchange_number(x, "timeout", INT64_MIN, INT64_MAX, &timeout))
		return SERVED_ANSWER;
	if (x->op->takes_body && r->body_too_large) {
		exchange_fault(x, FAULT_RequestBodyTooLarge);
		reply_detail(&x->reply, "MaxLimit", arena_printf(&x->arena, "%d", REQUEST_BODY_MAX));
		return SERVED_ANSWER;
	}
	if (x->op->takes_body) {
		enum fault fault = check_md5(r);

		if (fault != FAULT_NONE)
			return exchange_fault(x, fault);
	}
	x->queue = r->level == LEVEL_ACCOUNT ? NULL : arena_printf(&x->arena, "%s.%s", r->account, r->queue);
	return operations[x->op->run](x);
}

static enum served_step go_on_authorized(struct exchange *x)
{
	x->authorized = true;
	budget_account(&x->hold, x->account->name);
	x->next = run_operation;
	return x->awaits_body ? SERVED_BODY : run_operation(x);
}

static enum served_step check_sas(struct exchange *x)
{
	enum fault fault = x->auth.signature
				   ? FAULT_NONE
				   : sas_check(&x->auth.sas, &x->request, &x->op->need, x->began_us / 1000000);

	if (fault == FAULT_AuthenticationFailed)
		x->auth.why = AUTH_TOKEN_TIME;
	return fault == FAULT_NONE ? go_on_authorized(x) : exchange_fault(x, fault);
}

static enum served_step take_policy(struct exchange *x)
{
	struct sas_policy policies[JSON_POLICIES_MAX], *policy = NULL;
	size_t n = json_read_policies(&x->arena, x->text, policies);

	for (size_t i = 0; i < n; i++)
		if (strcmp(policies[i].id, x->auth.sas.si) == 0)
			policy = &policies[i];
	x->text = NULL;
	if (sas_take_policy(&x->auth.sas, policy))
		return check_sas(x);
	x->auth.why = policy ? AUTH_POLICY_TWICE : AUTH_POLICY;
	return exchange_fault(x, FAULT_AuthenticationFailed);
}

static enum served_step identify_sender(struct exchange *x)
{
	x->account = accounts_find(x->accounts, x->request.account);
	if (!auth_judge(&x->auth, &x->request, x->account)) {
		/* The account or its key may be new, so they are read again before the refusal. */
		if (x->refreshed)
			return exchange_fault(x, x->accounts ? FAULT_AuthenticationFailed : FAULT_ServerBusy);
		return exchange_refresh(x, identify_sender);
	}
	if (x->auth.signature || x->auth.sas.of_account || !x->auth.sas.si[0])
		return check_sas(x);
	x->queue = arena_printf(&x->arena, "%s.%s", x->request.account, x->request.queue);
	/* The policy is looked up each time, so that taking it away takes the rights away at once. */
	return exchange_call(x, BATCHER_CALL, exchange_read_acl, take_policy);
}

/* ---- what does it want ------------------------------------------------------------------------ */

static enum served_step refuse_fault(struct exchange *x)
{
	const struct request *r = &x->request;

	exchange_fault(x, r->fault);
	if (r->fault == FAULT_InvalidHeaderValue && r->fault_name) {
		reply_detail(&x->reply, "HeaderName", r->fault_name);
	} else if (r->fault == FAULT_InvalidQueryParameterValue && r->fault_name) {
		reply_detail(&x->reply, "QueryParameterName", r->fault_name);
	}
	return SERVED_ANSWER;
}

static enum served_step begin_exchange(struct exchange *x)
{
	struct request *r = &x->request;
	enum fault fault = r->fault;

	if (health_is_asked(r))
		return health_answer(x);
	if (x->front->metrics_only)
		return health_metrics(x);
	if (x->is_api)
		return x->front->api->begin(x);
	x->accounts = account_cache_accounts(x->front->account_cache);
	x->account = accounts_find(x->accounts, r->account);
	if (fault != FAULT_NONE)
		return refuse_fault(x);
	if (r->verb == VERB_OPTIONS) {
		if (!x->accounts)
			return exchange_fault(x, FAULT_ServerBusy);
		cors_preflight(r, x->account ? &x->account->properties : NULL, &x->reply);
		return SERVED_ANSWER;
	}
	if (r->level != LEVEL_ACCOUNT && (fault = address_check_queue(r->queue)) != FAULT_NONE)
		return exchange_fault(x, fault);
	fault = operation_find(r, &x->op);
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
	return identify_sender(x);
}

/* ---- of the server ---------------------------------------------------------------------------- */

static void dispatch_begin(void *exchange, void *data, struct served *parts)
{
	struct exchange *x = exchange;

	x->front = data;
	x->began_us = text_now_us();
	x->began_ns = clock_ns();
	x->next = begin_exchange;
	crypto_guid(x->id);
	reply_init(&x->reply, &x->arena);
	*parts = (struct served){ &x->arena, &x->request, &x->reply, &x->hold, &x->awaits_body };
}

static void dispatch_headers(void *exchange)
{
	struct exchange *x = exchange;

	x->is_api = !x->front->metrics_only && route_is_api(&x->request);
	if (x->is_api) {
		request_end(&x->request);
		x->request.body_max = FRONT_API_BODY_MAX;
	} else {
		address_read(&x->request);
	}
}

static bool dispatch_takes_body(const void *exchange)
{
	return ((const struct exchange *)exchange)->op->takes_body;
}

static void dispatch_log(void *exchange, size_t bytes_out, bool cut)
{
	const struct exchange *x = exchange;
	enum fault fault = x->reply.fault;
	struct access_entry entry = {
		.request = &x->request,
		.id = x->id,
		.began_us = x->began_us,
		.began_ns = x->began_ns,
		.op = x->op ? x->op->name : NULL,
		.account = x->account         ? x->account->name
			   : x->answer.who[0] ? x->answer.who
					      : NULL,
		.auth = x->authorized ? x->auth.scheme : NULL,
		.status = x->reply.status,
		.code = fault != FAULT_NONE ? fault_info(fault)->code : NULL,
		.reason = fault == FAULT_AuthenticationFailed ? refusal_word(x->auth.why) : NULL,
		.bytes_out = bytes_out,
		.cut = cut,
	};

	if (!x->front->metrics_only)
		request_metrics_add(x->front->request_metrics, x->op, x->reply.status,
				    (int64_t)((clock_ns() - x->began_ns) / 1000));
	if (x->front->log)
		access_log_write(x->front->log, &entry);
}

const struct server_app dispatch_app = {
	.exchange_bytes = sizeof(struct exchange),
	.begin = dispatch_begin,
	.headers = dispatch_headers,
	.step = exchange_step,
	.wait = exchange_wait,
	.takes_body = dispatch_takes_body,
	.refuse = exchange_refuse,
	.log = dispatch_log,
	.end = exchange_end,
};
