/* SPDX-License-Identifier: MIT */
/*
 * notify - tell the service manager how we are: the protocol of sd_notify(3), a datagram to the socket that
 * NOTIFY_SOCKET names. Without that variable nothing is said.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

#include <stdint.h>

/* Open the socket and take the variables out of the environment: they are ours alone. */
void notify_init(void);

/* How often the manager wants to hear from us, milliseconds; 0: it does not (WATCHDOG_USEC, WATCHDOG_PID). */
int64_t notify_watchdog_ms(void);

/* The clock that a reload is reported with. */
int64_t notify_monotonic_us(void);

/* Lines of NAME=VALUE. A manager that does not listen is not a reason to stop, so failures are ignored. */
void notify_send(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
