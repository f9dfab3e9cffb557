/* SPDX-License-Identifier: MIT */
#include "port/pg_connect.h"

#include "base/clock.h"
#include "port/pg.h"
#include "port/secret_file.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- what is asked for ------------------------------------------------------------------------- */

struct keywords {
	const char *key[64], *value[64];
	int n;
};

static void keyword(struct keywords *k, const char *key, const char *value)
{
	if (k->n < 63) {
		k->key[k->n] = key;
		k->value[k->n++] = value;
	}
}

static bool given(const PQconninfoOption *opts, const char *key)
{
	for (; opts && opts->keyword; opts++)
		if (strcmp(opts->keyword, key) == 0)
			return opts->val != NULL;
	return false;
}

/* libpq says which word it does not understand, and of a URI the whole: where there is a password that could be what it says. */
static int refuse_conninfo(const char *conninfo, char *why, struct deferred_error *err)
{
	const char *said = !why ? "out of memory" : secret_in_conninfo(conninfo) ? "it cannot be read, and has a password, so it is not shown" : why;

	error_set(err, DEFERRED_ECONNECT, PG_CONNINFO, "invalid connection string: %.*s", (int)strcspn(said, "\n"), said);
	PQfreemem(why);
	return DEFERRED_ECONNECT;
}

/* The caller's words win; ours stand where it is silent. But all text here is UTF-8, and in another encoding would be stored as
 * something else, without a word. */
static int connect_keywords(struct keywords *k, PQconninfoOption **opts, const char *conninfo, const char *program, struct deferred_error *err)
{
	static const char *const ours[][2] = {
		{ "connect_timeout", "10" },   { "keepalives_idle", "30" }, { "keepalives_interval", "10" },
		{ "keepalives_count", "3" },   { "tcp_user_timeout", "30000" },
	};
	char *why = NULL;

	memset(k, 0, sizeof(*k));
	*opts = NULL;
	if (conninfo && *conninfo) {
		*opts = PQconninfoParse(conninfo, &why);
		if (!*opts)
			return refuse_conninfo(conninfo, why, err);
	}
	for (const PQconninfoOption *o = *opts; o && o->keyword; o++)
		if (o->val && strcmp(o->keyword, "client_encoding") != 0)
			keyword(k, o->keyword, o->val);
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!given(*opts, ours[i][0]) && !(i == 0 && getenv("PGCONNECT_TIMEOUT")))
			keyword(k, ours[i][0], ours[i][1]);
	keyword(k, "client_encoding", "UTF8");
	if (!given(*opts, "application_name") && !getenv("PGAPPNAME"))
		keyword(k, "application_name", program);
	return 0;
}

/* What is waited for one address, as libpq's own way of waiting reads connect_timeout; 0: for ever. False: it is no number. */
static bool timeout_ms_of(PGconn *conn, int *ms)
{
	PQconninfoOption *opts = PQconninfo(conn);
	bool is_number = true;
	long s = 0;

	for (const PQconninfoOption *o = opts; o && o->keyword; o++)
		if (o->val && strcmp(o->keyword, "connect_timeout") == 0) {
			char *end;

			s = strtol(o->val, &end, 10);
			is_number = end != o->val && !*end;
		}
	PQconninfoFree(opts);
	*ms = s <= 0 ? 0 : s < 2 ? 2000 : s < 86400 ? (int)s * 1000 : 86400 * 1000;
	return is_number;
}

/* keyword='value' with what libpq wants escaped. Returns its length; writes it where there is room. */
static size_t put_word(char *out, const char *key, const char *value)
{
	size_t n = strlen(key) + 2;

	if (out)
		n = (size_t)sprintf(out, "%s='", key);
	for (; *value; value++) {
		if (*value == '\'' || *value == '\\') {
			if (out)
				out[n] = '\\';
			n++;
		}
		if (out)
			out[n] = *value;
		n++;
	}
	if (out)
		memcpy(out + n, "' ", 3);
	return n + 2;
}

