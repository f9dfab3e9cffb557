/* SPDX-License-Identifier: MIT */
#include "store/message.h"

#include "base/clock.h"
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
static int64_t time_us(const struct pg_result *res, size_t row, int col)
{
	int64_t us = pg_int(res, row, col);

	return pg_null(res, row, col) || us > INT64_MAX - EPOCH_2000_US ? MESSAGE_NEVER : us + EPOCH_2000_US;
}

/* Column 0 of a row is the number of the item from 1. */
static size_t item_of(const struct pg_result *res, size_t row, size_t n)
{
	int64_t i = pg_int(res, row, 0) - 1;

	return i >= 0 && (size_t)i < n ? (size_t)i : n;
}

static int copy_text(char **out, size_t *len, const struct pg_result *res, size_t row, int col,
		     struct deferred_error *err)
{
	const char *text = pg_text(res, row, col, len);

	*out = malloc(*len + 1);
	if (!*out)
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	memcpy(*out, text, *len);
	(*out)[*len] = '\0';
	return 0;
}

int store_message_session(struct pg *pg, struct deferred_error *err)
{
	struct pg_result *res;
	int rc = exec(pg, &sql_message_session, NULL, &res, err);

	pg_result_free(res);
	return rc;
}

/* ---- put -------------------------------------------------------------------------------------- */

