/* SPDX-License-Identifier: MIT */
#include "http/http_connection.h"

#include "http/chunks.h"
#include "http/head.h"
#include "http/text.h"
#include "http/tls.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define IN_BYTES (16 * 1024)
#define HEAD_LARGE (16 * 1024)
/* A body that is refused or too large is read up to this. Then the client reads the answer, and the connection stays.
 */
#define DRAIN_MAX (8 * 1024 * 1024)
/* A client that still sends when we close may lose the answer. So this much is read first, for so long. */
#define LINGER_BYTES (64 * 1024)
#define LINGER_MS 2000
#define SMALL_BODY (8 * 1024) /* is sent with the headers */
#define STEPS_MAX 8           /* then it is the turn of other connections */

/* STAGE_BODY comes before the program has the whole request, STAGE_WHOLE after it. */
enum stage { STAGE_HEAD, STAGE_JUDGE, STAGE_BODY, STAGE_WHOLE, STAGE_ANSWER, STAGE_LINGER, STAGES };

/* One request and its answer. */
struct transfer {
	struct served x;
	char *body;
	size_t body_len, body_cap;
	size_t received; /* bytes of the body, kept or not */
	struct chunks chunks;
	bool head_read; /* the program knows the headers */
	bool refused;   /* the program has an answer that waits for the end of the body */
	bool no_room;   /* the budget for bodies is used up */
	bool answered;
	_Alignas(max_align_t) char exchange[]; /* of the program */
};

struct http_connection {
	struct limits_entry entry;
	struct http_connection_server *server;
	struct ssl_st *ssl; /* NULL: no TLS */
	struct sockaddr_storage peer;
	int64_t peer_uid;
	struct http_connection *next_resumed;
	void (*resume)(struct http_connection *c, void *data);
	void *resume_data;

	enum stage stage;
	struct head head;
	struct transfer *transfer; /* NULL: no request line yet */
	char *in;                  /* bytes that were received; NULL: none */
	size_t in_len, in_cap;
	struct buf out; /* "100 Continue", or headers and perhaps the body of the answer */
	size_t out_sent;
	const char *body; /* of the answer, behind out */
	size_t body_len, body_sent;
	bool close;  /* after this answer */
	bool parked; /* nothing is done until it is resumed */
	size_t lingered;
};

/* ---- the socket ------------------------------------------------------------------------------- */

/* Returns 0 if the connection is over, -1 if there is nothing to read. */
static ssize_t read_socket(struct http_connection *c, void *bytes, size_t len)
{
	ssize_t n;

	if (c->ssl)
		return tls_read(c->ssl, bytes, len);
	n = recv(c->entry.fd, bytes, len, 0);
	return n >= 0 ? n : errno == EAGAIN ? -1 : 0;
}

