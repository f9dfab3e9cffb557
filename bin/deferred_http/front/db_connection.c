/* SPDX-License-Identifier: MIT */
#include "front/db_connection.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/message.h"
#include "store/migrate.h"

static const struct deferred_backoff reconnect = { 50, 2000, 2, 0, 0 };

/* Counts the connections of the process. When one thread has reached the server, the others try at once. */
static atomic_uint made;

void db_connection_init(struct db_connection *db, const char *conninfo, const char *name)
{
	*db = (struct db_connection){ .conninfo = conninfo, .name = name, .backoff = reconnect };
	atomic_init(&db->ready, false);
}

static void set_away(struct db_connection *db, const struct deferred_error *why)
{
	static const struct deferred_error lost = { .message = "connection lost" };

	atomic_store(&db->ready, false);
	db->retry_ns = clock_ns() + (uint64_t)deferred_backoff_empty(&db->backoff) * NS_PER_MS;
	if (!db->told)
		log_error(LOG_L_ERROR, why && why->message[0] ? why : &lost, "%s", db->name);
	db->told = true;
}

struct pg *db_connection_get(struct db_connection *db, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc;

	/* The server may have closed it while it was idle. */
	if (db->pg && !pg_alive(db->pg))
		db_connection_drop(db, NULL);
	if (db->pg)
		return db->pg;
	if (clock_ns() < db->retry_ns && db->seen == atomic_load(&made))
		return NULL;
	db->seen = atomic_load(&made); /* before the try, so that a connection made during it counts */
	rc = pg_open(&db->pg, db->conninfo, "deferred_http", &why);
	if (rc == 0)
		pg_on_notice(db->pg, NULL, NULL); /* or libpq would print them */
	if (rc == 0)
		rc = pg_pin(db->pg, &why);
	if (rc == 0)
		rc = migrate_check(db->pg, &why);
	if (rc == 0)
		rc = store_message_session(db->pg, &why);
	if (rc < 0) {
		pg_close(db->pg);
		db->pg = NULL;
		set_away(db, &why);
		if (err)
			*err = why;
		return NULL;
	}
	if (db->told)
		log_line(LOG_L_INFO, "%s: connected again", db->name);
	atomic_fetch_add(&made, 1);
	db->told = false;
	db->backoff = reconnect;
	db->retry_ns = 0;
	atomic_store(&db->ready, true);
	return db->pg;
}

void db_connection_idle(struct db_connection *db)
{
	db_connection_get(db, NULL);
}

void db_connection_drop(struct db_connection *db, const struct deferred_error *why)
{
	if (!db->pg)
		return;
	pg_close(db->pg);
	db->pg = NULL;
	set_away(db, why);
	db->retry_ns = 0; /* at once: most servers that close a connection accept a new one */
}

void db_connection_close(struct db_connection *db)
{
	pg_close(db->pg);
	db->pg = NULL;
	atomic_store(&db->ready, false);
}

bool db_connection_ready(struct db_connection *db)
{
	return atomic_load(&db->ready);
}
