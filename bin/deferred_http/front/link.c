/* SPDX-License-Identifier: MIT */
#include "front/link.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/migrate.h"
#include "store/message.h"

static const struct deferred_backoff reconnect = { 50, 2000, 2, 0, 0 };

/* Counts the connections that the process has made. Where one link has reached the server the others try at once. */
static atomic_uint made;

void link_init(struct link *link, const char *conninfo, const char *name)
{
	*link = (struct link){ .conninfo = conninfo, .name = name, .backoff = reconnect };
	atomic_init(&link->ready, false);
}

static void away(struct link *link, const struct deferred_error *why)
{
	atomic_store(&link->ready, false);
	link->retry_ns = clock_ns() + (uint64_t)deferred_backoff_empty(&link->backoff) * NS_PER_MS;
	if (!link->told)
		log_line(LOG_L_ERROR, "%s: %s%s%s", link->name,
			 why && why->message[0] ? why->message : "connection lost", why && why->hint[0] ? ": " : "",
			 why ? why->hint : "");
	link->told = true;
}

struct pg *link_get(struct link *link, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc;

	/* What closed while it was idle is seen here, before a statement is sent into it. */
	if (link->pg && !pg_alive(link->pg))
		link_drop(link, NULL);
	if (link->pg)
		return link->pg;
	if (clock_ns() < link->retry_ns && link->seen == atomic_load(&made))
		return NULL;
	link->seen = atomic_load(&made); /* before the try, so that one made meanwhile counts */
	rc = pg_open(&link->pg, link->conninfo, "deferred_http", &why);
	if (rc == 0)
		pg_on_notice(link->pg, NULL, NULL); /* or libpq would print them */
	if (rc == 0)
		rc = pg_pin(link->pg, &why);
	if (rc == 0)
		rc = migrate_check(link->pg, &why);
	if (rc == 0)
		rc = store_message_session(link->pg, &why);
	if (rc < 0) {
		pg_close(link->pg);
		link->pg = NULL;
		away(link, &why);
		if (err)
			*err = why;
		return NULL;
	}
	if (link->told)
		log_line(LOG_L_INFO, "%s: connected again", link->name);
	atomic_fetch_add(&made, 1);
	link->told = false;
	link->backoff = reconnect;
	link->retry_ns = 0;
	atomic_store(&link->ready, true);
	return link->pg;
}

void link_idle(struct link *link)
{
	link_get(link, NULL);
}

void link_drop(struct link *link, const struct deferred_error *why)
{
	if (!link->pg)
		return;
	pg_close(link->pg);
	link->pg = NULL;
	away(link, why);
	link->retry_ns = 0; /* the first try is at once: most servers that close a connection take a new one */
}

void link_close(struct link *link)
{
	pg_close(link->pg);
	link->pg = NULL;
	atomic_store(&link->ready, false);
}

bool link_ready(struct link *link)
{
	return atomic_load(&link->ready);
}