static ssize_t write_socket(struct http_connection *c, const char *bytes, size_t len, bool more)
{
	ssize_t n;

	if (c->ssl)
		return tls_write(c->ssl, bytes, len);
	n = send(c->entry.fd, bytes, len, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
	return n >= 0 ? n : errno == EAGAIN ? -1 : 0;
}

/* The first bytes were read. An idle connection keeps no buffer, and one with a large buffer a smaller one. */
static void drop_received(struct http_connection *c, size_t len)
{
	char *less;

	c->in_len -= len;
	memmove(c->in, c->in + len, c->in_len);
	if (c->in_len == 0) {
		free(c->in);
		c->in = NULL;
		c->in_cap = 0;
	} else if (c->in_cap > IN_BYTES && c->in_len <= IN_BYTES && (less = realloc(c->in, IN_BYTES))) {
		c->in = less;
		c->in_cap = IN_BYTES;
	}
}

/* Receives more behind what is there. */
static enum http_connection_state receive_more(struct http_connection *c)
{
	ssize_t n;

	if (c->in_len == c->in_cap) {
		size_t cap = c->in_cap ? c->in_cap * 2 : IN_BYTES;
		char *more = realloc(c->in, cap);

		if (!more)
			return HTTP_CONNECTION_OVER;
		c->in = more;
		c->in_cap = cap;
	}
	n = read_socket(c, c->in + c->in_len, c->in_cap - c->in_len);
	c->in_len += n > 0 ? (size_t)n : 0;
	drop_received(c, 0);
	return n > 0 ? HTTP_CONNECTION_GOES_ON : n < 0 ? HTTP_CONNECTION_BLOCKED : HTTP_CONNECTION_OVER;
}

/* Writes what is left of out and body. */
static enum http_connection_state flush_out(struct http_connection *c)
{
	while (c->out_sent < c->out.len || c->body_sent < c->body_len) {
		bool in_out = c->out_sent < c->out.len;
		size_t *sent = in_out ? &c->out_sent : &c->body_sent;
		ssize_t n = in_out ? write_socket(c, c->out.p + *sent, c->out.len - *sent, c->body_len > 0)
				   : write_socket(c, c->body + *sent, c->body_len - *sent, false);

		if (n <= 0)
			return n < 0 ? HTTP_CONNECTION_BLOCKED : HTTP_CONNECTION_OVER;
		*sent += (size_t)n;
	}
	c->out.len = c->out_sent = 0;
	return HTTP_CONNECTION_GOES_ON;
}

/* ---- the answer ------------------------------------------------------------------------------- */

static const char *phrase_of(int status)
{
	static const char *const phrases[] = {
		[200] = "OK",
		[201] = "Created",
		[202] = "Accepted",
		[204] = "No Content",
		[303] = "See Other",
		[304] = "Not Modified",
		[400] = "Bad Request",
		[401] = "Unauthorized",
		[403] = "Forbidden",
		[404] = "Not Found",
		[405] = "Method Not Allowed",
		[409] = "Conflict",
		[413] = "Content Too Large",
		[414] = "URI Too Long",
		[415] = "Unsupported Media Type",
		[421] = "Misdirected Request",
		[422] = "Unprocessable Content",
		[429] = "Too Many Requests",
		[431] = "Request Header Fields Too Large",
		[500] = "Internal Server Error",
		[503] = "Service Unavailable",
		[505] = "HTTP Version Not Supported",
	};

	return (size_t)status < sizeof(phrases) / sizeof(phrases[0]) && phrases[status] ? phrases[status] : "";
}

static bool wants_close(const struct request *r)
{
	const char *connection = request_value(r, "connection");

	return r->minor == 0 || (connection && strcasestr(connection, "close"));
}

static enum http_connection_state begin_answer(struct http_connection *c)
{
	struct transfer *t = c->transfer;
	const struct reply *reply = t->x.reply;
	bool bodiless = reply->status == 204 || reply->status == 304;
	char date[TEXT_RFC1123_SIZE];

	c->close |= reply->close || atomic_load(&c->server->closing);
	text_rfc1123(text_now_us(), date);
	buf_printf(&c->out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", reply->status, phrase_of(reply->status), date);
	for (size_t i = 0; i < reply->headers_len; i++)
		buf_printf(&c->out, "%s: %s\r\n", reply->headers[i].name, reply->headers[i].value);
	if (!bodiless)
		buf_printf(&c->out, "Content-Length: %zu\r\n", reply->body.len);
	buf_text(&c->out, c->close ? "Connection: close\r\n\r\n" : "\r\n");
	c->body_len = c->body_sent = 0;
	if (bodiless || t->x.request->verb == VERB_HEAD) {
		;
	} else if (reply->body.len <= SMALL_BODY) {
		buf_add(&c->out, reply->body.p, reply->body.len);
	} else {
		c->body = reply->body.p;
		c->body_len = reply->body.len;
	}
	if (c->out.failed)
		return HTTP_CONNECTION_OVER;
	t->answered = true;
	c->stage = STAGE_ANSWER;
	limits_wait(&c->entry, c->server->setup->send_ms);
	return HTTP_CONNECTION_GOES_ON;
}

/* The program answers with this fault, and status if not 0. */
static enum http_connection_state refuse_request(struct http_connection *c, enum fault fault, int status)
{
	struct transfer *t = c->transfer;

	c->server->setup->app->refuse(t->exchange, fault);
	if (status != 0)
		t->x.reply->status = status;
	return begin_answer(c);
}

/* The bytes behind the request cannot be trusted, or are too many to read. */
static enum http_connection_state refuse_and_close(struct http_connection *c, enum fault fault, int status)
{
	c->transfer->x.reply->close = true;
	return refuse_request(c, fault, status);
}

static void resume_parked(void *data)
{
	struct http_connection *c = data;

	c->resume(c, c->resume_data);
}

static enum http_connection_state park_connection(struct http_connection *c)
{
	limits_wait(&c->entry, -1);
	c->server->setup->app->wait(c->transfer->exchange, resume_parked, c);
	return HTTP_CONNECTION_PARKED;
}

/* ---- the request ------------------------------------------------------------------------------ */

static bool begin_transfer(struct http_connection *c)
{
	const struct server_setup *setup = c->server->setup;
	struct transfer *t = calloc(1, sizeof(*t) + setup->app->exchange_bytes);

	if (!t)
		return false;
	c->transfer = t;
	setup->app->begin(t->exchange, setup->data, &t->x);
	atomic_fetch_add(&c->server->busy, 1);
	limits_wait(&c->entry, setup->header_ms);
	return true;
}

/* The end of a request; cut: the client has not taken all of the answer. */
static void end_transfer(struct http_connection *c, bool cut)
{
	const struct server_app *app = c->server->setup->app;
	struct transfer *t = c->transfer;

	if (!t->answered && !t->refused)
		t->x.reply->status = 0;
	if (t->head_read)
		app->log(t->exchange, t->answered ? t->x.reply->body.len : 0, cut);
	app->end(t->exchange);
	free(t->body);
	free(t);
	c->transfer = NULL;
	c->head = (struct head){ .start = 0 };
	c->body_len = c->body_sent = 0;
	atomic_fetch_sub(&c->server->busy, 1);
}

/* The heads of stock clients are far smaller, and not counted. */
static bool hold_head(struct transfer *t)
{
	return t->x.arena->bytes <= HEAD_LARGE || budget_hold(t->x.hold, BUDGET_HEADS, t->x.arena->bytes);
}

static enum http_connection_state read_head(struct http_connection *c)
{
	enum head_found found = head_scan(&c->head, c->in, c->in_len);
	const struct server_setup *setup = c->server->setup;
	struct transfer *t = c->transfer;
	struct request *r;

	if (!t && (c->head.lines > 0 || found == HEAD_WRONG)) {
		if (!begin_transfer(c))
			return HTTP_CONNECTION_OVER;
		t = c->transfer;
	}
	if (found == HEAD_INCOMPLETE)
		return receive_more(c);
	r = t->x.request;
	if (found == HEAD_COMPLETE)
		request_head(r, t->x.arena, c->in + c->head.start, c->head.len - c->head.start);
	else
		request_line(r, t->x.arena, "", "/", 1);
	r->tls = c->server->tls;
	r->peer = c->peer;
	r->peer_uid = c->peer_uid;
	budget_address(t->x.hold, &r->peer);
	t->head_read = true;
	setup->app->headers(t->exchange);
	drop_received(c, c->head.len);
	if (found == HEAD_WRONG)
		return refuse_and_close(c, c->head.fault, c->head.status);
	if (r->broken)
		return refuse_and_close(c, r->fault, r->fault_status);
	if (r->length > DRAIN_MAX)
		return refuse_and_close(c, FAULT_RequestBodyTooLarge, 0);
	if (arena_is_short() || !hold_head(t))
		return refuse_and_close(c, FAULT_ServerBusy, 0);
	c->close = wants_close(r);
	t->x.reply->close = c->close;
	*t->x.awaits_body = r->chunked || r->length > 0;
	limits_wait(&c->entry, setup->body_ms);
	c->stage = *t->x.awaits_body ? STAGE_JUDGE : STAGE_WHOLE;
	return HTTP_CONNECTION_GOES_ON;
}

/*
 * By the headers alone. A client that waits for "100 Continue" gets a refusal at once, and the connection is closed.
 * From other clients the body is read first: if we closed while they send, they might lose the answer.
 */
static enum http_connection_state judge_head(struct http_connection *c)
{
	struct transfer *t = c->transfer;
	const char *expect = t->x.request->minor > 0 ? request_value(t->x.request, "expect") : NULL;
	enum served_step step;

	t->x.reply->close = c->close || expect;
	step = c->server->setup->app->step(t->exchange);
	if (step == SERVED_WAIT)
		return park_connection(c);
	if (step == SERVED_ANSWER && expect)
		return begin_answer(c);
	t->x.reply->close = c->close;
	t->refused = step == SERVED_ANSWER;
	limits_wait(&c->entry, c->server->setup->body_ms);
	if (expect && strcasecmp(expect, "100-continue") == 0 && c->in_len == 0)
		buf_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
	c->stage = STAGE_BODY;
	return HTTP_CONNECTION_GOES_ON;
}

/* Room for len bytes of the body: at most twice what has come, and not more than is to come. */
static bool make_body_room(struct transfer *t, size_t len)
{
	size_t cap = t->body_cap ? t->body_cap : 1024, length = (size_t)t->x.request->length;
	char *more;

	if (len <= t->body_cap)
		return true;
	while (cap < len)
		cap *= 2;
	if (len <= length && cap > length)
		cap = length;
	if (!budget_hold(t->x.hold, BUDGET_BODIES, cap) || !(more = realloc(t->body, cap + 1)))
		return false;
	t->body = more;
	t->body_cap = cap;
	return true;
}

static void drop_body(struct transfer *t)
{
	free(t->body);
	t->body = NULL;
	t->body_len = t->body_cap = 0;
	budget_hold(t->x.hold, BUDGET_BODIES, 0);
}

static void keep_body(struct http_connection *c, const char *data, size_t len)
{
	struct transfer *t = c->transfer;
	struct request *r = t->x.request;

	t->received += len;
	if (len == 0 || t->refused || r->body_too_large || t->no_room ||
	    !c->server->setup->app->takes_body(t->exchange))
		return;
	r->body_too_large = t->body_len + len > (r->body_max ? r->body_max : REQUEST_BODY_MAX);
	t->no_room = !r->body_too_large && !make_body_room(t, t->body_len + len);
	if (r->body_too_large || t->no_room) {
		drop_body(t);
		return;
	}
	memcpy(t->body + t->body_len, data, len);
	t->body_len += len;
}

static enum http_connection_state read_body(struct http_connection *c)
{
	struct transfer *t = c->transfer;
	struct request *r = t->x.request;
	enum http_connection_state state = flush_out(c);
	size_t used, data_len;

	if (state != HTTP_CONNECTION_GOES_ON)
		return state;
	if (c->in_len == 0)
		return receive_more(c);
	if (r->chunked) {
		used = chunks_read(&t->chunks, c->in, c->in_len, &data_len);
	} else {
		data_len = r->length - t->received < c->in_len ? (size_t)(r->length - t->received) : c->in_len;
		used = data_len;
	}
	keep_body(c, c->in, data_len);
	drop_received(c, used);
	if (t->chunks.wrong)
		return refuse_and_close(c, FAULT_InvalidInput, 0);
	if (t->received > DRAIN_MAX)
		return HTTP_CONNECTION_OVER;
	if (r->chunked ? !t->chunks.ended : t->received < r->length)
		return HTTP_CONNECTION_GOES_ON;
	if (t->refused)
		return begin_answer(c);
	if (t->no_room)
		return refuse_request(c, FAULT_ServerBusy, 0);
	if (t->body)
		t->body[t->body_len] = '\0';
	r->body = t->body;
	r->body_len = t->body_len;
	c->stage = STAGE_WHOLE;
	return HTTP_CONNECTION_GOES_ON;
}

static enum http_connection_state carry_out(struct http_connection *c)
{
	return c->server->setup->app->step(c->transfer->exchange) == SERVED_ANSWER ? begin_answer(c)
										   : park_connection(c);
}

static enum http_connection_state write_answer(struct http_connection *c)
{
	enum http_connection_state state = flush_out(c);

	if (state != HTTP_CONNECTION_GOES_ON)
		return state;
	buf_clear(&c->out);
	end_transfer(c, false);
	if (c->close) {
		if (c->ssl)
			tls_end(c->ssl);
		shutdown(c->entry.fd, SHUT_WR);
	}
	limits_wait(&c->entry, c->close ? LINGER_MS : c->server->setup->idle_ms);
	c->stage = c->close ? STAGE_LINGER : STAGE_HEAD;
	return HTTP_CONNECTION_GOES_ON;
}

static enum http_connection_state linger_on(struct http_connection *c)
{
	char bytes[4096];
	ssize_t n = recv(c->entry.fd, bytes, sizeof(bytes), 0);

	c->lingered += n > 0 ? (size_t)n : 0;
	return n > 0 && c->lingered <= LINGER_BYTES ? HTTP_CONNECTION_GOES_ON
	       : n < 0 && errno == EAGAIN           ? HTTP_CONNECTION_BLOCKED
						    : HTTP_CONNECTION_OVER;
}

/* ---- public ----------------------------------------------------------------------------------- */

struct http_connection **http_connection_link(struct http_connection *c)
{
	return &c->next_resumed;
}

struct http_connection *http_connection_new(struct http_connection_server *server, int fd,
					    const struct sockaddr_storage *peer,
					    void (*resume)(struct http_connection *c, void *data), void *data)
{
	struct http_connection *c = calloc(1, sizeof(*c));
	struct budget_hold who = { 0 };
	struct ucred user;
	socklen_t len = sizeof(user);

	if (c && server->tls)
		c->ssl = tls_open(fd);
	if (!c || (server->tls && !c->ssl)) {
		free(c);
		close(fd);
		return NULL;
	}
	c->server = server;
	c->resume = resume;
	c->resume_data = data;
	if (peer->ss_family == AF_INET || peer->ss_family == AF_INET6)
		c->peer = *peer;
	else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len) == 0 && len == sizeof(user) &&
		 user.uid != (uid_t)-1)
		c->peer_uid = (int64_t)user.uid + 1;
	budget_address(&who, &c->peer);
	memcpy(c->entry.address, who.address, sizeof(c->entry.address));
	c->entry.fd = fd;
	limits_enter(&server->limits, &c->entry, server->setup->idle_ms);
	return c;
}

