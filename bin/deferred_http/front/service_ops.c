/* SPDX-License-Identifier: MIT */
#include "front/ops.h"
#include "http/text.h"
#include "protocol/address.h"
#include "protocol/queue_metadata.h"
#include "protocol/service_xml.h"
#include "protocol/xml.h"
#include "store/account.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 5000
#define LIST_MAX_BYTES (4 * 1024 * 1024) /* a page ends there, whatever was asked for */

/* ---- queues of the account -------------------------------------------------------------------- */

static int list_queues(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	const char *marker = request_param(&x->request, "marker"), *prefix = request_param(&x->request, "prefix");
	/* One more than asked for: it is the first of the next page. */
	int rc = store_message_queues(
		pg, x->request.account, prefix && *prefix ? prefix : NULL, marker && *marker ? marker : NULL,
		(int)(x->number < LIST_MAX ? x->number : LIST_MAX) + 1, &x->list, &x->list_len, err);
	size_t bytes = 0;

	for (size_t i = 0; rc == 0 && i < x->list_len; i++)
		bytes += strlen(x->list[i].name) + (x->list[i].metadata ? strlen(x->list[i].metadata) : 0);
	x->status = budget_hold(&x->hold, BUDGET_ANSWERS, bytes) ? MESSAGE_OK : MESSAGE_QUEUE_FULL;
	return rc;
}

/* The answer may wait long to be taken. */
static void forget_list(struct exchange *x)
{
	message_queues_free(x->list, x->list_len);
	x->list = NULL;
	x->list_len = 0;
}

static void add_endpoint(struct exchange *x)
{
	struct buf *body = &x->reply.body;
	const struct request *r = &x->request;
	struct buf url = { 0 };

	buf_printf(&url, "%s://%s/%s%s", r->tls ? "https" : "http", r->authority, r->path_style ? r->account : "",
		   r->path_style && r->secondary ? "-secondary" : "");
	buf_text(body, "<EnumerationResults ServiceEndpoint=\"");
	/* A Host header can hold a quotation mark. */
	for (const char *p = url.p; *p; p++) {
		if (*p == '"')
			buf_text(body, "&quot;");
		else if (*p >= ' ')
			xml_text(body, p, 1);
	}
	buf_text(body, "\">");
	buf_clear(&url);
}

static enum served_step answer_list(struct exchange *x)
{
	const char *marker = request_param(&x->request, "marker"), *prefix = request_param(&x->request, "prefix");
	const char *include = request_param(&x->request, "include");
	size_t max = x->number < LIST_MAX ? (size_t)x->number : LIST_MAX, n = 0;
	struct buf *body = &x->reply.body;

	if (x->status != MESSAGE_OK) {
		forget_list(x);
		return exchange_fault(x, FAULT_ServerBusy);
	}
	xml_start(body);
	add_endpoint(x);
	xml_element(body, "Prefix", prefix ? prefix : "");
	if (marker && *marker)
		xml_element(body, "Marker", marker);
	buf_printf(body, "<MaxResults>%" PRId64 "</MaxResults>", x->number);
	if (x->list_len == 0)
		buf_text(body, "<Queues/>");
	else
		xml_open(body, "Queues");
	for (; n < x->list_len && n < max && body->len < LIST_MAX_BYTES; n++) {
		xml_open(body, "Queue");
		xml_element(body, "Name", x->list[n].name);
		if (include && *include) {
			struct buf metadata = { 0 };

			queue_metadata_xml(&x->arena, x->list[n].metadata, &metadata);
			buf_text(body, metadata.len > 0 ? "<Metadata>" : "<Metadata/>");
			if (metadata.len > 0) {
				buf_add(body, metadata.p, metadata.len);
				xml_close(body, "Metadata");
			}
			buf_clear(&metadata);
		}
		xml_close(body, "Queue");
	}
	if (x->list_len > 0)
		xml_close(body, "Queues");
	xml_element(body, "NextMarker", n < x->list_len ? x->list[n].name : "");
	xml_close(body, "EnumerationResults");
	forget_list(x);
	return SERVED_ANSWER;
}

