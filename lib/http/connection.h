/* SPDX-License-Identifier: MIT */
/*
 * connection - one client: reads requests, gives them to the program, and writes its answers, one after the other.
 *
 * All calls for a connection come from one thread. connection_advance() never waits. It does as much as it can. Call it
 * when the socket can do more than before, and when the connection was resumed.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "http/limits.h"
#include "http/server.h"

#include <sys/socket.h>

/* Shared by the connections of a listening socket. */
struct connection_server {
	const struct server_setup *setup;
	bool tls;
	struct limits limits;
	atomic_int busy;     /* requests that are being received, carried out or answered */
	atomic_bool closing; /* each connection ends with its next answer */
};

struct connection;

/* fd: a socket that does not block, given. resume() is called from any thread. Then the thread of the connection calls
 * connection_advance(c, true). NULL: no memory, and fd is closed. */
struct connection *connection_new(struct connection_server *server, int fd, const struct sockaddr_storage *peer,
				  void (*resume)(struct connection *c, void *data), void *data);

enum connection_state {
	CONNECTION_GOES_ON, /* it is the turn of others: the caller resumes it */
	CONNECTION_BLOCKED, /* until the socket is ready */
	CONNECTION_PARKED,  /* until it is resumed */
	CONNECTION_OVER,    /* the caller frees it */
};
enum connection_state connection_advance(struct connection *c, bool resumed);

/* Cuts off what is not finished. */
void connection_free(struct connection *c);
void connection_free_all(struct connection_server *server);

/* For the caller: the next of the connections that were resumed. */
struct connection **connection_link(struct connection *c);

#endif
