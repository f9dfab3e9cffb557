/* SPDX-License-Identifier: MIT */
/*
 * server - connections and HTTP; the only file to include libmicrohttpd. A server serves one listening socket. It holds
 * clients to their limits: how many there are, how long they take, how much they send.
 *
 * Order of calls: server_start(); server_tick() every second or so, for all of them; server_quiesce(); when
 * server_busy() says 0, server_stop().
 */
#ifndef SERVER_H
#define SERVER_H

#include "front/exchange.h"

#include <stdbool.h>

struct access_log;

/* Borrowed for the life of the server. */
struct server_setup {
	struct front *front;
	struct access_log *log; /* NULL: none */
	int threads;
	int connections_max, connections_per_address;
	int64_t idle_ms;   /* between requests */
	int64_t header_ms; /* from the request line to the end of the headers */
	int64_t body_ms;   /* to the end of the body */
	int64_t send_ms;   /* to have taken the answer */
};

struct server;

/* fd: a listening socket, from now on the server's. */
struct server *server_start(const struct server_setup *setup, int fd, bool tls, struct deferred_error *err);

/* Cut off who is too slow. */
void server_tick(struct server *s);

/* Take no more connections, and close each after the answer it waits for. */
void server_quiesce(struct server *s);

/* Requests that are being received, worked on or answered. */
int server_busy(struct server *s);

/* No request may be waiting for the database any more. */
void server_stop(struct server *s);

#endif
