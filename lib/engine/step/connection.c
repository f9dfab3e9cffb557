/* SPDX-License-Identifier: MIT */
#include "engine/step/connection.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

#define PROGRAM "check_deferred"
#define MINUTE_NS (60 * NS_PER_S)
#define CHANGED_NS (3 * NS_PER_S / 2) /* a restart is mostly over after this time without a connection */

/* A restart takes a moment, and runners stand idle meanwhile: soon at first, then once a second. */
static const struct deferred_backoff backoff = { 50, 1000, 2, 0, 0 };

/* Logs at once, and then once a minute. In between it logs once if the reason is another one by now: for example the
 * server has no room, or wants a password. */
static void log_lost(struct connection *c, const struct deferred_error *err, uint64_t retry_ns)
{
	static const char prefix[] = "connection lost: ";
	const char *why = strncmp(err->message, prefix, sizeof(prefix) - 1) == 0 ? err->message + sizeof(prefix) - 1
										 : err->message;
	bool minute = c->lost_ns && (c->retry_ns - c->lost_ns) / MINUTE_NS != (retry_ns - c->lost_ns) / MINUTE_NS;
	bool changed = c->lost_ns && !c->logged && retry_ns - c->lost_ns >= CHANGED_NS &&
		       strcmp(err->message, c->lost.message) != 0;

	if (!c->lost_ns)
		log_line(LOG_L_WARNING, "%s%s; trying again", prefix, why);
	else if (minute || changed)
		log_line(LOG_L_WARNING, "no connection for %.0f s: %s; trying again",
			 (double)(retry_ns - c->lost_ns) / 1e9, why);
	c->logged = c->lost_ns && (c->logged || minute || changed);
}

void connection_lose(struct connection *c, const struct deferred_error *err, bool silent, uint64_t random, uint64_t now)
{
	uint64_t retry_ns;

	pg_close(c->pg);
	c->pg = NULL;
	c->state = CONNECTION_WAITING;
	if (!c->lost_ns)
		c->backoff = backoff;
	/* The random part keeps workers that lost the same server from coming back in step. */
	retry_ns = now + (uint64_t)deferred_backoff_empty(&c->backoff) * NS_PER_MS + random % (50 * NS_PER_MS);
	if (!silent)
		log_lost(c, err, retry_ns);
	if (!c->lost_ns) {
		c->lost_ns = now;
		c->lost = *err;
	}
	c->retry_ns = retry_ns;
}

int connection_retry(struct connection *c, const char *conninfo, int limit_ms, uint64_t now, struct deferred_error *err)
{
	bool done = false;
	int rc;

	if (c->state == CONNECTION_CONNECTING) {
		rc = pg_open_poll(c->pg, &done, err);
		return rc == 0 ? done : rc;
	}
	if (now < c->retry_ns)
		return 0;
	c->state = CONNECTION_CONNECTING;
	return pg_open_start(&c->pg, conninfo, PROGRAM, limit_ms, err);
}

void connection_found(struct connection *c, uint64_t now)
{
	log_line(LOG_L_INFO, "connected again after %.1f s (%s)", (double)(now - c->lost_ns) / 1e9, c->lost.message);
	c->lost_ns = 0;
	c->state = CONNECTION_READY;
}

void connection_sent(struct connection *c)
{
	c->state = CONNECTION_BUSY;
}

void connection_answered(struct connection *c)
{
	c->state = CONNECTION_READY;
}

void connection_pause(struct connection *c, uint64_t until_ns)
{
	c->retry_ns = until_ns;
}

bool connection_can_send(const struct connection *c, uint64_t now)
{
	return c->state == CONNECTION_READY && now >= c->retry_ns;
}

bool connection_lost_for(const struct connection *c, int64_t ms, uint64_t now)
{
	return c->lost_ns && now >= c->lost_ns + (uint64_t)ms * NS_PER_MS;
}