/* Only "metadata" is known; it may be written more than once. */
static bool includes_are_known(const char *list)
{
	while (list && *list) {
		size_t len = strcspn(list, ",");

		if (len != 8 || strncmp(list, "metadata", 8) != 0)
			return false;
		list += len + (list[len] == ',');
	}
	return true;
}

enum served_step service_ops_list_queues(struct exchange *x)
{
	const char *marker = request_param(&x->request, "marker"), *include = request_param(&x->request, "include");
	static const char *const once[] = { "marker", "prefix", "include" };

	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
		if (request_param_times(&x->request, once[i]) > 1)
			return exchange_fault_param(x, FAULT_InvalidQueryParameterValue, once[i],
						    request_param(&x->request, once[i]), "Is given twice.");
	x->number = LIST_MAX;
	if (!exchange_number(x, "maxresults", 1, INT_MAX, &x->number))
		return SERVED_ANSWER;
	if (marker && *marker && address_check_queue(marker) != FAULT_NONE)
		return exchange_fault(x, FAULT_InvalidMarker);
	if (!includes_are_known(include))
		return exchange_fault_param(x, FAULT_InvalidQueryParameterValue, "include", include, NULL);
	return exchange_call(x, BATCHER_SLOW, list_queues, answer_list);
}

/* ---- service properties ----------------------------------------------------------------------- */

enum served_step service_ops_get_properties(struct exchange *x)
{
	service_xml_write(&x->account->properties, &x->reply.body);
	return SERVED_ANSWER;
}

static int set_properties(struct exchange *x, struct pg *pg, struct deferred_error *err)
{
	int rc = store_account_set_properties(pg, x->request.account, x->text, err);

	x->status = rc == DEFERRED_ENOTFOUND ? MESSAGE_FORBIDDEN : MESSAGE_OK;
	return rc == DEFERRED_ENOTFOUND ? 0 : rc;
}

static enum served_step properties_read(struct exchange *x)
{
	x->reply.status = 202;
	return SERVED_ANSWER;
}

/* Later requests are answered by the new properties. */
static enum served_step properties_set(struct exchange *x)
{
	return x->status == MESSAGE_OK ? exchange_refresh(x, properties_read)
				       : exchange_fault(x, FAULT_AuthenticationFailed);
}

enum served_step service_ops_set_properties(struct exchange *x)
{
	struct service_properties properties = x->account->properties;
	enum fault fault = service_xml_read(&x->arena, x->request.body, x->request.body_len, &properties);
	char *text;

	if (fault != FAULT_NONE)
		return exchange_fault(x, fault);
	text = json_write_properties(&properties);
	if (!text)
		return exchange_fault(x, FAULT_ServerBusy);
	x->text = arena_copy(&x->arena, text, strlen(text));
	free(text);
	return exchange_call(x, BATCHER_SLOW, set_properties, properties_set);
}

/* ---- the rest --------------------------------------------------------------------------------- */

enum served_step service_ops_get_stats(struct exchange *x)
{
	char now[TEXT_RFC1123_SIZE];

	if (!x->request.secondary)
		return exchange_fault_param(x, FAULT_InvalidQueryParameterValue, "comp", "stats", NULL);
	text_rfc1123(x->began_us, now);
	xml_start(&x->reply.body);
	buf_printf(&x->reply.body,
		   "<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>%s</LastSyncTime></"
		   "GeoReplication></StorageServiceStats>",
		   now);
	return SERVED_ANSWER;
}

/* For bearer tokens only, which nobody here gives out. */
enum served_step service_ops_delegation_key(struct exchange *x)
{
	return exchange_fault(x, FAULT_AuthenticationFailed);
}
