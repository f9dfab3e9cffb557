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

#include "base/error.h"
#include "http/budget.h"
#include "http/reply.h"
#include "http/request.h"

#include <stdbool.h>

/* Of one request and its answer, the parts that the server reads and writes. They lie in the program's exchange. */
struct served {
	struct arena *arena;
	struct request *request;
	struct reply *reply;
	struct budget_hold *hold;
	bool *awaits_body; /* set before the first step: the body comes later */
};

/* SERVED_BODY: it may be done once the body is there. Comes at most once, and not where the body is there from the
 * start. */
enum served_step { SERVED_ANSWER, SERVED_WAIT, SERVED_BODY };

/*
 * The program behind the server. An exchange is exchange_bytes of memory, at first zero, that live from begin() to
 * end(). Calls for one exchange come one after the other, those for different ones from several threads.
 */
struct server_app {
	size_t exchange_bytes;
	void (*begin)(void *exchange, void *data, struct served *parts); /* fills in parts */
	void (*headers)(void *exchange);          /* all of them are there: request_end() is to be called */
	enum served_step (*step)(void *exchange); /* as much as can be done without waiting */
	void (*wait)(void *exchange, void (*wake)(void *data),
		     void *data);                 /* after SERVED_WAIT: wake(), from another thread, asks for step() */
	bool (*takes_body)(const void *exchange); /* asked after SERVED_BODY */
	void (*refuse)(void *exchange, enum fault fault);        /* the answer is that error, in place of step() */
	void (*log)(void *exchange, size_t bytes_out, bool cut); /* cut: the client did not take all of the answer */
	void (*end)(void *exchange);
};

/* Connections beyond the maximum, which are closed for others and still open for a moment. */
#define SERVER_SPARE 64

/* Borrowed for the life of the server. */
struct server_setup {
	const struct server_app *app;
	void *data; /* of the program, for begin() */
	int threads;
	int connections_max, connections_per_address; /* the latter: 0: no limit; those of local sockets have none */
	int64_t idle_ms;                              /* between requests */
	int64_t header_ms;                            /* from the request line to the end of the headers */
	int64_t body_ms;                              /* to the end of the body */
	int64_t send_ms;                              /* to have taken the answer */
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