char *pg_connect_as(const char *conninfo, const char *user, const char *password, struct deferred_error *err)
{
	PQconninfoOption *opts = NULL;
	char *why = NULL, *text = NULL;

	opts = PQconninfoParse(conninfo ? conninfo : "", &why);
	if (!opts) {
		refuse_conninfo(conninfo, why, err);
		return NULL;
	}
	for (int pass = 0; pass < 2; pass++) {
		size_t n = 0;

		for (const PQconninfoOption *o = opts; o->keyword; o++)
			if (o->val && strcmp(o->keyword, "user") != 0 && strcmp(o->keyword, "password") != 0 && strcmp(o->keyword, "passfile") != 0)
				n += put_word(text ? text + n : NULL, o->keyword, o->val);
		n += put_word(text ? text + n : NULL, "user", user);
		n += put_word(text ? text + n : NULL, "password", password);
		if (!text && !(text = malloc(n + 1))) {
			error_set(err, DEFERRED_ENOMEM, "connect", "out of memory");
			break;
		}
	}
	PQconninfoFree(opts);
	return text;
}

int pg_connect_failed(const PGconn *conn, struct deferred_error *err)
{
	const char *m = conn ? PQerrorMessage(conn) : "out of memory\n";

	error_set(err, DEFERRED_ECONNECT, conn && PQconnectionUsedPassword(conn) ? PG_LOGIN : "connect", "cannot connect: %.*s", (int)strcspn(m, "\n"),
		  m); /* the cause stands in the first line */
	error_hint(err, "is the server running, and is --db, DEFERRED_DB or database.conninfo right?");
	return DEFERRED_ECONNECT;
}

static int silent(const PGconn *conn, struct deferred_error *err)
{
	error_set(err, DEFERRED_ECONNECT, "connect", "cannot connect: server at \"%s\", port %s: timeout expired", PQhost(conn), PQport(conn));
	error_hint(err, "is the server running, and is --db, DEFERRED_DB or database.conninfo right?");
	return DEFERRED_ECONNECT;
}

/* Until pg.c has a use for them: libpq would print them. */
static void drop_notice(void *arg, const PGresult *res)
{
	(void)arg;
	(void)res;
}

/* Not PQconnectdbParams(), which leaves no moment to have notices dropped before there are some. */
static int begin(PGconn **conn, const struct keywords *k, struct deferred_error *err)
{
	int ms;

	*conn = PQconnectStartParams(k->key, k->value, 0);
	if (!*conn || PQstatus(*conn) == CONNECTION_BAD)
		return pg_connect_failed(*conn, err);
	if (!timeout_ms_of(*conn, &ms))
		return error_set(err, DEFERRED_ECONNECT, PG_CONNINFO, "invalid connection string: connect_timeout is no number");
	PQsetNoticeReceiver(*conn, drop_notice, NULL);
	return 0;
}

int pg_connect_start(PGconn **conn, const char *conninfo, const char *program, struct deferred_error *err)
{
	PQconninfoOption *opts = NULL;
	struct keywords k;
	int rc = connect_keywords(&k, &opts, conninfo, program, err);

	*conn = NULL;
	if (rc == 0)
		rc = begin(conn, &k, err);
	PQconninfoFree(opts);
	return rc;
}

/* ---- one host after the other ------------------------------------------------------------------ */

/* Lists of a connection string: host, hostaddr and port have one place for each host; a single port is for all of them. */
static const char *const lists[] = { "host", "hostaddr", "port" };
#define LISTS (sizeof(lists) / sizeof(lists[0]))

struct places {
	char *list[LISTS]; /* NULL: not given */
	int n;
};

