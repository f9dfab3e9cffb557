/* SPDX-License-Identifier: MIT */
#include "store/message.h"

#include "base/clock.h"
#include "rows/message.h"
#include "store/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WHERE "message"
#define EPOCH_2000_US 946684800000000ll /* the server counts from 2000 */
#define NEVER_TTL_S 250000000000ll      /* beyond what the server can add to its clock: 7,900 years */

/* Send a statement; the arguments are cleared, *res is NULL on failure. */
static int exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct pg_result **res,
		struct deferred_error *err)
{
	int rc = pg_exec(pg, stmt, args, PG_BINARY, res, err);

	if (args)
		pg_args_clear(args);
	return rc;
}

/* A binary timestamptz; NULL and infinity are never. */
static int64_t time_us(bool known, int64_t us)
{
	return !known || us > INT64_MAX - EPOCH_2000_US ? MESSAGE_NEVER : us + EPOCH_2000_US;
}

/* item: its number from 1. Returns n where there is no such item. */
static size_t item_of(int32_t item, size_t n)
{
	return item >= 1 && (size_t)item <= n ? (size_t)item - 1 : n;
}

static int copy_text(char **out, const char *text, struct deferred_error *err)
{
	*out = strdup(text);
	return *out ? 0 : error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
}

int store_message_session(struct pg *pg, struct deferred_error *err)
{
	return message_session_exec(pg, err);
}

/* ---- put -------------------------------------------------------------------------------------- */

static void read_put(struct message_put *items, size_t n, const struct pg_result *res)
{
	for (size_t row = 0; row < pg_rows(res); row++) {
		struct message_put_row r = message_put_row(res, row);
		size_t i = item_of(r.item, n);
		struct message *m;

		if (i == n)
			continue;
		m = &items[i].message;
		items[i].status = (enum message_status)r.status;
		m->id = r.id;
		m->receipt = r.receipt;
		m->inserted_us = time_us(r.has_inserted_at, r.inserted_at);
		m->expires_us = time_us(r.has_expires_at, r.expires_at);
		m->visible_us = time_us(r.has_visible_at, r.visible_at);
	}
}

