/* SPDX-License-Identifier: MIT */
/*
 * worker_stall - a cycle that is not answered for long: what does its session wait for? Another one asks, once, without
 * being waited for.
 *
 * Locks are given up after a second, and told by who has to do with them (mend.c). So it is the commit mostly, which
 * waits for a synchronous standby.
 */
#include "base/clock.h"
#include "base/log.h"
#include "engine/state.h"

#include <poll.h>

#define STALL_NS (2 * NS_PER_S)
#define ASK_NS (5 * NS_PER_S) /* longer it is not asked: the server does not answer at all */

static void end(struct worker *w)
{
	pg_close(w->stall.pg);
	w->stall.pg = NULL;
}

static int begin(struct worker *w, uint64_t now, struct deferred_error *err)
{
	w->stall.told = true;
	w->stall.asked_ns = now;
	w->stall.connecting = true;
	return pg_open_start(&w->stall.pg, config_text(w->config, "database.conninfo"), "check_deferred", 0, err);
}

static void tell(void *data, const char *what)
{
	const struct worker *w = data;

	if (what[0])
		log_line(LOG_L_WARNING, "the server has not answered for %.0f s: it waits for %s",
			 (double)(clock_ns() - w->cycle.sent_ns) / 1e9, what);
}

static int go_on(struct worker *w, bool *done, struct deferred_error *err)
{
	struct pollfd fd = { pg_fd(w->stall.pg), pg_events(w->stall.pg), 0 };
	bool connected = false;
	int rc = 0;

	if (!w->stall.connecting)
		return poll(&fd, 1, 0) > 0 ? store_waits_poll(w->stall.pg, tell, w, done, err) : 0;
	rc = pg_open_poll(w->stall.pg, &connected, err);
	if (rc == 0 && connected) {
		w->stall.connecting = false;
		rc = store_waits_send(w->stall.pg, pg_server_pid(w->pg), err);
	}
	return rc;
}

void worker_stall(struct worker *w, uint64_t now)
{
	bool done = false, stalled = w->db == DB_BUSY && now >= w->cycle.sent_ns + STALL_NS;

	if (!stalled && !w->stall.told)
		return;
	if (!stalled) {
		w->stall.told = false;
		end(w);
	} else if (w->stall.pg ? go_on(w, &done, NULL) < 0 || done || now >= w->stall.asked_ns + ASK_NS
			       : !w->stall.told && begin(w, now, NULL) < 0) {
		end(w);
	}
}
