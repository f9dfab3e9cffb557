/* SPDX-License-Identifier: MIT */
/*
 * server - serves the listening sockets of a program over HTTP. It limits how many clients each socket has, how long
 * they take, and how much they send.
 *
 * Order of calls: server_listen() for each socket; server_tick() about every second; server_quiesce(); when
 * server_busy() returns 0, server_stop().
 *
 * The threads and the parser are ours. A request that can be read in two ways must be refused before anything behind
 * it is read. The answer comes from the program, which logs it. No library of Debian 12 and 13 does that. Of the 102
 * such requests in tests/http/test_framing.py, the following were accepted:
 *
 *     libmicrohttpd 0.9.75 with MHD_OPTION_STRICT_FOR_CLIENT    69
 *     evhttp of libevent 2.1.12                                 54
 *     http_parser 2.9.4, which nobody maintains                 37
 *     nginx 1.22 in front of deferred_http                      30
 *
 * They also answered up to 22 others with a status or a connection that clients do not expect. None has a hook for a
 * stricter check in front of its parser. Such a check would be a second parser. llhttp has no C library in Debian 12.
 * Our own needs as many lines as that check and the calls of libmicrohttpd did, and 19 % less processor time for a put.
 */
#ifndef SERVER_H
#define SERVER_H

#include "base/error.h"
#include "http/budget.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/sockets.h"

#include <stdbool.h>

/* The parts of an exchange that the server reads and writes. */
struct served {
	struct arena *arena;
	struct request *request;
	struct reply *reply;
	struct budget_hold *hold;
	bool *awaits_body; /* set before the first step: the body comes later */
};

/* SERVED_BODY: the program goes on when the body is there. It returns that once at most, and only if it awaits one. */
enum served_step { SERVED_ANSWER, SERVED_WAIT, SERVED_BODY };

/*
 * The program behind the server. An exchange is one request and its answer: exchange_bytes of memory, zero at first,
 * from begin() to end(). Calls for one exchange come one after the other. Those for different ones come from several
 * threads.
 */
struct server_app {
	size_t exchange_bytes;
	void (*begin)(void *exchange, void *data, struct served *parts); /* sets parts */
	void (*headers)(void *exchange);                                 /* all are there: calls request_end() */
	enum served_step (*step)(void *exchange);                        /* as much as it can do without waiting */
	/* After SERVED_WAIT. wake(data), from any thread, makes the server call step() again. */
	void (*wait)(void *exchange, void (*wake)(void *data), void *data);
	bool (*takes_body)(const void *exchange);                /* after SERVED_BODY */
	void (*refuse)(void *exchange, enum fault fault);        /* answers with that fault, instead of step() */
	void (*log)(void *exchange, size_t bytes_out, bool cut); /* cut: the client has not taken all of the answer */
	void (*end)(void *exchange);
};

/* Connections above the maximum that are closed for others, but still open for a moment. */
#define SERVER_SPARE 64

struct server_setup {
	const struct server_app *app;
	void *data; /* of the program, for begin() */
	int threads;
	int connections_max;
	int connections_per_address; /* 0: no limit; local sockets never have one */
	int64_t idle_ms;             /* between requests */
	int64_t header_ms;           /* from the request line to the end of the headers */
	int64_t body_ms;             /* to the end of the body */
	int64_t send_ms;             /* until the client has taken the answer */
};

/* The zero value serves nothing. */
struct server {
	struct server_port *ports[SOCKETS_MAX];
	int len;
};

/* The socket is given. */
int server_listen(struct server *s, const struct server_setup *setup, struct listen_socket *socket,
		  struct deferred_error *err);

/* Cuts off clients that are too slow. */
void server_tick(struct server *s);

/* Takes no more connections, and closes each after the answer that it waits for. */
void server_quiesce(struct server *s);

/* Requests that are being received, carried out or answered. */
int server_busy(struct server *s);

/* No request may wait for the database any more. */
void server_stop(struct server *s);

#endif
