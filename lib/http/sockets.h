/* SPDX-License-Identifier: MIT */
/* sockets - the listening sockets of a program: from its settings, or from the service manager. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include "base/error.h"
#include "port/config.h"

#include <stdbool.h>

#define SOCKETS_MAX 16

struct listen_socket {
	int fd;
	bool tls;
	char name[128]; /* for people: "127.0.0.1:10001", or the path of a Unix socket */
};

struct listen_sockets {
	struct listen_socket list[SOCKETS_MAX];
	int len;
	int metrics; /* index of the first one for metrics only */
};

/* Opens all sockets of a program. They are inherited, or those of the settings SECTION.listen and SECTION.listen_tls.
 * Those of SECTION.listen_metrics come last. No socket at all is an error. */
int sockets_open(struct listen_sockets *sockets, const struct config *config, const char *section,
		 struct deferred_error *err);

/* Adds those of one setting, SECTION.SETTING. */
int sockets_open_setting(struct listen_sockets *sockets, const struct config *config, const char *section,
			 const char *setting, struct deferred_error *err);

/* Whether only this machine can connect: loopback, or a Unix socket. */
bool sockets_is_local(const struct listen_socket *s);

/* Whether it is a Unix socket, so that the system knows the user who connects. */
bool sockets_is_unix(const struct listen_socket *s);

/* Closes those that server_listen() has not taken. */
void sockets_close(struct listen_sockets *sockets);

#endif
