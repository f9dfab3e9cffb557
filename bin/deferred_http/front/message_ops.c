/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/receipt.h"
#include "base/traceparent.h"
#include "front/ops.h"
#include "http/text.h"
#include "protocol/xml.h"

#include <inttypes.h>
#include <string.h>

#define RAW_MAX_BYTES 8192
#define WEEK_S 604800
#define HOURS_2_S 7200
#define NEVER_S 253402300799 /* the end of the year 9999; later times count as never */

static enum served_step too_large(struct exchange *x, int limit)
{
	exchange_fault(x, FAULT_RequestBodyTooLarge);
	reply_detail(&x->reply, "MaxLimit", arena_printf(&x->arena, "%d", limit));
	return SERVED_ANSWER;
}

/* The text of a <QueueMessage>. False: the fault is set. */
static bool read_message_text(struct exchange *x, const char **text, size_t *len)
{
	const struct xml_node *root =
		x->request.body_len > 0 ? xml_parse(&x->arena, x->request.body, x->request.body_len) : NULL;
	const struct xml_node *node =
		root && strcmp(root->name, "QueueMessage") == 0 ? xml_child(root, "MessageText") : NULL;

	if (!node || node->first) {
		exchange_fault(x, FAULT_InvalidXmlDocument);
		return false;
	}
	if (node->text_len > MESSAGE_TEXT_MAX) {
		too_large(x, MESSAGE_TEXT_MAX);
		return false;
	}
	*text = node->text;
	*len = node->text_len;
	return true;
}

/* False: the fault is set. *ttl_s 0: nothing was said. */
static bool read_ttl(struct exchange *x, int64_t *ttl_s)
{
	const char *text = request_param(&x->request, "messagettl");
	int64_t n;

	*ttl_s = 0;
	if (!text)
		return true;
	if (request_param_times(&x->request, "messagettl") > 1 || !text_whole(text, &n) || n == 0 || n < -1) {
		exchange_fault_param(x, FAULT_InvalidQueryParameterValue, "messagettl", text,
				     "Is neither a number of seconds from 1 on nor -1.");
		return false;
	}
	if (x->request.form_2008 && (n < 1 || n > WEEK_S))
		return exchange_number(x, "messagettl", 1, WEEK_S, &n);
	*ttl_s = n > NEVER_S ? -1 : n;
	return true;
}

static void add_time(struct buf *body, const char *name, int64_t us)
{
	char text[TEXT_RFC1123_SIZE];

	text_rfc1123(us, text);
	buf_printf(body, "<%s>%s</%s>", name, text, name);
}

/* The client for JavaScript would show &#xD; as it is. From the character itself it makes a line feed. */
static bool knows_numeric_entities(const struct request *r)
{
	const char *agent = request_value(r, "x-ms-useragent");

	if (!agent)
		agent = request_value(r, "user-agent");
	return !agent || !strstr(agent, "azsdk-js-");
}

static void add_text(struct exchange *x, const char *text, size_t len)
{
	const char *cr = knows_numeric_entities(&x->request) ? NULL : memchr(text, '\r', len);

	for (; cr; cr = memchr(text, '\r', len)) {
		xml_text(&x->reply.body, text, (size_t)(cr - text));
		buf_add(&x->reply.body, "\r", 1);
		len -= (size_t)(cr + 1 - text);
		text = cr + 1;
	}
	xml_text(&x->reply.body, text, len);
}

static void add_message(struct exchange *x, const struct message *m, bool with_receipt, bool with_text)
{
	struct buf *body = &x->reply.body;
	char id[MESSAGE_GUID_SIZE], receipt[MESSAGE_RECEIPT_SIZE];

	message_id_format(m->id, id);
	buf_printf(body, "<QueueMessage><MessageId>%s</MessageId>", id);
	add_time(body, "InsertionTime", m->inserted_us);
	add_time(body, "ExpirationTime", m->expires_us);
	if (with_receipt) {
		receipt_format(m->receipt, receipt);
		buf_printf(body, "<PopReceipt>%s</PopReceipt>", receipt);
		add_time(body, "TimeNextVisible", m->visible_us);
	}
	if (with_text) {
		if (!x->request.form_2008)
			buf_printf(body, "<DequeueCount>%" PRId32 "</DequeueCount>", m->attempt);
		if (m->text_len > 0) {
			xml_open(body, "MessageText");
			add_text(x, m->text, m->text_len);
			xml_close(body, "MessageText");
		} else {
			buf_text(body, "<MessageText/>");
		}
	}
	xml_close(body, "QueueMessage");
}

