/* SPDX-License-Identifier: MIT */
#include "http/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "http/gate.h"
#include "http/tls.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Pool of a connection: its headers, and the buffers it reads and writes by. */
#define CONNECTION_BYTES (WIRE_HEAD_MAX + 6 * 1024)
/* The rest of a body that is too large is read, up to this, so that the client comes to see the answer. */
#define DRAIN_MAX (8 * 1024 * 1024)
#define HEAD_LARGE (16 * 1024)
#define NO_DEADLINE UINT64_MAX

/* One socket. The time is judged by server_tick(), in another thread. */
struct connection {
	struct connection *next, **before;
	int fd;
	char address[BUDGET_NAME_SIZE]; /* as budget.h tells addresses apart; "": a local socket */
	bool evicted;                   /* shut for another, so no longer counted */
	_Atomic uint64_t deadline_ns, since_ns;
	/* Of the thread that serves it alone. */
	struct wire wire;
	unsigned requests;
};

struct server {
	struct server_setup setup;
	struct MHD_Daemon *daemon;
	bool tls;
	int fd;               /* after server_quiesce() */
	pthread_mutex_t lock; /* of the list */
	struct connection *connections;
	int open; /* of them, those not evicted */
	atomic_int busy;
	atomic_bool closing;
};

/* Where a request is: the headers are judged, its body is kept, or passed over since it was refused, it is carried out.
 * */
enum stage { STAGE_LINE, STAGE_HEADERS, STAGE_BODY, STAGE_REFUSED, STAGE_WHOLE };

/* One request and its answer on a connection. */
struct transfer {
	struct served x;
	struct server *server;
	struct MHD_Connection *connection;
	const struct wire *wire;
	unsigned number; /* of those on the connection */
	char *target;
	size_t target_len;
	char *body;
	size_t body_len, body_cap, received, sent;
	enum stage stage;
	bool no_room, answered;
	_Alignas(max_align_t) char exchange[]; /* of the program */
};

/* ---- time ------------------------------------------------------------------------------------- */

static struct connection *connection_of(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void set_deadline(struct MHD_Connection *c, int64_t ms)
{
	struct connection *connection = connection_of(c);

	if (connection) {
		atomic_store(&connection->since_ns, clock_ns());
		atomic_store(&connection->deadline_ns, ms < 0 ? NO_DEADLINE : clock_ns() + (uint64_t)ms * NS_PER_MS);
	}
}

/*
 * Locked. Where there are too many connections, of an address or in all, the one that has kept us waiting longest is
 * closed: for a request, the rest of one, or the taking of an answer. So a client that holds many open shuts nobody
 * out. If all others are being worked on, the new one is closed.
 */
static void evict_for(struct server *s, const struct connection *fresh)
{
	bool full = s->open > s->setup.connections_max;
	struct connection *same = NULL, *any = NULL, *victim;
	int address_max = s->setup.connections_per_address > 0 && fresh->address[0] ? s->setup.connections_per_address
										    : INT_MAX,
	    of_address = 0;

	if (!full && s->open <= address_max)
		return;
	for (struct connection *c = s->connections; c; c = c->next) {
		bool is_same = strcmp(c->address, fresh->address) == 0,
		     waits = atomic_load(&c->deadline_ns) != NO_DEADLINE;

		if (c->evicted)
			continue;
		of_address += is_same;
		if (waits && (!any || atomic_load(&c->since_ns) < atomic_load(&any->since_ns)))
			any = c;
		if (waits && is_same && (!same || atomic_load(&c->since_ns) < atomic_load(&same->since_ns)))
			same = c;
	}
	victim = of_address > address_max ? same : full ? any : NULL;
	if (victim) {
		victim->evicted = true;
		s->open--;
		shutdown(victim->fd, SHUT_RDWR);
	}
}

/* libmicrohttpd forgets a socket before it closes it, so what is in the list is open. */
static void on_connection(void *data, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;
	struct connection *connection = *context;
	struct budget_hold who = { 0 };
	struct server *s = data;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		/* libmicrohttpd 1.0 overwrites this answer with the next one. */
		info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
		connection = info ? calloc(1, sizeof(*connection)) : NULL;
		*context = connection;
		if (!connection)
			return; /* its requests are refused */
		connection->fd = info->connect_fd;
		connection->wire.tls = s->tls;
		gate_open(connection->fd, &connection->wire);
		info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
		if (info && info->client_addr)
			budget_address(&who, (const struct sockaddr_storage *)(const void *)info->client_addr);
		memcpy(connection->address, who.address, sizeof(connection->address));
		atomic_init(&connection->since_ns, clock_ns());
		atomic_init(&connection->deadline_ns, clock_ns() + (uint64_t)s->setup.idle_ms * NS_PER_MS);
		pthread_mutex_lock(&s->lock);
		connection->next = s->connections;
		connection->before = &s->connections;
		if (connection->next)
			connection->next->before = &connection->next;
		s->connections = connection;
		s->open++;
		evict_for(s, connection);
		pthread_mutex_unlock(&s->lock);
	} else if (connection) {
		gate_close(connection->fd);
		pthread_mutex_lock(&s->lock);
		*connection->before = connection->next;
		if (connection->next)
			connection->next->before = connection->before;
		s->open -= !connection->evicted;
		pthread_mutex_unlock(&s->lock);
		free(connection);
		*context = NULL;
	}
}