int store_message_put(struct pg *pg, struct message_put *items, size_t n, struct deferred_error *err)
{
	struct pg_result *res;
	struct columns c;
	struct pg_args args;
	int rc = n == 0 ? 0 : columns_init(&c, n, WHERE, err);

	if (rc < 0 || n == 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		memset(&items[i].message, 0, sizeof(items[i].message));
	pg_args_init(&args);
	COLUMN_TEXT(&args, &c, items[i].queue);
	COLUMN_TEXT_OR_NULL(&args, &c, items[i].text, items[i].text_len);
	COLUMN_INT8(&args, &c, items[i].visibility_s);
	COLUMN_INT8(&args, &c, items[i].ttl_s > NEVER_TTL_S ? -1 : items[i].ttl_s);
	COLUMN_TEXT_OR_NULL(&args, &c, items[i].traceparent, strlen(c.text[i]));
	columns_clear(&c);
	rc = exec(pg, &sql_message_put, &args, &res, err);
	if (rc == 0)
		read_put(items, n, res);
	pg_result_free(res);
	return rc;
}

/* ---- get and peek ----------------------------------------------------------------------------- */

void message_get_clear(struct message_get *item)
{
	for (size_t i = 0; i < item->n; i++)
		free(item->messages[i].text);
	free(item->messages);
	item->messages = NULL;
	item->n = 0;
}

static int read_message(struct message_get *item, const struct message_get_row *r, struct deferred_error *err)
{
	struct message *m;

	if (item->n == (size_t)item->max)
		return error_set(err, DEFERRED_EDB, WHERE, "more than %d messages were returned\nrun: deferred migrate",
				 item->max);
	if (!item->messages)
		item->messages = calloc((size_t)item->max, sizeof(*item->messages));
	if (!item->messages)
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	m = &item->messages[item->n];
	m->id = r->id;
	m->receipt = r->receipt;
	m->attempt = r->attempt;
	m->inserted_us = time_us(r->has_inserted_at, r->inserted_at);
	m->expires_us = time_us(r->has_expires_at, r->expires_at);
	m->visible_us = time_us(r->has_visible_at, r->visible_at);
	m->text_len = strlen(r->text);
	if (copy_text(&m->text, r->text, err) < 0)
		return DEFERRED_ENOMEM;
	item->n++;
	return 0;
}

/* Only those items of the batch that are of this kind: at[] are their numbers. */
static int get_some(struct pg *pg, struct message_get *items, size_t n, bool peek, struct columns *c, size_t *at,
		    struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	c->n = 0;
	for (size_t i = 0; i < n; i++)
		if (items[i].peek == peek)
			at[c->n++] = i;
	if (c->n == 0)
		return 0;
	pg_args_init(&args);
	COLUMN_TEXT(&args, c, items[at[i]].queue);
	COLUMN_INT4(&args, c, items[at[i]].max);
	if (!peek)
		COLUMN_INT8(&args, c, items[at[i]].visibility_s * 1000);
	rc = exec(pg, peek ? &sql_message_peek : &sql_message_get, &args, &res, err);
	for (size_t row = 0; rc == 0 && row < pg_rows(res); row++) {
		struct message_get_row r = message_get_row(res, row);
		size_t i = item_of(r.item, c->n);
		struct message_get *item;

		if (i == c->n)
			continue;
		item = &items[at[i]];
		item->status = (enum message_status)r.status;
		if (r.has_id)
			rc = read_message(item, &r, err);
	}
	pg_result_free(res);
	return rc;
}

int store_message_get(struct pg *pg, struct message_get *items, size_t n, struct deferred_error *err)
{
	struct columns c;
	size_t *at;
	int rc = n == 0 ? 0 : columns_init(&c, n, WHERE, err);

	if (rc < 0 || n == 0)
		return rc;
	for (size_t i = 0; i < n; i++) {
		items[i].messages = NULL;
		items[i].n = 0;
	}
	at = calloc(n, sizeof(*at));
	if (!at)
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	if (rc == 0)
		rc = get_some(pg, items, n, false, &c, at, err);
	if (rc == 0)
		rc = get_some(pg, items, n, true, &c, at, err);
	free(at);
	columns_clear(&c);
	return rc;
}

/* ---- with a receipt --------------------------------------------------------------------------- */

int store_message_update(struct pg *pg, struct message_update *items, size_t n, struct deferred_error *err)
{
	struct pg_result *res;
	struct columns c;
	struct pg_args args;
	int rc = n == 0 ? 0 : columns_init(&c, n, WHERE, err);

	if (rc < 0 || n == 0)
		return rc;
	pg_args_init(&args);
	COLUMN_TEXT(&args, &c, items[i].queue);
	COLUMN_INT8(&args, &c, items[i].id);
	COLUMN_INT8(&args, &c, items[i].receipt);
	COLUMN_INT8(&args, &c, items[i].visibility_s);
	COLUMN_TEXT_OR_NULL(&args, &c, items[i].text, items[i].text_len);
	columns_clear(&c);
	rc = exec(pg, &sql_message_update, &args, &res, err);
	for (size_t row = 0; rc == 0 && row < pg_rows(res); row++) {
		struct message_update_row r = message_update_row(res, row);
		size_t i = item_of(r.item, n);

		if (i == n)
			continue;
		items[i].status = (enum message_status)r.status;
		items[i].new_receipt = r.receipt;
		items[i].visible_us = time_us(r.has_visible_at, r.visible_at);
	}
	pg_result_free(res);
	return rc;
}

int store_message_delete(struct pg *pg, struct message_delete *items, size_t n, struct deferred_error *err)
{
	struct pg_result *res;
	struct columns c;
	struct pg_args args;
	int rc = n == 0 ? 0 : columns_init(&c, n, WHERE, err);

	if (rc < 0 || n == 0)
		return rc;
	pg_args_init(&args);
	COLUMN_TEXT(&args, &c, items[i].queue);
	COLUMN_INT8(&args, &c, items[i].id);
	COLUMN_INT8(&args, &c, items[i].receipt);
	columns_clear(&c);
	rc = exec(pg, &sql_message_delete, &args, &res, err);
	for (size_t row = 0; rc == 0 && row < pg_rows(res); row++) {
		struct message_delete_row r = message_delete_row(res, row);
		size_t i = item_of(r.item, n);

		if (i < n)
			items[i].status = (enum message_status)r.status;
	}
	pg_result_free(res);
	return rc;
}

/* ---- clearing and sweeping -------------------------------------------------------------------- */

#define CLEAR_BATCH 5000
#define SWEEP_BATCH 20000
#define LOCKED_WAIT_MS 5

static void nap(int ms)
{
	nanosleep(&(struct timespec){ 0, ms * (long)NS_PER_MS }, NULL);
}

/* One step from *upto on; below 0 it is not known yet. */
static int clear_step(struct pg *pg, const char *queue, int64_t *upto, int64_t *cleared, bool *more,
		      enum message_status *status, struct deferred_error *err)
{
	struct message_clear_row r;
	int rc = message_clear_one(pg, queue, *upto < 0 ? NULL : upto, CLEAR_BATCH, &r, err);

	if (rc == 0) {
		*status = (enum message_status)r.status;
		*cleared = r.cleared;
		*upto = r.upto;
		*more = r.more;
	}
	return rc;
}

static int clear_until(struct pg *pg, const char *queue, int64_t upto, int64_t budget_ms, bool *all,
		       enum message_status *status, struct deferred_error *err)
{
	uint64_t end = clock_ns() + (uint64_t)budget_ms * NS_PER_MS;
	int64_t cleared = 0;
	bool more = true;
	int rc = 0;

	do {
		rc = clear_step(pg, queue, &upto, &cleared, &more, status, err);
		if (rc == 0 && more && cleared == 0)
			nap(LOCKED_WAIT_MS); /* what is left is in the hands of others for a moment */
	} while (rc == 0 && more && clock_ns() < end);
	*all = !more;
	return rc;
}

int store_message_clear(struct pg *pg, const char *queue, int64_t budget_ms, bool *all, enum message_status *status,
			struct deferred_error *err)
{
	return clear_until(pg, queue, -1, budget_ms, all, status, err);
}

int store_message_sweep(struct pg *pg, int64_t *from_id, int64_t *expired, struct deferred_error *err)
{
	struct message_sweep_row r;
	int rc = message_sweep_one(pg, *from_id, SWEEP_BATCH, &r, err);

	if (rc == 0) {
		*expired = r.expired;
		*from_id = r.next_id;
	}
	return rc;
}

/* ---- queues ----------------------------------------------------------------------------------- */

int store_message_queue_create(struct pg *pg, const char *queue, const char *metadata, enum message_status *status,
			       struct deferred_error *err)
{
	struct message_queue_create_row r;
	int rc = message_queue_create_one(pg, queue, metadata, &r, err);

	if (rc == 0)
		*status = (enum message_status)r.status;
	return rc;
}

int store_message_queue_set_metadata(struct pg *pg, const char *queue, const char *metadata,
				     enum message_status *status, struct deferred_error *err)
{
	struct message_queue_set_metadata_row r;
	int rc = message_queue_set_metadata_one(pg, queue, metadata, &r, err);

	if (rc == 0)
		*status = (enum message_status)r.status;
	return rc;
}

int store_message_queue_set_acl(struct pg *pg, const char *queue, const char *acl, enum message_status *status,
				struct deferred_error *err)
{
	struct message_queue_set_acl_row r;
	int rc = message_queue_set_acl_one(pg, queue, acl, &r, err);

	if (rc == 0)
		*status = (enum message_status)r.status;
	return rc;
}

int store_message_queue_rm(struct pg *pg, const char *queue, int64_t budget_ms, enum message_status *status,
			   struct deferred_error *err)
{
	enum message_status ignored;
	struct message_queue_rm_row r;
	int rc = message_queue_rm_one(pg, queue, CLEAR_BATCH, &r, err);

	if (rc < 0)
		return rc;
	*status = (enum message_status)r.status;
	/* The queue is gone whatever becomes of this; what it leaves the sweep clears. */
	if (r.more)
		clear_until(pg, queue, r.upto, budget_ms, &r.more, &ignored, NULL);
	return 0;
}

void message_queue_clear(struct message_queue *queue)
{
	free(queue->name);
	free(queue->metadata);
	queue->name = queue->metadata = NULL;
}

int store_message_queue_get(struct pg *pg, const char *queue, struct message_queue *out, enum message_status *status,
			    struct deferred_error *err)
{
	const char *dot = strchr(queue, '.');
	struct message_queue_get_row r;
	struct pg_result *res;
	int rc = message_queue_get_exec(pg, queue, &res, err);

	*out = (struct message_queue){ NULL, NULL, 0 };
	if (rc == 0) {
		r = message_queue_get_row(res, 0);
		*status = (enum message_status)r.status;
		if (*status == MESSAGE_OK) {
			out->messages = r.messages;
			rc = copy_text(&out->name, dot ? dot + 1 : queue, err);
			if (rc == 0)
				rc = copy_text(&out->metadata, r.metadata, err);
		}
	}
	pg_result_free(res);
	if (rc < 0)
		message_queue_clear(out);
	return rc;
}

int store_message_queue_get_acl(struct pg *pg, const char *queue, char **acl, enum message_status *status,
				struct deferred_error *err)
{
	struct message_queue_acl_row r;
	struct pg_result *res;
	int rc = message_queue_acl_exec(pg, queue, &res, err);

	*acl = NULL;
	if (rc == 0) {
		r = message_queue_acl_row(res, 0);
		*status = (enum message_status)r.status;
		if (r.acl)
			rc = copy_text(acl, r.acl, err);
	}
	pg_result_free(res);
	return rc;
}

void message_queues_free(struct message_queue *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		message_queue_clear(&list[i]);
	free(list);
}

int store_message_queues(struct pg *pg, const char *account, const char *prefix, const char *from_name, int max,
			 struct message_queue **list, size_t *n, struct deferred_error *err)
{
	struct pg_result *res;
	int rc = message_queues_exec(pg, account, prefix, from_name, max, &res, err);

	*list = NULL;
	*n = 0;
	if (rc == 0 && pg_rows(res) > 0) {
		*list = calloc(pg_rows(res), sizeof(**list));
		if (!*list)
			rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	}
	for (size_t row = 0; rc == 0 && row < pg_rows(res); row++) {
		struct message_queues_row r = message_queues_row(res, row);

		rc = copy_text(&(*list)[row].name, r.name, err);
		if (rc == 0)
			rc = copy_text(&(*list)[row].metadata, r.metadata, err);
		*n = row + 1;
	}
	pg_result_free(res);
	if (rc < 0) {
		message_queues_free(*list, *n);
		*list = NULL;
		*n = 0;
	}
	return rc;
}