/* ---- put -------------------------------------------------------------------------------------- */

static enum served_step put_done(struct exchange *x)
{
	const struct message_put *put = &x->job.put;
	enum fault fault = exchange_fault_of(put->status);

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	x->reply.status = 201;
	xml_start(&x->reply.body);
	xml_open(&x->reply.body, "QueueMessagesList");
	add_message(x, &put->message, true, false);
	xml_close(&x->reply.body, "QueueMessagesList");
	return SERVED_ANSWER;
}

static enum served_step put_text(struct exchange *x, const char *text, size_t len, int64_t visibility_s, int64_t ttl_s)
{
	const char *trace = request_value(&x->request, "traceparent");

	x->job.put = (struct message_put){
		.queue = x->queue, .text = text, .text_len = len, .visibility_s = visibility_s, .ttl_s = ttl_s
	};
	if (trace && traceparent_valid(trace))
		x->job.put.traceparent = trace; /* another one is as good as none, says W3C Trace Context */
	return exchange_batch(x, BATCHER_PUT, put_done);
}

enum served_step message_ops_put(struct exchange *x)
{
	int64_t visibility_s = 0, ttl_s;
	const char *text;
	size_t len;

	if (!read_ttl(x, &ttl_s) || !exchange_number(x, "visibilitytimeout", 0, WEEK_S, &visibility_s))
		return SERVED_ANSWER;
	if (ttl_s >= 0 && visibility_s >= (ttl_s > 0 ? ttl_s : WEEK_S))
		return exchange_fault_param(x, FAULT_InvalidQueryParameterValue, "visibilitytimeout",
					    request_param(&x->request, "visibilitytimeout"),
					    "Is not below messagettl.");
	if (!read_message_text(x, &text, &len))
		return SERVED_ANSWER;
	return put_text(x, text, len, visibility_s, ttl_s);
}

/* The body may have any bytes. Their base64 is stored, so that clients of both forms can read it. */
enum served_step message_ops_put_raw(struct exchange *x)
{
	struct buf text = { 0 };
	const char *kept;
	int64_t ttl_s;

	if (!read_ttl(x, &ttl_s))
		return SERVED_ANSWER;
	if (x->request.body_len > RAW_MAX_BYTES)
		return too_large(x, RAW_MAX_BYTES);
	crypto_base64_add(&text, x->request.body, x->request.body_len);
	kept = arena_copy(&x->arena, text.len > 0 ? text.p : "", text.len);
	buf_clear(&text);
	return put_text(x, kept, strlen(kept), 0, ttl_s);
}

/* ---- get and peek ----------------------------------------------------------------------------- */

static enum served_step get_done(struct exchange *x)
{
	struct message_get *get = &x->job.get;
	enum fault fault = exchange_fault_of(get->status);

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	xml_start(&x->reply.body);
	if (get->n == 0) {
		buf_text(&x->reply.body, "<QueueMessagesList/>");
		return SERVED_ANSWER;
	}
	xml_open(&x->reply.body, "QueueMessagesList");
	for (size_t i = 0; i < get->n; i++)
		add_message(x, &get->messages[i], !get->peek, true);
	xml_close(&x->reply.body, "QueueMessagesList");
	message_get_clear(get); /* the answer may wait long to be taken */
	return SERVED_ANSWER;
}

static enum served_step get_messages(struct exchange *x, bool peek)
{
	int64_t max = 1, visibility_s = 30;

	if (!exchange_number(x, "numofmessages", 1, 32, &max) ||
	    (!peek &&
	     !exchange_number(x, "visibilitytimeout", 1, x->request.form_2008 ? HOURS_2_S : WEEK_S, &visibility_s)))
		return SERVED_ANSWER;
	x->job.get =
		(struct message_get){ .queue = x->queue, .max = (int)max, .visibility_s = visibility_s, .peek = peek };
	return exchange_batch(x, BATCHER_GET, get_done);
}