void server_tick(struct server *s)
{
	uint64_t now = clock_ns();

	pthread_mutex_lock(&s->lock);
	for (struct connection *c = s->connections; c; c = c->next)
		if (atomic_load(&c->deadline_ns) < now)
			shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&s->lock);
}

/* ---- receiving -------------------------------------------------------------------------------- */

static void *on_request_line(void *data, const char *target, struct MHD_Connection *c)
{
	struct connection *connection = connection_of(c);
	struct server *s = data;
	struct transfer *t = connection ? calloc(1, sizeof(*t) + s->setup.app->exchange_bytes) : NULL;

	if (!t)
		return NULL;
	t->wire = &connection->wire;
	t->number = ++connection->requests;
	t->target = strdup(target);
	if (!t->target) {
		free(t);
		return NULL;
	}
	t->target_len = strlen(target);
	t->server = s;
	t->connection = c;
	s->setup.app->begin(t->exchange, s->setup.data, &t->x);
	atomic_fetch_add(&s->busy, 1);
	set_deadline(c, s->setup.header_ms);
	return t;
}

static enum MHD_Result on_header(void *data, enum MHD_ValueKind kind, const char *name, size_t name_len,
				 const char *value, size_t value_len)
{
	struct transfer *t = data;

	(void)kind;
	request_header(t->x.request, name, name_len, value ? value : "", value ? value_len : 0);
	return MHD_YES;
}

static int64_t user_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct ucred who;
	socklen_t len = sizeof(who);

	return info && getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && len == sizeof(who) &&
			       who.uid != (uid_t)-1
		       ? (int64_t)who.uid + 1
		       : 0;
}

static void read_peer(struct transfer *t)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(t->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *from = info ? info->client_addr : NULL;

	if (from && from->sa_family == AF_INET)
		memcpy(&t->x.request->peer, from, sizeof(struct sockaddr_in));
	else if (from && from->sa_family == AF_INET6)
		memcpy(&t->x.request->peer, from, sizeof(struct sockaddr_in6));
	else
		t->x.request->peer_uid = user_of(t->connection);
	t->x.request->tls = t->server->tls;
}

/* 0: none was given. */
static int64_t content_length(const struct transfer *t)
{
	const char *length = request_value(t->x.request, "content-length");

	return !length ? 0 : strlen(length) > 18 ? INT64_MAX : strtoll(length, NULL, 10);
}

static bool has_body(const struct transfer *t)
{
	return content_length(t) > 0 || request_value(t->x.request, "transfer-encoding");
}

static void read_headers(struct transfer *t, const char *method)
{
	request_line(t->x.request, t->x.arena, method, t->target, t->target_len);
	MHD_get_connection_values_n(t->connection, MHD_HEADER_KIND, on_header, t);
	read_peer(t);
	budget_address(t->x.hold, &t->x.request->peer);
	t->server->setup.app->headers(t->exchange);
	*t->x.awaits_body = has_body(t);
	t->stage = STAGE_HEADERS;
}

