/* SPDX-License-Identifier: MIT */
#include "store/spool/spool_drain.h"

#include "port/params.h"
#include "rows/job.h"
#include "store/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1000
#define BATCH_BYTES ((size_t)8 << 20) /* the last entry may exceed it */
#define ANSWER_MS 120000

struct batch {
	size_t n, bytes;
	const char *ids[BATCH]; /* borrowed from the list */
	const char *jobs[BATCH];
	char *texts[BATCH];
};

struct drain {
	struct spool spool;
	struct pg *pg;
	char *place;
	bool elsewhere;
	struct spool_drained *done;
	struct batch batch;
};

static void keep_entry(struct drain *d, const char *id, const char *why)
{
	if (d->done->kept++ == 0)
		snprintf(d->done->why, sizeof(d->done->why), "entry %s: %.200s", id, why);
}

/* An entry that cannot be moved stays, and does not keep the others from being stored. */
static void refuse_entry(struct drain *d, const char *id, const char *reason)
{
	struct deferred_error err = { 0 };

	if (spool_refuse(&d->spool, id, reason, &err) < 0)
		keep_entry(d, id, err.message);
	else
		d->done->refused++;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static bool meant_here(struct drain *d, const char *database)
{
	if (d->elsewhere || strcmp(database, d->place) == 0)
		return true;
	if (d->done->elsewhere++ == 0)
		snprintf(d->done->where, sizeof(d->done->where), "%s", database);
	return false;
}

static void read_entry(struct drain *d, const char *id)
{
	const char *database, *job, *why = "";
	struct deferred_error wrong = { 0 };
	struct batch *b = &d->batch;
	char *text;

	switch (spool_read(&d->spool, id, &text, &database, &job, &why)) {
	case SPOOL_READ:
		if (!meant_here(d, database))
			break;
		if (params_check(job, strlen(job), &wrong) == 0) {
			b->ids[b->n] = id;
			b->jobs[b->n] = job;
			b->texts[b->n++] = text;
			b->bytes += strlen(job);
			return;
		}
		if (wrong.code == DEFERRED_ENOMEM)
			keep_entry(d, id, wrong.message);
		else
			refuse_entry(d, id, wrong.message);
		break;
	case SPOOL_WRONG:
		refuse_entry(d, id, why);
		break;
	case SPOOL_FAILED:
		keep_entry(d, id, why);
		break;
	case SPOOL_GONE:
		break;
	}
	free(text);
}

/* ---- storing ---------------------------------------------------------------------------------- */

/* The same entry may be stored later. */
static bool passes(const char *sqlstate)
{
	return strcmp(sqlstate, "53400") == 0 || strcmp(sqlstate, "55006") == 0 ||
	       error_class(sqlstate) != ERROR_PERMANENT;
}

static void not_stored(struct drain *d, const char *id, const struct spool_store_row *r)
{
	char reason[1024];

	snprintf(reason, sizeof(reason), "%.600s (SQLSTATE %.5s)%s%.300s", r->message, r->state,
		 *r->hint ? "\nhint: " : "", r->hint);
	if (passes(r->state))
		keep_entry(d, id, r->message);
	else
		refuse_entry(d, id, reason);
}

/* The transaction is committed. Rows are in the order of the entries. */
static void settle_batch(struct drain *d, const struct pg_result *res)
{
	const struct batch *b = &d->batch;
	struct deferred_error err = { 0 };
	size_t row = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct spool_store_row r = { 0 };

		if (row < pg_rows(res))
			r = spool_store_row(res, row);
		if (r.n == (int32_t)i + 1) {
			not_stored(d, b->ids[i], &r);
			row++;
		} else if (spool_remove(&d->spool, b->ids[i], &err) < 0) {
			keep_entry(d, b->ids[i], err.message);
		} else {
			d->done->stored++;
		}
	}
	spool_sync(&d->spool);
}

static int store_batch(struct drain *d, struct deferred_error *err)
{
	struct batch *b = &d->batch;
	struct pg_result *res = NULL;
	int rc = 0;

	if (b->n > 0)
		rc = spool_store_exec(d->pg, b->ids, b->n, b->jobs, b->n, &res, err);
	if (rc == 0 && b->n > 0)
		settle_batch(d, res);
	pg_result_free(res);
	for (size_t i = 0; i < b->n; i++)
		free(b->texts[i]);
	b->n = b->bytes = 0;
	return rc;
}

static int drain_list(struct drain *d, const struct spool_list *l, size_t most, struct deferred_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < l->n && rc == 0 && (most == 0 || i < most); i++) {
		read_entry(d, l->ids[i]);
		if (d->batch.n == BATCH || d->batch.bytes >= BATCH_BYTES)
			rc = store_batch(d, err);
	}
	return rc < 0 ? rc : store_batch(d, err);
}

static int connect_drain(struct drain *d, const char *conninfo, struct deferred_error *err)
{
	int rc = pg_place(conninfo, &d->place, err);

	if (rc == 0)
		rc = pg_open(&d->pg, conninfo, "deferred spool", err);
	if (rc < 0)
		return rc;
	pg_set_limits(d->pg, ANSWER_MS, 0);
	rc = pg_pin(d->pg, err);
	if (rc == 0)
		rc = migrate_check(d->pg, err);
	return rc;
}

int spool_drain(const char *path, const char *conninfo, size_t most, bool elsewhere, struct spool_drained *done,
		struct deferred_error *err)
{
	struct drain *d = calloc(1, sizeof(*d));
	struct spool_list l = { 0 };
	int rc;

	*done = (struct spool_drained){ 0 };
	if (!d)
		return error_set(err, DEFERRED_ENOMEM, "spool", "out of memory");
	d->elsewhere = elsewhere;
	d->done = done;
	rc = spool_open(&d->spool, path, err);
	if (rc == 0) {
		spool_sweep(&d->spool);
		rc = spool_list(&d->spool, false, &l, err);
	}
	done->strange = l.strange;
	if (rc == 0 && l.n > 0)
		rc = connect_drain(d, conninfo, err);
	if (rc == 0 && l.n > 0)
		rc = drain_list(d, &l, most, err);
	spool_list_free(&l);
	spool_close(&d->spool);
	pg_close(d->pg);
	free(d->place);
	free(d);
	return rc;
}