enum served_step message_ops_get(struct exchange *x)
{
	return get_messages(x, false);
}

enum served_step message_ops_peek(struct exchange *x)
{
	return get_messages(x, true);
}

/* ---- update, delete, clear -------------------------------------------------------------------- */

/* The id and the receipt of a message. If one is malformed, the database is asked for one that no message has: a
 * missing queue is reported first. */
static bool read_name(struct exchange *x, int64_t *id, int64_t *receipt)
{
	const char *text = request_param(&x->request, "popreceipt");

	if (!text) {
		exchange_fault_param(x, FAULT_MissingRequiredQueryParameter, "popreceipt", NULL, NULL);
		return false;
	}
	if (request_param_times(&x->request, "popreceipt") > 1) {
		exchange_fault_param(x, FAULT_InvalidQueryParameterValue, "popreceipt", text, "Is given twice.");
		return false;
	}
	if (!message_id_parse(x->request.id, id))
		*id = 0;
	if (!receipt_parse(text, receipt))
		*receipt = 0;
	return true;
}

static enum served_step update_done(struct exchange *x)
{
	const struct message_update *update = &x->job.update;
	enum fault fault = exchange_fault_of(update->status);
	char *receipt = arena_alloc(&x->arena, MESSAGE_RECEIPT_SIZE),
	     *visible = arena_alloc(&x->arena, TEXT_RFC1123_SIZE);

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	receipt_format(update->new_receipt, receipt);
	text_rfc1123(update->visible_us, visible);
	x->reply.status = 204;
	reply_header(&x->reply, "x-ms-popreceipt", receipt);
	reply_header(&x->reply, "x-ms-time-next-visible", visible);
	return SERVED_ANSWER;
}

enum served_step message_ops_update(struct exchange *x)
{
	struct message_update update = { .queue = x->queue };

	if (!read_name(x, &update.id, &update.receipt))
		return SERVED_ANSWER;
	if (!request_param(&x->request, "visibilitytimeout"))
		return exchange_fault_param(x, FAULT_MissingRequiredQueryParameter, "visibilitytimeout", NULL, NULL);
	if (!exchange_number(x, "visibilitytimeout", 0, WEEK_S, &update.visibility_s))
		return SERVED_ANSWER;
	/* Without a body only the lease is renewed, and the text stays. */
	if (x->request.body_len > 0 && !read_message_text(x, &update.text, &update.text_len))
		return SERVED_ANSWER;
	x->job.update = update;
	return exchange_batch(x, BATCHER_UPDATE, update_done);
}

static enum served_step delete_done(struct exchange *x)
{
	enum fault fault = exchange_fault_of(x->job.delete.status);

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	x->reply.status = 204;
	return SERVED_ANSWER;
}

enum served_step message_ops_delete(struct exchange *x)
{
	struct message_delete delete = { .queue = x->queue };

	if (!read_name(x, &delete.id, &delete.receipt))
		return SERVED_ANSWER;
	x->job.delete = delete;
	return exchange_batch(x, BATCHER_DELETE, delete_done);
}

/* In slices, so that others have their turn; for as long as a client waits for an answer. */
#define CLEAR_SLICE_MS 500
#define CLEAR_LIMIT_NS (25ull * 1000000000)

static int clear_slice(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	bool all = false;
	int rc = store_message_clear(pg, x->queue, CLEAR_SLICE_MS, &all, &x->status, err);

	if (rc < 0 || all || x->status != MESSAGE_OK)
		return rc;
	x->timed_out = clock_ns() - x->began_ns >= CLEAR_LIMIT_NS;
	return x->timed_out ? 0 : BATCHER_AGAIN;
}

static enum served_step clear_done(struct exchange *x)
{
	enum fault fault = exchange_fault_of(x->status);

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	if (x->timed_out)
		return exchange_fault(x, FAULT_OperationTimedOut);
	x->reply.status = 204;
	return SERVED_ANSWER;
}

enum served_step message_ops_clear(struct exchange *x)
{
	return exchange_call(x, BATCHER_SLOW, clear_slice, clear_done);
}