/* Room for len bytes of it: not more than twice what has come, nor than what is to come. */
static bool make_room(struct transfer *t, size_t len)
{
	size_t cap = t->body_cap ? t->body_cap : 1024, length = (size_t)content_length(t);
	char *more;

	if (len <= t->body_cap)
		return true;
	while (cap < len)
		cap *= 2;
	if (len <= length && cap > length)
		cap = length;
	if (!budget_hold(t->x.hold, BUDGET_BODIES, cap) || !(more = realloc(t->body, cap)))
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

/* What is refused already is passed over. */
static void keep_body(struct transfer *t, const char *data, size_t len)
{
	struct request *r = t->x.request;

	if (t->stage != STAGE_BODY || !t->server->setup.app->takes_body(t->exchange) || r->body_too_large || t->no_room)
		return;
	r->body_too_large = t->body_len + len > REQUEST_BODY_MAX;
	t->no_room = !r->body_too_large && !make_room(t, t->body_len + len);
	if (r->body_too_large || t->no_room) {
		drop_body(t);
		return;
	}
	memcpy(t->body + t->body_len, data, len);
	t->body_len += len;
}

/* ---- answering -------------------------------------------------------------------------------- */

static enum MHD_Result answer(struct transfer *t)
{
	struct reply *reply = t->x.reply;
	struct MHD_Response *response;
	enum MHD_Result rc = MHD_NO;
	char *body;

	t->sent = reply->body.len;
	t->answered = true;
	body = buf_take(&reply->body);
	response = body ? MHD_create_response_from_buffer(t->sent, body, MHD_RESPMEM_MUST_FREE) : NULL;
	if (!response) {
		free(body);
		return MHD_NO;
	}
	/* An empty value is refused there; a blank is what everybody takes for one. */
	for (size_t i = 0; i < reply->headers_len; i++)
		MHD_add_response_header(response, reply->headers[i].name,
					reply->headers[i].value[0] ? reply->headers[i].value : " ");
	if (reply->close || atomic_load(&t->server->closing))
		MHD_add_response_header(response, "Connection", "close");
	set_deadline(t->connection, t->server->setup.send_ms);
	rc = MHD_queue_response(t->connection, (unsigned)reply->status, response);
	MHD_destroy_response(response);
	return rc;
}

static void wake(void *data)
{
	struct transfer *t = data;

	MHD_resume_connection(t->connection);
}

static enum MHD_Result wait_for(struct transfer *t)
{
	/* In this order: once it is submitted the connection may be woken before we return. */
	set_deadline(t->connection, -1);
	MHD_suspend_connection(t->connection);
	t->server->setup.app->wait(t->exchange, wake, t);
	return MHD_YES;
}

/* What ends here has been looked at no further than that. */
static enum MHD_Result refuse(struct transfer *t, enum fault fault)
{
	t->server->setup.app->refuse(t->exchange, fault);
	return answer(t);
}

/* What stock clients send is far below that, and not counted. */
static bool hold_head(struct transfer *t)
{
	return t->x.arena->bytes <= HEAD_LARGE || budget_hold(t->x.hold, BUDGET_HEADS, t->x.arena->bytes);
}

/*
 * What is refused for its bytes alone: what the gate ended, or has not seen, since it works no more; and what cannot be
 * served at all. The connection is closed, since it is in doubt what follows. False: none of that.
 */
static bool refuse_form(struct transfer *t, enum MHD_Result *rc)
{
	enum fault fault = FAULT_NONE;
	int status = 0;

	if (t->number > t->wire->requests) {
		log_line(LOG_L_ERROR, "http: what is received is not checked: libmicrohttpd does not read by recv(2)");
		fault = FAULT_InternalError;
	} else if (t->wire->broken && t->number == t->wire->requests) {
		fault = t->wire->fault;
		status = t->wire->status;
	} else if (t->stage == STAGE_HEADERS && !t->x.request->broken && content_length(t) > DRAIN_MAX) {
		fault = FAULT_RequestBodyTooLarge; /* nobody would read it to its end */
	} else if (t->stage == STAGE_HEADERS && (arena_is_short() || !hold_head(t))) {
		fault = FAULT_ServerBusy;
	} else {
		return false;
	}
	t->x.reply->close = true;
	t->server->setup.app->refuse(t->exchange, fault);
	if (status != 0)
		t->x.reply->status = status;
	*rc = answer(t);
	return true;
}

/*
 * Whoever is not let in is answered at once where the answer can be seen before the body is sent; libmicrohttpd closes
 * the connection then. Else the body is passed over first: closed on a client that sends, the answer might be lost.
 */
static enum MHD_Result judge(struct transfer *t)
{
	enum served_step step;

	t->x.reply->close = request_value(t->x.request, "expect") != NULL;
	step = t->server->setup.app->step(t->exchange);
	if (step == SERVED_WAIT)
		return wait_for(t);
	t->stage = step == SERVED_ANSWER ? STAGE_REFUSED : STAGE_BODY;
	set_deadline(t->connection, t->server->setup.body_ms);
	if (step == SERVED_ANSWER && t->x.reply->close)
		return answer(t);
	t->x.reply->close = false;
	return MHD_YES;
}

static enum MHD_Result carry_out(struct transfer *t)
{
	enum served_step step = t->server->setup.app->step(t->exchange);

	return step == SERVED_ANSWER ? answer(t) : wait_for(t);
}

/* The request is whole. */
static enum MHD_Result finish(struct transfer *t)
{
	if (t->stage == STAGE_REFUSED)
		return answer(t);
	if (t->no_room)
		return refuse(t, FAULT_ServerBusy);
	t->stage = STAGE_WHOLE;
	t->x.request->body = t->body;
	t->x.request->body_len = t->body_len;
	return carry_out(t);
}

/* Called with the headers; then with each piece of the body; then with none; and again after each time it was put
 * aside. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *c, const char *url, const char *method,
				  const char *version, const char *piece, size_t *piece_len, void **context)
{
	struct transfer *t = *context;
	enum MHD_Result rc;

	(void)data;
	(void)c;
	(void)url;
	(void)version;
	if (!t)
		return MHD_NO;
	if (t->stage == STAGE_LINE) {
		read_headers(t, method);
		set_deadline(t->connection, t->server->setup.body_ms);
		if (refuse_form(t, &rc))
			return rc;
		/* What has no body is answered when libmicrohttpd calls again: what is answered now ends the
		 * connection. */
		if (!*t->x.awaits_body && !t->x.request->broken) {
			t->stage = STAGE_BODY;
			return MHD_YES;
		}
	}
	if (t->stage == STAGE_HEADERS)
		return judge(t);
	if (*piece_len > 0) {
		t->received += *piece_len;
		if (t->received > DRAIN_MAX)
			return MHD_NO;
		keep_body(t, piece, *piece_len);
		*piece_len = 0;
		return MHD_YES;
	}
	if (t->stage == STAGE_WHOLE)
		return carry_out(t);
	return refuse_form(t, &rc) ? rc : finish(t);
}

