/* SPDX-License-Identifier: MIT */
#include "front/ops.h"
#include "http/text.h"
#include "protocol/queue_metadata.h"
#include "protocol/xml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Budget of a deletion: what is left of the messages then is cleared by the sweep. */
#define DELETE_BUDGET_MS 2000

static enum served_step done_with(struct exchange *x, int status)
{
	enum fault fault = exchange_fault_of(x->status);

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	x->reply.status = status;
	return SERVED_ANSWER;
}

static enum served_step done_204(struct exchange *x)
{
	return done_with(x, 204);
}

/* ---- create, delete --------------------------------------------------------------------------- */

static int create_queue(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	return store_message_queue_create(pg, x->queue, x->text, &x->status, err);
}

static enum served_step answer_created(struct exchange *x)
{
	return done_with(x, x->status == MESSAGE_SAME ? 204 : 201);
}

enum served_step queue_ops_create(struct exchange *x)
{
	enum fault fault = queue_metadata_read(&x->request, &x->text);

	return fault != FAULT_NONE ? exchange_fault(x, fault)
				   : exchange_call(x, BATCHER_SLOW, create_queue, answer_created);
}

static int delete (struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	return store_message_queue_rm(pg, x->queue, DELETE_BUDGET_MS, &x->status, err);
}

enum served_step queue_ops_delete(struct exchange *x)
{
	return exchange_call(x, BATCHER_SLOW, delete, done_204);
}

/* ---- metadata --------------------------------------------------------------------------------- */

static int get_metadata(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	struct message_queue queue = { 0 };
	int rc = store_message_queue_get(pg, x->queue, &queue, &x->status, err);

	if (rc == 0 && x->status == MESSAGE_OK) {
		x->text = arena_copy(&x->arena, queue.metadata ? queue.metadata : "{}",
				     strlen(queue.metadata ? queue.metadata : "{}"));
		x->number = queue.messages;
	}
	message_queue_clear(&queue);
	return rc;
}

static enum served_step got_metadata(struct exchange *x)
{
	enum fault fault = exchange_fault_of(x->status);

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	reply_header(&x->reply, "x-ms-approximate-messages-count", arena_printf(&x->arena, "%" PRId64, x->number));
	queue_metadata_headers(x->text, &x->reply);
	return SERVED_ANSWER;
}

enum served_step queue_ops_get_metadata(struct exchange *x)
{
	return exchange_call(x, BATCHER_CALL, get_metadata, got_metadata);
}

static int set_metadata(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	return store_message_queue_set_metadata(pg, x->queue, x->text, &x->status, err);
}

enum served_step queue_ops_set_metadata(struct exchange *x)
{
	enum fault fault = queue_metadata_read(&x->request, &x->text);

	return fault != FAULT_NONE ? exchange_fault(x, fault) : exchange_call(x, BATCHER_SLOW, set_metadata, done_204);
}

/* ---- stored access policies ------------------------------------------------------------------- */

static void element_if_set(struct buf *body, const char *name, const char *value)
{
	if (value[0])
		xml_element(body, name, value);
}

static enum served_step got_acl(struct exchange *x)
{
	enum fault fault = exchange_fault_of(x->status);
	struct sas_policy policies[JSON_POLICIES_MAX];
	struct buf *body = &x->reply.body;
	size_t n;

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	n = json_read_policies(&x->arena, x->text, policies);
	xml_start(body);
	if (n == 0) {
		buf_text(body, "<SignedIdentifiers/>");
		return SERVED_ANSWER;
	}
	xml_open(body, "SignedIdentifiers");
	for (size_t i = 0; i < n; i++) {
		xml_open(body, "SignedIdentifier");
		xml_element(body, "Id", policies[i].id);
		if (policies[i].start[0] || policies[i].expiry[0] || policies[i].permission[0]) {
			xml_open(body, "AccessPolicy");
			element_if_set(body, "Start", policies[i].start);
			element_if_set(body, "Expiry", policies[i].expiry);
			element_if_set(body, "Permission", policies[i].permission);
			xml_close(body, "AccessPolicy");
		}
		xml_close(body, "SignedIdentifier");
	}
	xml_close(body, "SignedIdentifiers");
	return SERVED_ANSWER;
}

enum served_step queue_ops_get_acl(struct exchange *x)
{
	return exchange_call(x, BATCHER_CALL, exchange_read_acl, got_acl);
}

static bool is_time(const char *text)
{
	int64_t s;

	return !text[0] || text_iso8601_parse(text, &s);
}

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

/* Returns how many there are, or -1. */
static int read_policies(const struct request *r, struct sas_policy policies[JSON_POLICIES_MAX])
{
	const struct xml_node *root = xml_parse(r->arena, r->body, r->body_len);
	int n = 0;

	if (!root || strcmp(root->name, "SignedIdentifiers") != 0)
		return -1;
	for (const struct xml_node *node = root->first; node; node = node->next) {
		const struct xml_node *policy = xml_child(node, "AccessPolicy");
		struct sas_policy p = { or_empty(xml_child_text(node, "Id")), or_empty(xml_child_text(policy, "Start")),
					or_empty(xml_child_text(policy, "Expiry")),
					or_empty(xml_child_text(policy, "Permission")) };

		if (strcmp(node->name, "SignedIdentifier") != 0 || n == JSON_POLICIES_MAX || !p.id[0] ||
		    strlen(p.id) > 64 || !is_time(p.start) || !is_time(p.expiry) ||
		    p.permission[strspn(p.permission, "raup")])
			return -1;
		for (int i = 0; i < n; i++)
			if (strcmp(policies[i].id, p.id) == 0)
				return -1;
		policies[n++] = p;
	}
	return n;
}

static int set_acl(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	return store_message_queue_set_acl(pg, x->queue, x->text, &x->status, err);
}

enum served_step queue_ops_set_acl(struct exchange *x)
{
	struct sas_policy policies[JSON_POLICIES_MAX];
	int n = x->request.body_len > 0 ? read_policies(&x->request, policies) : 0;
	char *text;

	if (n < 0)
		return exchange_fault(x, FAULT_InvalidXmlDocument);
	x->text = NULL;
	if (n > 0) {
		text = json_write_policies(policies, (size_t)n);
		if (!text)
			return exchange_fault(x, FAULT_ServerBusy);
		x->text = arena_copy(&x->arena, text, strlen(text));
		free(text);
	}
	return exchange_call(x, BATCHER_SLOW, set_acl, done_204);
}
