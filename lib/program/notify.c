/* SPDX-License-Identifier: MIT */
#include "program/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int notify_fd = -1;
static int64_t watchdog_ms;

static void read_watchdog(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	long long us = usec ? strtoll(usec, NULL, 10) : 0;

	if (us > 0 && (!pid || strtoll(pid, NULL, 10) == (long long)getpid()))
		watchdog_ms = us / 1000 > 0 ? us / 1000 : 1;
}

void notify_init(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;

	/* A path, or the name of an abstract socket behind "@". */
	if (len >= 2 && len < sizeof(to.sun_path) && (path[0] == '/' || path[0] == '@')) {
		memcpy(to.sun_path, path, len + 1);
		if (path[0] == '@')
			to.sun_path[0] = '\0';
		notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (notify_fd >= 0 && connect(notify_fd, (struct sockaddr *)&to,
					      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0) {
			close(notify_fd);
			notify_fd = -1;
		}
		read_watchdog();
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

int64_t notify_watchdog_ms(void)
{
	return notify_fd >= 0 ? watchdog_ms : 0;
}

int64_t notify_monotonic_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void notify_send(const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	if (notify_fd < 0)
		return;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* MSG_DONTWAIT: a manager that is slow must not hold up the jobs. */
	if (n > 0 && send(notify_fd, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1,
			  MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}