static void read_put(struct message_put *items, size_t n, const struct pg_result *res)
{
	for (size_t row = 0; row < pg_rows(res); row++) {
		size_t i = item_of(res, row, n);
		struct message *m;

		if (i == n)
			continue;
		m = &items[i].message;
		items[i].status = (enum message_status)pg_int(res, row, 1);
		m->id = pg_int(res, row, 2);
		m->receipt = pg_int(res, row, 3);
		m->inserted_us = time_us(res, row, 4);
		m->expires_us = time_us(res, row, 5);
		m->visible_us = time_us(res, row, 6);
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

static int read_message(struct message_get *item, const struct pg_result *res, size_t row, struct deferred_error *err)
{
	struct message *m;

	if (item->n == (size_t)item->max)
		return error_set(err, DEFERRED_EDB, WHERE, "more than %d messages were returned", item->max);
	if (!item->messages)
		item->messages = calloc((size_t)item->max, sizeof(*item->messages));
	if (!item->messages)
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	m = &item->messages[item->n];
	m->id = pg_int(res, row, 2);
	m->receipt = pg_int(res, row, 3);
	m->attempt = (int32_t)pg_int(res, row, 4);
	m->inserted_us = time_us(res, row, 5);
	m->expires_us = time_us(res, row, 6);
	m->visible_us = time_us(res, row, 7);
	if (copy_text(&m->text, &m->text_len, res, row, 8, err) < 0)
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
		size_t i = item_of(res, row, c->n);
		struct message_get *item;

		if (i == c->n)
			continue;
		item = &items[at[i]];
		item->status = (enum message_status)pg_int(res, row, 1);
		if (!pg_null(res, row, 2))
			rc = read_message(item, res, row, err);
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
		size_t i = item_of(res, row, n);

		if (i == n)
			continue;
		items[i].status = (enum message_status)pg_int(res, row, 1);
		items[i].new_receipt = pg_int(res, row, 2);
		items[i].visible_us = time_us(res, row, 3);
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
		size_t i = item_of(res, row, n);

		if (i < n)
			items[i].status = (enum message_status)pg_int(res, row, 1);
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
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	if (*upto < 0)
		pg_arg_null(&args);
	else
		pg_arg_int8(&args, *upto);
	pg_arg_int4(&args, CLEAR_BATCH);
	rc = exec(pg, &sql_message_clear, &args, &res, err);
	if (rc == 0) {
		*status = (enum message_status)pg_int(res, 0, 0);
		*cleared = pg_int(res, 0, 1);
		*upto = pg_int(res, 0, 2);
		*more = pg_bool(res, 0, 3);
	}
	pg_result_free(res);
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
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, *from_id);
	pg_arg_int4(&args, SWEEP_BATCH);
	rc = exec(pg, &sql_message_sweep, &args, &res, err);
	if (rc == 0) {
		*expired = pg_int(res, 0, 0);
		*from_id = pg_int(res, 0, 1);
	}
	pg_result_free(res);
	return rc;
}

/* ---- queues ----------------------------------------------------------------------------------- */

/* A statement of a queue and a JSON text whose answer is a status. */
static int queue_json(struct pg *pg, const struct sql_statement *stmt, const char *queue, const char *json,
		      enum message_status *status, struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	pg_arg_json(&args, json, json ? strlen(json) : 0);
	rc = exec(pg, stmt, &args, &res, err);
	if (rc == 0)
		*status = (enum message_status)pg_int(res, 0, 0);
	pg_result_free(res);
	return rc;
}

int store_message_queue_create(struct pg *pg, const char *queue, const char *metadata, enum message_status *status,
			       struct deferred_error *err)
{
	return queue_json(pg, &sql_message_queue_create, queue, metadata, status, err);
}

int store_message_queue_set_metadata(struct pg *pg, const char *queue, const char *metadata,
				     enum message_status *status, struct deferred_error *err)
{
	return queue_json(pg, &sql_message_queue_set_metadata, queue, metadata, status, err);
}

int store_message_queue_set_acl(struct pg *pg, const char *queue, const char *acl, enum message_status *status,
				struct deferred_error *err)
{
	return queue_json(pg, &sql_message_queue_set_acl, queue, acl, status, err);
}

int store_message_queue_rm(struct pg *pg, const char *queue, int64_t budget_ms, enum message_status *status,
			   struct deferred_error *err)
{
	enum message_status ignored;
	struct pg_result *res;
	struct pg_args args;
	int64_t upto = 0;
	bool more = false;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	pg_arg_int4(&args, CLEAR_BATCH);
	rc = exec(pg, &sql_message_queue_rm, &args, &res, err);
	if (rc == 0) {
		*status = (enum message_status)pg_int(res, 0, 0);
		upto = pg_int(res, 0, 1);
		more = pg_bool(res, 0, 2);
	}
	pg_result_free(res);
	/* The queue is gone whatever becomes of this; what it leaves the sweep clears. */
	if (rc == 0 && more)
		clear_until(pg, queue, upto, budget_ms, &more, &ignored, NULL);
	return rc;
}

/* A statement of a queue alone. */
static int queue_look(struct pg *pg, const struct sql_statement *stmt, const char *queue, struct pg_result **res,
		      struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	return exec(pg, stmt, &args, res, err);
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
	struct pg_result *res;
	size_t len;
	int rc = queue_look(pg, &sql_message_queue_get, queue, &res, err);

	*out = (struct message_queue){ NULL, NULL, 0 };
	if (rc == 0)
		*status = (enum message_status)pg_int(res, 0, 0);
	if (rc == 0 && *status == MESSAGE_OK) {
		out->messages = pg_int(res, 0, 2);
		out->name = strdup(dot ? dot + 1 : queue);
		rc = out->name ? copy_text(&out->metadata, &len, res, 0, 1, err)
			       : error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	}
	pg_result_free(res);
	if (rc < 0)
		message_queue_clear(out);
	return rc;
}

int store_message_queue_get_acl(struct pg *pg, const char *queue, char **acl, enum message_status *status,
				struct deferred_error *err)
{
	struct pg_result *res;
	size_t len;
	int rc = queue_look(pg, &sql_message_queue_acl, queue, &res, err);

	*acl = NULL;
	if (rc == 0)
		*status = (enum message_status)pg_int(res, 0, 0);
	if (rc == 0 && !pg_null(res, 0, 1))
		rc = copy_text(acl, &len, res, 0, 1, err);
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
	struct pg_args args;
	size_t len;
	int rc;

	*list = NULL;
	*n = 0;
	pg_args_init(&args);
	pg_arg_text(&args, account);
	pg_arg_text(&args, prefix);
	pg_arg_text(&args, from_name);
	pg_arg_int4(&args, max);
	rc = exec(pg, &sql_message_queues, &args, &res, err);
	if (rc == 0 && pg_rows(res) > 0) {
		*list = calloc(pg_rows(res), sizeof(**list));
		if (!*list)
			rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	}
	for (size_t row = 0; rc == 0 && row < pg_rows(res); row++) {
		rc = copy_text(&(*list)[row].name, &len, res, row, 0, err);
		if (rc == 0)
			rc = copy_text(&(*list)[row].metadata, &len, res, row, 1, err);
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
