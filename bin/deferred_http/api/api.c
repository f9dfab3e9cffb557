/* SPDX-License-Identifier: MIT */
#include "api/api.h"

#include "api/openapi.h"
#include "base/clock.h"
#include "http/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TOKEN_MAX 512
#define KEY_MAX 255
#define JOINED_MAX (16 * 1024) /* a larger body is not stored together with others */
#define PROBLEM "application/problem+json"

/* ---- answers ---------------------------------------------------------------------------------- */

/* Texts are ours and need no escapes. hint NULL: none. */
static enum served_step answer_problem(struct exchange *x, int status, const char *title, const char *detail,
				       const char *hint)
{
	struct buf *body = &x->reply.body;

	body->len = 0;
	x->reply.status = status;
	x->reply.content_type = PROBLEM;
	buf_printf(body, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d", title, status);
	if (detail)
		buf_printf(body, ",\"detail\":\"%s\"", detail);
	if (hint)
		buf_printf(body, ",\"hint\":\"%s\"", hint);
	buf_text(body, "}");
	return SERVED_ANSWER;
}

static enum served_step answer_unauthorized(struct exchange *x)
{
	reply_header(&x->reply, "WWW-Authenticate", "Bearer");
	return answer_problem(x, 401, "Unauthorized", NULL, NULL);
}

static enum served_step answer_bad_request(struct exchange *x, const char *detail, const char *hint)
{
	return answer_problem(x, 400, "Bad Request", detail, hint);
}

/* The server or the batcher refused the request. */
static void answer_fault(struct exchange *x)
{
	const struct fault_info *info = fault_info(x->reply.fault);

	switch (info->status) {
	case 413:
		answer_problem(x, 413, "Content Too Large", "the body of the request has more than 4194304 bytes",
			       "send fewer jobs in a request, and store large data elsewhere");
		break;
	case 503:
		answer_problem(x, 503, "Service Unavailable", "the database is away or busy", "repeat the request");
		reply_header(&x->reply, "Retry-After", "1");
		break;
	case 500:
		answer_problem(x, 500, "Internal Server Error",
			       "the request failed for a reason that the log of deferred_http has", NULL);
		break;
	default:
		answer_bad_request(x, "the request is not valid HTTP", info->message);
	}
}

static void api_finish(struct exchange *x)
{
	struct reply *reply = &x->reply;

	if (reply->fault != FAULT_NONE)
		answer_fault(x);
	/* It is held until the client has taken it. */
	if (reply->body.failed || !budget_hold(&x->hold, BUDGET_ANSWERS, reply->body.len)) {
		reply_fault(reply, FAULT_ServerBusy);
		answer_fault(x);
	}
	reply_header(reply, "Server", "deferred_http/" DEFERRED_VERSION);
	reply_header(reply, "X-Request-Id", x->id);
	reply_header(reply, "Cache-Control", "no-store");
	if (!reply->close)
		reply_header(reply, "Keep-Alive", x->front->keep_alive);
	if (reply->body.len > 0)
		reply_header(reply, "Content-Type", reply->content_type ? reply->content_type : "application/json");
}

/* ---- running it ------------------------------------------------------------------------------- */

static int call_api(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	return store_json_api_call(pg, &x->ask, &x->answer, err);
}

static enum served_step take_answer(struct exchange *x);

static enum served_step ask_api(struct exchange *x)
{
	return exchange_call(x, x->route->slow ? BATCHER_SLOW : BATCHER_CALL, call_api, take_answer);
}

/* The job has not ended: its end is waited for, and it is looked at again. */
static enum served_step await_end(struct exchange *x)
{
	x->ended = (struct waiter_entry){ .id = x->answer.waits_for,
					  .until_ns = x->began_ns + (uint64_t)x->answer.wait_ms * NS_PER_MS };
	x->timed_out = true; /* waits once */
	x->next = ask_api;
	x->waits_for = WAIT_JOB;
	return SERVED_WAIT;
}

static void know_token(struct exchange *x)
{
	if (x->authorized || !x->answer.who[0])
		return;
	x->authorized = true;
	x->auth.scheme = "Bearer";
	budget_account(&x->hold, arena_printf(&x->arena, ":%s", x->answer.who));
}

static enum served_step take_answer(struct exchange *x)
{
	const struct json_api_answer *a = &x->answer;

	know_token(x);
	if (a->status == 401)
		return answer_unauthorized(x);
	if (a->status == 0)
		return exchange_fault(x, FAULT_InternalError);
	if (a->waits_for > 0 && !x->timed_out)
		return await_end(x);
	x->reply.status = a->status;
	x->reply.content_type = a->status >= 400 ? PROBLEM : NULL;
	buf_text(&x->reply.body, a->body);
	if (a->location[0])
		reply_header(&x->reply, "Location", a->location);
	if (a->replayed)
		reply_header(&x->reply, "Idempotent-Replayed", "true");
	if (a->retry_after > 0)
		reply_header(&x->reply, "Retry-After", arena_printf(&x->arena, "%" PRId64, a->retry_after));
	return SERVED_ANSWER;
}

/* ---- the request ------------------------------------------------------------------------------ */

/* Sets the hash of the token. False: there is no token that could be valid. */
static bool read_bearer(struct exchange *x)
{
	const char *header = request_value(&x->request, "authorization");
	unsigned char sha256[CRYPTO_SHA256_BYTES];
	size_t len;

	if (!header || strncasecmp(header, "Bearer ", 7) != 0)
		return false;
	header += 7;
	len = strlen(header);
	if (len == 0 || len > TOKEN_MAX || !crypto_sha256(header, len, sha256))
		return false;
	for (size_t i = 0; i < sizeof(sha256); i++)
		snprintf(x->ask.token + 2 * i, 3, "%02x", sha256[i]);
	return true;
}

static bool is_json(const struct request *r)
{
	static const char *const types[] = { "application/json", "application/x-ndjson",
					     "application/merge-patch+json" };
	const char *type = request_value(r, "content-type");

	for (size_t i = 0; type && i < sizeof(types) / sizeof(types[0]); i++)
		if (strncasecmp(type, types[i], strlen(types[i])) == 0 &&
		    strchr("; \t", type[strlen(types[i])])) /* the end too */
			return true;
	return false;
}

static enum served_step run_route(struct exchange *x)
{
	const struct request *r = &x->request;

	if (r->body_too_large)
		return exchange_fault(x, FAULT_RequestBodyTooLarge);
	if (r->body_len > 0 && !is_json(r))
		return answer_problem(x, 415, "Unsupported Media Type", "the body of the request is not JSON",
				      "send the header Content-Type: application/json");
	if (r->body_len > 0 && !text_is_utf8(r->body, r->body_len))
		return answer_bad_request(x, "the body of the request is not UTF-8",
					  "send UTF-8 without zero bytes, and other data in Base64");
	x->ask.body = r->body_len > 0 ? r->body : "";
	if (x->op->run != OP_DEFER_JOB || r->body_len > JOINED_MAX || r->params_len > 0)
		return ask_api(x);
	x->job.defer = (struct json_api_defer){ .request = &x->ask, .answer = &x->answer };
	return exchange_batch(x, BATCHER_DEFER, take_answer);
}

static enum served_step begin_body(struct exchange *x)
{
	x->next = run_route;
	return x->awaits_body ? SERVED_BODY : run_route(x);
}

static enum served_step take_look(struct exchange *x)
{
	if (x->answer.status >= 400)
		return take_answer(x);
	know_token(x);
	x->ask.look = false;
	return begin_body(x);
}

/* Names and values of the query. False: one comes twice. */
static bool read_api_query(struct exchange *x)
{
	const struct request *r = &x->request;
	const char **names = arena_alloc(&x->arena, r->params_len * sizeof(*names)),
		   **values = arena_alloc(&x->arena, r->params_len * sizeof(*values));

	for (size_t i = 0; i < r->params_len; i++) {
		if (request_param_times(r, r->params[i].name) > 1)
			return false;
		names[i] = r->params[i].name;
		values[i] = r->params[i].value;
	}
	x->ask.names = names;
	x->ask.values = values;
	x->ask.params = r->params_len;
	return true;
}

static bool is_key(const char *key)
{
	size_t len = 0;

	while (key[len] > ' ' && key[len] < 0x7f)
		len++;
	return len >= 1 && len <= KEY_MAX && !key[len];
}

static enum served_step api_begin(struct exchange *x)
{
	const struct request *r = &x->request;
	const char *allow;

	if (r->fault != FAULT_NONE)
		return exchange_fault(x, r->fault);
	x->route = route_find(r, &x->ask.arg, &allow);
	if (!x->route && !allow)
		return answer_problem(x, 404, "Not Found", "the path does not exist", "see /v1/openapi.json");
	if (!x->route) {
		reply_header(&x->reply, "Allow", allow);
		return answer_problem(x, 405, "Method Not Allowed", "the path has no such method", NULL);
	}
	x->op = &x->route->op;
	if (!x->route->call)
		return openapi_answer(x);
	if (!read_bearer(x))
		return answer_unauthorized(x);
	if (!read_api_query(x))
		return answer_bad_request(x, "a parameter of the query is given twice", NULL);
	x->ask.op = x->route->call;
	if (!(r->verb & (VERB_GET | VERB_HEAD)))
		x->ask.key = request_value(r, "idempotency-key");
	if (x->ask.key && !is_key(x->ask.key))
		return answer_bad_request(x, "the Idempotency-Key is not valid",
					  "use 1 to 255 printable ASCII characters without blanks, such as a UUID");
	if (!x->awaits_body || !x->op->takes_body || (!r->chunked && r->length <= BUDGET_SMALL))
		return begin_body(x);
	x->ask.look = true;
	return exchange_call(x, BATCHER_CALL, call_api, take_look);
}

const struct front_api api_front = { .begin = api_begin, .finish = api_finish };
