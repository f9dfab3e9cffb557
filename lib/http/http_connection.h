/* SPDX-License-Identifier: MIT */
/*
 * http_connection - one client: reads requests, gives them to the program, and writes its answers, one after the other.
 *
 * All calls for a connection come from one thread. http_connection_advance() never waits. It does as much as it can.
 * Call it when the socket can do more than before, and when the connection was resumed.
 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "http/limits.h"
#include "http/server.h"

#include <sys/socket.h>

/* Shared by the connections of a listening socket. */
struct http_connection_server {
	const struct server_setup *setup;
	bool tls;
	struct limits limits;
	atomic_int busy;     /* requests that are being received, carried out or answered */
	atomic_bool closing; /* each connection ends with its next answer */
};

struct http_connection;

/* fd: a socket that does not block, given. resume() is called from any thread. Then the thread of the connection calls
 * http_connection_advance(c, true). NULL: no memory, and fd is closed. */
struct http_connection *http_connection_new(struct http_connection_server *server, int fd,
					    const struct sockaddr_storage *peer,
					    void (*resume)(struct http_connection *c, void *data), void *data);

enum http_connection_state {
	HTTP_CONNECTION_GOES_ON, /* it is the turn of others: the caller resumes it */
	HTTP_CONNECTION_BLOCKED, /* until the socket is ready */
	HTTP_CONNECTION_PARKED,  /* until it is resumed */
	HTTP_CONNECTION_OVER,    /* the caller frees it */
};
enum http_connection_state http_connection_advance(struct http_connection *c, bool resumed);

/* Cuts off what is not finished. */
void http_connection_free(struct http_connection *c);
void http_connection_free_all(struct http_connection_server *server);

/* For the caller: the next of the connections that were resumed. */
struct http_connection **http_connection_link(struct http_connection *c);

#endif