static int count_places(const char *list)
{
	int n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

/* Where place i begins, and its length. */
static char *place(char *list, int i, size_t *len)
{
	for (; i > 0; i--)
		list += strcspn(list, ",") + 1;
	*len = strcspn(list, ",");
	return list;
}

static bool place_is(char *list, int i, const char *text)
{
	size_t len;
	const char *p = place(list, i, &len);

	return text && strlen(text) == len && memcmp(p, text, len) == 0;
}

/* The place that libpq is at; the first one where its words do not tell, as with a host left empty. */
static int find_place(const struct places *p, const PGconn *conn)
{
	for (int i = 0; i < p->n; i++)
		if ((!p->list[0] || place_is(p->list[0], i, PQhost(conn))) && (!p->list[1] || place_is(p->list[1], i, PQhostaddr(conn))) &&
		    (!p->list[2] || count_places(p->list[2]) == 1 || place_is(p->list[2], i, PQport(conn))))
			return i;
	return 0;
}

static void drop_place(char *list, int i)
{
	size_t len;
	char *p = place(list, i, &len);

	if (p[len] == ',')
		memmove(p, p + len + 1, strlen(p + len + 1) + 1);
	else if (i > 0)
		p[-1] = '\0';
}

/* What this connection was told, whether by conninfo, the environment or a service file, without the place it is at. */
static void take_places(struct places *p, PGconn *conn)
{
	PQconninfoOption *opts = PQconninfo(conn);
	int at;

	memset(p, 0, sizeof(*p));
	for (const PQconninfoOption *o = opts; o && o->keyword; o++)
		for (size_t i = 0; i < LISTS; i++)
			if (o->val && *o->val && strcmp(o->keyword, lists[i]) == 0)
				p->list[i] = strdup(o->val);
	PQconninfoFree(opts);
	p->n = p->list[0] ? count_places(p->list[0]) : p->list[1] ? count_places(p->list[1]) : 1;
	at = find_place(p, conn);
	for (size_t i = 0; i < LISTS; i++)
		if (p->list[i] && count_places(p->list[i]) > 1)
			drop_place(p->list[i], at);
	p->n = p->list[0] && !*p->list[0] ? 0 : p->n - 1; /* libpq would take no host for not given */
}

int pg_connect_next(PGconn **conn, const char *conninfo, const char *program, struct deferred_error *err)
{
	PQconninfoOption *opts = NULL;
	struct places left;
	struct keywords k;
	int rc;

	take_places(&left, *conn);
	rc = left.n > 0 ? connect_keywords(&k, &opts, conninfo, program, err) : silent(*conn, err);
	for (size_t i = 0; rc == 0 && i < LISTS; i++)
		if (left.list[i])
			keyword(&k, lists[i], left.list[i]); /* the last one counts */
	if (rc == 0) {
		PQfinish(*conn);
		rc = begin(conn, &k, err);
	}
	PQconninfoFree(opts);
	for (size_t i = 0; i < LISTS; i++)
		free(left.list[i]);
	return rc;
}

/* ---- waiting ----------------------------------------------------------------------------------- */

/* Until that socket is ready. False: the time is up. */
static bool await_socket(PGconn *conn, short events, uint64_t end_ns)
{
	for (;;) {
		struct pollfd fd = { PQsocket(conn), events, 0 };
		uint64_t now = clock_ns();

		if (end_ns && now >= end_ns)
			return false;
		if (poll(&fd, 1, end_ns ? (int)((end_ns - now) / NS_PER_MS) + 1 : -1) > 0)
			return true;
	}
}

/* One attempt, which libpq takes from address to address. Returns false when the time was up. */
static bool wait_for(PGconn *conn)
{
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;
	char at[64] = "";
	uint64_t end_ns = 0;
	bool late = false;
	int timeout_ms;

	timeout_ms_of(conn, &timeout_ms);
	while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
		const char *address = PQhostaddr(conn);

		if (timeout_ms && (!end_ns || (address && strcmp(address, at) != 0))) {
			snprintf(at, sizeof(at), "%s", address ? address : "");
			end_ns = clock_ns() + (uint64_t)timeout_ms * NS_PER_MS;
			late = false;
		}
		if (!await_socket(conn, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, end_ns)) {
			/* A socket that is shut down has failed, and libpq goes on to the next address. */
			if (late || PQstatus(conn) != CONNECTION_STARTED)
				return false;
			shutdown(PQsocket(conn), SHUT_RDWR);
			late = true;
			end_ns += (uint64_t)timeout_ms * NS_PER_MS;
		}
		next = PQconnectPoll(conn);
	}
	return !late || next == PGRES_POLLING_OK;
}

int pg_connect_wait(PGconn **conn, const char *conninfo, const char *program, struct deferred_error *err)
{
	while (!wait_for(*conn)) {
		int rc = pg_connect_next(conn, conninfo, program, err);

		if (rc < 0)
			return rc;
	}
	return PQstatus(*conn) == CONNECTION_OK ? 0 : pg_connect_failed(*conn, err);
}