enum http_connection_state http_connection_advance(struct http_connection *c, bool resumed)
{
	static enum http_connection_state (*const steps[STAGES])(struct http_connection * c) = {
		[STAGE_HEAD] = read_head,  [STAGE_JUDGE] = judge_head,    [STAGE_BODY] = read_body,
		[STAGE_WHOLE] = carry_out, [STAGE_ANSWER] = write_answer, [STAGE_LINGER] = linger_on,
	};
	enum http_connection_state state = HTTP_CONNECTION_GOES_ON;

	if (c->parked && !resumed)
		return HTTP_CONNECTION_PARKED;
	for (int i = 0; i < STEPS_MAX && state == HTTP_CONNECTION_GOES_ON; i++)
		state = steps[c->stage](c);
	c->parked = state == HTTP_CONNECTION_PARKED || state == HTTP_CONNECTION_GOES_ON;
	return state;
}

void http_connection_free(struct http_connection *c)
{
	if (c->transfer)
		end_transfer(c, true);
	limits_leave(&c->server->limits, &c->entry);
	if (c->ssl)
		tls_close(c->ssl);
	close(c->entry.fd);
	buf_clear(&c->out);
	free(c->in);
	free(c);
}

void http_connection_free_all(struct http_connection_server *server)
{
	while (server->limits.entries)
		http_connection_free((struct http_connection *)server->limits.entries);
}
