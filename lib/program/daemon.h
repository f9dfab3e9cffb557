/* SPDX-License-Identifier: MIT */
/* daemon - a program that serves until a signal ends it: signals, the service manager, and the stop. */
#ifndef DAEMON_H
#define DAEMON_H

#include "base/error.h"

#include <stdint.h>

/* The callbacks of the program, called with the data of daemon_run() in its only thread. */
struct daemon_work {
	int (*start)(void *data,
		     struct deferred_error
			     *err);  /* 0, or an exit code with err; no signal reaches the threads that it starts */
	void (*tick)(void *data);    /* twice a second or more often, also while it stops */
	void (*reload)(void *data);  /* SIGHUP */
	void (*quiesce)(void *data); /* nothing new is taken any more */
	int (*busy)(void *data);     /* how much is in hand */
	void (*flush)(void *data, int patience_ms); /* write out logs, for so long at most */
	void (*release)(void *data);                /* what start() started, also where that failed halfway */
};

#define DAEMON_LAST_WORDS_MS 500 /* the last lines wait so long for somebody who reads them */

/* Serve until SIGTERM or SIGINT. Requests in progress then get grace_ms. Returns an exit code; errors are reported. If
 * a request still runs after the grace time, the process ends here. */
int daemon_run(const struct daemon_work *work, void *data, int64_t grace_ms);

#endif
