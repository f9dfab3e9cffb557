/* SPDX-License-Identifier: MIT */
#include "program/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "program/notify.h"
#include "program/program.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#define TICK_MS 500
#define STOPPING_TICK_MS 5

/* Before any thread is there, so that none of them takes one. */
static int watch_signals(struct deferred_error *err)
{
	sigset_t signals;
	int fd;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		error_errno(err, DEFERRED_ESYSTEM, "signalfd",
			    "cannot watch signals\nraise the limit of open files (ulimit -n)");
	return fd;
}

static void daemon_serve(const struct daemon_work *work, void *data, int signal_fd)
{
	int64_t watchdog_ms = notify_watchdog_ms();
	int wait_ms = watchdog_ms > 0 && watchdog_ms / 2 < TICK_MS ? (int)(watchdog_ms / 2) : TICK_MS;

	for (;;) {
		struct pollfd fd = { signal_fd, POLLIN, 0 };
		struct signalfd_siginfo info;

		poll(&fd, 1, wait_ms);
		work->tick(data);
		if (watchdog_ms > 0)
			notify_send("WATCHDOG=1");
		if (read(signal_fd, &info, sizeof(info)) != sizeof(info))
			continue;
		if (info.ssi_signo != SIGHUP)
			return;
		notify_send("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)notify_monotonic_us());
		work->reload(data);
		notify_send("READY=1");
	}
}

static void daemon_stop(const struct daemon_work *work, void *data, int64_t grace_ms)
{
	uint64_t end = clock_ns() + (uint64_t)grace_ms * NS_PER_MS;

	notify_send("STOPPING=1\nSTATUS=finishing what is in hand");
	work->quiesce(data);
	while (work->busy(data) > 0 && clock_ns() < end) {
		poll(NULL, 0, STOPPING_TICK_MS);
		work->tick(data);
	}
	if (work->busy(data) > 0) {
		/* Threads may hang on a server that does not answer. None of these requests has been answered. */
		log_line(LOG_L_WARNING, "%d request%s not answered in time", work->busy(data),
			 work->busy(data) == 1 ? " was" : "s were");
		work->flush(data, DAEMON_LAST_WORDS_MS);
		_exit(0);
	}
}

int daemon_run(const struct daemon_work *work, void *data, int64_t grace_ms)
{
	struct deferred_error err = { 0 };
	int signal_fd = watch_signals(&err), rc;

	if (signal_fd < 0)
		return program_complain(&err, EX_OSERR);
	notify_init();
	rc = work->start(data, &err);
	if (rc == 0) {
		notify_send("READY=1\nSTATUS=serving");
		daemon_serve(work, data, signal_fd);
		daemon_stop(work, data, grace_ms);
	} else {
		program_complain(&err, rc);
	}
	work->release(data);
	close(signal_fd);
	return rc;
}
