/* SPDX-License-Identifier: MIT */
/* servers - those of one program: one for each socket it listens on, started, looked after and stopped together. */
#ifndef SERVERS_H
#define SERVERS_H

#include "http/listen.h"
#include "http/server.h"

struct servers {
	struct server *list[LISTEN_MAX];
	int len;
};

/* The socket is from now on the server's. */
int servers_add(struct servers *servers, const struct server_setup *setup, struct listen_socket *socket,
		struct deferred_error *err);

/* Each is server_tick(), server_quiesce(), server_busy(), server_stop() of all of them. */
void servers_tick(struct servers *servers);
void servers_quiesce(struct servers *servers);
int servers_busy(struct servers *servers);
void servers_stop(struct servers *servers);

#endif