static void on_completed(void *data, struct MHD_Connection *c, void **context, enum MHD_RequestTerminationCode code)
{
	struct server *s = data;
	struct transfer *t = *context;

	if (!t)
		return;
	set_deadline(c, s->setup.idle_ms + 1000);
	if (!t->answered && t->stage != STAGE_REFUSED)
		t->x.reply->status = 0;
	if (t->stage != STAGE_LINE)
		s->setup.app->log(t->exchange, t->sent, code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
	s->setup.app->end(t->exchange);
	free(t->body);
	free(t->target);
	free(t);
	*context = NULL;
	atomic_fetch_sub(&s->busy, 1);
}

/* ---- public ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 0)))
static void
on_log(void *data, const char *fmt, va_list ap)
{
	char text[512];

	(void)data;
	vsnprintf(text, sizeof(text), fmt, ap);
	text[strcspn(text, "\n")] = '\0';
	log_line(LOG_L_DEBUG, "http: %s", text);
}

/* Decoding is ours: libmicrohttpd's ends at %00, and the signature needs the path as it came. */
static size_t leave_as_it_is(void *data, struct MHD_Connection *c, char *text)
{
	(void)data;
	(void)c;
	return strlen(text);
}

struct server *server_start(const struct server_setup *setup, int fd, bool tls, struct deferred_error *err)
{
	struct server *s = calloc(1, sizeof(*s));
	struct MHD_OptionItem more[8];
	int n = 0;

	if (!s) {
		close(fd);
		error_set(err, DEFERRED_ENOMEM, "server", "out of memory");
		return NULL;
	}
	s->setup = *setup;
	s->tls = tls;
	s->fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	if (setup->threads > 1)
		more[n++] = (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE, setup->threads, NULL };
	if (tls) {
		more[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls_callback() };
		more[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES };
	}
	more[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
	errno = 0;
	s->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
			MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0),
		0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_URI_LOG_CALLBACK, on_request_line, s, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_UNESCAPE_CALLBACK, leave_as_it_is, NULL,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)setup->connections_max + SERVER_SPARE, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)((setup->idle_ms + 999) / 1000), MHD_OPTION_ARRAY, more, MHD_OPTION_END);
	if (!s->daemon) {
		error_errno(err, DEFERRED_ESYSTEM, "server", "cannot start the server");
		close(fd);
		pthread_mutex_destroy(&s->lock);
		free(s);
		return NULL;
	}
	return s;
}

void server_quiesce(struct server *s)
{
	atomic_store(&s->closing, true);
	s->fd = MHD_quiesce_daemon(s->daemon);
}

int server_busy(struct server *s)
{
	return atomic_load(&s->busy);
}

void server_stop(struct server *s)
{
	MHD_stop_daemon(s->daemon);
	if (s->fd >= 0)
		close(s->fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
