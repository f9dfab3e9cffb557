/* SPDX-License-Identifier: MIT */
/*
 * Another session asks, once. The worker does not wait for it. A statement gives up waiting for locks after a second,
 * and rollback.c logs that. So it is mostly the commit, which waits for a synchronous standby.
 */
#include "engine/step/stall.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/store_worker.h"

#include <poll.h>

#define STALL_NS (2 * NS_PER_S)
#define ASK_NS (5 * NS_PER_S) /* then the session is closed: the server does not answer at all */

static void stop_asking(struct stall *s)
{
	pg_close(s->pg);
	s->pg = NULL;
}

static int start_asking(struct stall *s, const char *conninfo, uint64_t now)
{
	s->asked = true;
	s->asked_ns = now;
	s->connecting = true;
	return pg_open_start(&s->pg, conninfo, "check_deferred", 0, NULL);
}

static void log_wait(void *data, const char *what)
{
	const struct stall *s = data;

	if (what[0])
		log_line(LOG_L_WARNING, "the server has not answered for %.0f s: it waits for %s",
			 (double)(clock_ns() - s->sent_ns) / 1e9, what);
}

static int continue_asking(struct stall *s, int server_pid, bool *done)
{
	struct pollfd fd = { pg_fd(s->pg), pg_events(s->pg), 0 };
	bool connected = false;
	int rc = 0;

	if (!s->connecting)
		return poll(&fd, 1, 0) > 0 ? store_waits_poll(s->pg, log_wait, s, done, NULL) : 0;
	rc = pg_open_poll(s->pg, &connected, NULL);
	if (rc == 0 && connected) {
		s->connecting = false;
		rc = store_waits_send(s->pg, server_pid, NULL);
	}
	return rc;
}

void stall_run(struct stall *s, const char *conninfo, const struct pg *waits, uint64_t sent_ns, uint64_t now)
{
	bool done = false, stalled = waits && now >= sent_ns + STALL_NS;

	if (!stalled && !s->asked)
		return;
	s->sent_ns = sent_ns;
	if (!stalled) {
		s->asked = false;
		stop_asking(s);
	} else if (s->pg ? continue_asking(s, pg_server_pid(waits), &done) < 0 || done || now >= s->asked_ns + ASK_NS
			 : !s->asked && start_asking(s, conninfo, now) < 0) {
		stop_asking(s);
	}
}
