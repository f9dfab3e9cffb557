/* SPDX-License-Identifier: MIT */
/* listen - the sockets that requests come in by: those of the settings, or those the service manager hands over. */
#ifndef LISTEN_H
#define LISTEN_H

#include "base/error.h"
#include "port/config.h"

#include <stdbool.h>

#define LISTEN_MAX 16

struct listen_socket {
	int fd;
	bool tls;
	char name[128]; /* for people: "127.0.0.1:10001", or the whole path of a Unix socket */
};

struct listen_sockets {
	struct listen_socket list[LISTEN_MAX];
	int len;
	int metrics; /* where those for metrics alone begin */
};

/* Sockets of systemd's (LISTEN_FDS): one named "https" or "tls" speaks TLS. None: len stays 0. The variables are taken
 * out of the environment. */
int listen_inherited(struct listen_sockets *sockets, struct deferred_error *err);

/* Open those of a list "127.0.0.1:10001, [::1]:10001, 10001": a port alone means loopback. Without tls also
 * "/run/x.sock": a Unix socket. addresses NULL or "": none. */
int listen_open(struct listen_sockets *sockets, const char *addresses, bool tls, struct deferred_error *err);

/* All of a program's: what was inherited, or else those of the settings SECTION.listen and SECTION.listen_tls; then
 * those of
 * SECTION.listen_metrics. None at all is an error. */
int listen_all(struct listen_sockets *sockets, const struct config *config, const char *section,
	       struct deferred_error *err);

/* Whether nobody from another machine gets in: loopback, or a Unix socket. */
bool listen_is_local(const struct listen_socket *s);

/* Whether it lies in the file system, so that the system tells who connects. */
bool listen_is_unix(const struct listen_socket *s);

/* Close those that nobody took over: whose fd is not -1. */
void listen_close(struct listen_sockets *sockets);

#endif
