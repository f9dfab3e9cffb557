/* SPDX-License-Identifier: MIT */
#include "port/pg_connect.h"

#include "base/clock.h"
#include "port/pg.h"
#include "port/resolve.h"
#include "port/secret_file.h"

#include <libpq-fe.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Lists of a connection string have one entry for each host. A single port is for all of them. */
static const char *const lists[] = { "host", "hostaddr", "port" };
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static bool is_list(const char *key)
{
	for (size_t i = 0; i < LISTS; i++)
		if (strcmp(key, lists[i]) == 0)
			return true;
	return false;
}

static bool given(const PQconninfoOption *opts, const char *key)
{
	for (; opts && opts->keyword; opts++)
		if (strcmp(opts->keyword, key) == 0)
			return opts->val != NULL;
	return false;
}

/* libpq says which word it does not understand, and of a URI the whole: where there is a password that could be what it
 * says. */
static int refuse_conninfo(const char *conninfo, char *why, struct deferred_error *err)
{
	const char *said = !why                           ? "out of memory"
			   : secret_in_conninfo(conninfo) ? "it cannot be read, and has a password, so it is not shown"
							  : why;

	error_set(err, DEFERRED_ECONNECT, PG_CONNINFO, "invalid connection string: %.*s", (int)strcspn(said, "\n"),
		  said);
	error_hint(err, "for example host=db.example dbname=app, or postgresql://db.example/app");
	PQfreemem(why);
	return DEFERRED_ECONNECT;
}

/* The caller's words win; ours stand where it is silent. But all text here is UTF-8, and in another encoding would be
 * stored as something else, without a word. */
static int connect_keywords(struct keywords *k, PQconninfoOption **opts, const char *conninfo, const char *program,
			    struct deferred_error *err)
{
	static const char *const ours[][2] = {
		{ "connect_timeout", "10" }, { "keepalives_idle", "30" },     { "keepalives_interval", "10" },
		{ "keepalives_count", "3" }, { "tcp_user_timeout", "30000" },
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
			if (o->val && strcmp(o->keyword, "user") != 0 && strcmp(o->keyword, "password") != 0 &&
			    strcmp(o->keyword, "passfile") != 0)
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

/* ---- one place after the other ----------------------------------------------------------------- */

#define NAMES_NS (1 * NS_PER_S) /* a name that takes longer is left out, when another place is known */

/* In the order of `lists`. NULL: not given. */
struct place {
	char *text[LISTS];
};
enum { HOST, ADDRESS, PORT };

struct places {
	struct place *place;
	size_t n;
};

struct pg_connecting {
	PQconninfoOption *opts; /* what the keywords point to */
	struct keywords keywords;
	struct places places;  /* those that are left; each has one address at most, unless names are looked up */
	struct resolve *names; /* of places that have a host name and no address; NULL: all addresses are known */
	PGconn *conn;          /* NULL: names are looked up */
	PostgresPollingStatusType next;
	int timeout_ms;            /* for the names, then for each address; 0: for ever */
	size_t at;                 /* the place that libpq is at */
	uint64_t began_ns, end_ns; /* end 0: never */
};

static void places_clear(struct places *p)
{
	for (size_t i = 0; i < p->n; i++)
		for (size_t l = 0; l < LISTS; l++)
			free(p->place[i].text[l]);
	free(p->place);
	*p = (struct places){ 0 };
}

/* The texts are copied. */
static bool places_add(struct places *p, const char *const text[LISTS])
{
	struct place *more = realloc(p->place, (p->n + 1) * sizeof(*more)), *last;

	if (!more)
		return false;
	p->place = more;
	last = &p->place[p->n++];
	for (size_t l = 0; l < LISTS; l++)
		last->text[l] = text[l] ? strdup(text[l]) : NULL;
	for (size_t l = 0; l < LISTS; l++)
		if (text[l] && !last->text[l])
			return false;
	return true;
}

static size_t count_entries(const char *list)
{
	size_t n = 1;

	for (; *list; list++)
		n += *list == ',';
	return n;
}

/* Makes a text of its own of entry i, in place of the list that held it. NULL: there is none. */
static char *copy_entry(const char *list, size_t i)
{
	for (; i > 0; i--)
		list += strcspn(list, ",") + 1;
	return *list && *list != ',' ? strndup(list, strcspn(list, ",")) : NULL;
}

/* As libpq writes it in PQhostaddr(). False: it is a name. */
static bool write_address(const struct sockaddr *a, socklen_t len, char *out, size_t size)
{
	return getnameinfo(a, len, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
}

static bool is_address(const char *host, char *out, size_t size)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found = NULL;
	bool is = getaddrinfo(host, NULL, &hints, &found) == 0 &&
		  write_address(found->ai_addr, found->ai_addrlen, out, size);

	if (found)
		freeaddrinfo(found);
	return is;
}

/* Not the folder of a socket. */
static bool is_name(const struct place *p)
{
	const char *host = p->text[HOST];

	return host && !p->text[ADDRESS] && *host != '/' && *host != '@';
}

static bool add_given(struct places *p, const char *const list[LISTS], size_t i)
{
	struct place one = { 0 };
	char address[NI_MAXHOST];
	const char *numeric;
	bool added;

	for (size_t l = 0; l < LISTS; l++)
		one.text[l] = list[l] ? copy_entry(list[l], count_entries(list[l]) > 1 ? i : 0) : NULL;
	numeric = one.text[ADDRESS] ? one.text[ADDRESS] : is_name(&one) ? one.text[HOST] : NULL;
	added = places_add(p, (const char *[]){ one.text[HOST],
						numeric && is_address(numeric, address, sizeof(address))
							? address
							: one.text[ADDRESS],
						one.text[PORT] });
	for (size_t l = 0; l < LISTS; l++)
		free(one.text[l]);
	return added;
}

static int no_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, "connect", "out of memory");
}

/* libpq has no call for the SQLSTATE of a refusal, but says it where it is asked to be verbose:
 * "FATAL:  28000: role ...". NULL: the server did not answer. */
static const char *state_in(const char *m)
{
	for (const char *p = m; (p = strstr(p, ":  ")); p += 3)
		if (strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && strncmp(p + 8, ": ", 2) == 0)
			return p + 3;
	return NULL;
}

static bool is_state(const char *state, const char *wanted)
{
	return strncmp(state, wanted, strlen(wanted)) == 0;
}

/* The server's function, which libpq reports, distinguishes causes with one SQLSTATE. Message texts may be
 * translated. */
static void hint_refusal(const PGconn *conn, const char *m, const char *state, struct deferred_error *err)
{
	const char *user = PQuser(conn), *db = PQdb(conn);

	if (is_state(state, "28000") && strstr(m, "InitializeSessionUserId"))
		error_hint(err,
			   "create role \"%s\" login in role deferred_worker (of an application: deferred_producer); "
			   "or name another role with user= in the connection string",
			   user);
	else if (is_state(state, "28000") && strstr(m, "auth_failed"))
		error_hint(err,
			   "with peer authentication the role has the name of the system user: name that role with "
			   "user= in the connection string, or map it in pg_ident.conf of the server");
	else if (is_state(state, "28"))
		error_hint(err, "correct user= and the password (passfile, ~/.pgpass), or pg_hba.conf of the server");
	else if (is_state(state, "3D000"))
		error_hint(err, "createdb \"%s\"; or name another database with dbname= in the connection string", db);
	else if (is_state(state, "42501"))
		error_hint(err, "grant connect on database \"%s\" to \"%s\"", db, user);
	else if (is_state(state, "53300"))
		error_hint(
			err,
			"all connections of the server, or of its role or database, are in use: close some, or raise "
			"the limit");
	else if (is_state(state, "57P03"))
		error_hint(err,
			   "the server starts or stops: wait a moment; if that does not end, read the server's log");
	else
		error_hint(err, "read the server's log");
}

static void hint_unreachable(const char *m, struct deferred_error *err)
{
	if (strstr(m, "certificate") || strstr(m, "SSL"))
		error_hint(err,
			   "compare sslmode, sslrootcert, sslcert and sslkey of the connection string with the server");
	else
		error_hint(err, "is the server running, and is --db, DEFERRED_DB or database.conninfo right?");
}

static int failed(const struct pg_connecting *c, const PGconn *conn, struct deferred_error *err)
{
	const char *m = conn ? PQerrorMessage(conn) : "out of memory\n";
	static const char begins[] = "connection to server at \"";
	const char *state = state_in(m), *said;
	/* A server that starts, stops or is full is away for a while. Any other refusal lasts. */
	bool lasts = state && !is_state(state, "57P03") && !is_state(state, "53300");
	char host[320] = "";

	/* libpq names the address only, where it is given. */
	for (size_t i = 0; i < c->places.n && !*host && strncmp(m, begins, strlen(begins)) == 0; i++) {
		const char *const *text = (const char *const *)c->places.place[i].text;
		size_t len = text[ADDRESS] ? strlen(text[ADDRESS]) : 0;

		if (text[HOST] && len > 0 && strcmp(text[HOST], text[ADDRESS]) != 0 &&
		    strncmp(m + strlen(begins), text[ADDRESS], len) == 0 && m[strlen(begins) + len] == '"') {
			snprintf(host, sizeof(host), "%s%.255s\" (%s)", begins, text[HOST], text[ADDRESS]);
			m += strlen(begins) + len + 1;
		}
	}
	said = m;
	/* The cause stands in the line of the server that answered, else in the first one. */
	for (const char *line = m; state && (line = strchr(line, '\n')) && line < state; line++)
		m = line + 1;
	error_set(err, DEFERRED_ECONNECT,
		  !lasts                           ? "connect"
		  : PQconnectionUsedPassword(conn) ? PG_LOGIN
						   : PG_REFUSED,
		  "cannot connect: %s%.*s%.*s", m == said ? host : "", state ? (int)(state - m) : 0, m,
		  (int)strcspn(state ? state + 7 : m, "\n"), state ? state + 7 : m);
	if (state)
		hint_refusal(conn, m, state, err);
	else
		hint_unreachable(m, err);
	return DEFERRED_ECONNECT;
}

/* Reads connect_timeout as PQconnectdb() does. */
static int take_timeout(struct pg_connecting *c, const char *text, int limit_ms, struct deferred_error *err)
{
	char *end;
	long s = strtol(text, &end, 10);

	if (end == text || *end)
		return error_set(err, DEFERRED_ECONNECT, PG_CONNINFO,
				 "invalid connection string: connect_timeout is not a number\nwrite whole seconds");
	c->timeout_ms = s <= 0 ? 0 : s < 2 ? 2000 : s < 86400 ? (int)s * 1000 : 86400 * 1000;
	if (limit_ms && (!c->timeout_ms || c->timeout_ms > limit_ms))
		c->timeout_ms = limit_ms;
	return 0;
}

/* The places that libpq would go to, whether the string, a service file or the environment names them. It tells them of
 * a connection alone, so one is begun with a word that it refuses before it does anything. The password keeps it from
 * reading its file for nothing. */
static int find_places(struct pg_connecting *c, const PGconn *probe, PQconninfoOption *opts, int limit_ms,
		       struct deferred_error *err)
{
	const char *list[LISTS] = { NULL };
	int rc = 0;
	size_t n;

	for (const PQconninfoOption *o = opts; o && o->keyword; o++) {
		for (size_t l = 0; l < LISTS; l++)
			if (o->val && *o->val && strcmp(o->keyword, lists[l]) == 0)
				list[l] = o->val;
		if (o->val && strcmp(o->keyword, "connect_timeout") == 0)
			rc = take_timeout(c, o->val, limit_ms, err);
	}
	n = list[ADDRESS] ? count_entries(list[ADDRESS]) : list[HOST] ? count_entries(list[HOST]) : 1;
	if ((list[HOST] && count_entries(list[HOST]) != n) ||
	    (list[PORT] && count_entries(list[PORT]) != 1 && count_entries(list[PORT]) != n))
		return failed(c, probe, err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (!add_given(&c->places, list, i))
			rc = no_memory(err);
	return rc;
}

static PGconn *begin_probe(const struct keywords *given_too)
{
	struct keywords k = *given_too;

	keyword(&k, "password", "-");
	keyword(&k, "sslmode", "-");
	return PQconnectStartParams(k.key, k.value, 0);
}

static int ask_places(struct pg_connecting *c, const struct keywords *given_too, int limit_ms,
		      struct deferred_error *err)
{
	PGconn *probe = begin_probe(given_too);
	PQconninfoOption *opts = probe ? PQconninfo(probe) : NULL;
	int rc;

	rc = opts ? find_places(c, probe, opts, limit_ms, err) : no_memory(err);
	PQconninfoFree(opts);
	PQfinish(probe);
	return rc;
}

/* The database and the role, as one line. NULL: no memory. */
static char *write_place(const PQconninfoOption *opts)
{
	static const char *const names[] = { "host", "hostaddr", "port", "dbname", "user", NULL };
	char *text = NULL;

	for (int pass = 0; pass < 2; pass++) {
		size_t n = 0;

		for (const PQconninfoOption *o = opts; o->keyword; o++)
			for (const char *const *name = names; *name; name++)
				if (o->val && *o->val && strcmp(o->keyword, *name) == 0)
					n += put_word(text ? text + n : NULL, o->keyword, o->val);
		if (!text && !(text = calloc(1, n + 1)))
			return NULL;
		text[n > 0 ? n - 1 : 0] = '\0';
	}
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20)
			*p = '?';
	return text;
}

int pg_place(const char *conninfo, char **place, struct deferred_error *err)
{
	PQconninfoOption *opts = NULL, *all;
	struct keywords k;
	PGconn *probe;
	int rc = connect_keywords(&k, &opts, conninfo, "", err);

	*place = NULL;
	if (rc < 0)
		return rc;
	probe = begin_probe(&k);
	all = probe ? PQconninfo(probe) : NULL;
	if (all)
		*place = write_place(all);
	PQconninfoFree(all);
	PQfinish(probe);
	PQconninfoFree(opts);
	return *place ? 0 : no_memory(err);
}

/* Where libpq is; the first place where its words do not tell, as with a host left empty. Of an address with a zone it
 * tells what is before that. */
static size_t find_place(const struct pg_connecting *c)
{
	const char *now[LISTS] = { PQhost(c->conn), PQhostaddr(c->conn), PQport(c->conn) };

	for (size_t i = 0; i < c->places.n; i++) {
		bool is = true;

		for (size_t l = 0; l < LISTS; l++) {
			const char *text = c->places.place[i].text[l];
			size_t len = text ? strcspn(text, l == ADDRESS ? "%" : "") : 0;

			is &= !text || (now[l] && strncmp(now[l], text, len) == 0 && !now[l][len]);
		}
		if (is)
			return i;
	}
	return 0;
}

static bool join(const struct places *p, size_t l, char **out)
{
	size_t len = 1;

	for (size_t i = 0; i < p->n; i++)
		len += (p->place[i].text[l] ? strlen(p->place[i].text[l]) : 0) + 1;
	*out = malloc(len);
	if (!*out)
		return false;
	len = 0;
	for (size_t i = 0; i < p->n; i++)
		len += (size_t)sprintf(*out + len, "%s%s", i > 0 ? "," : "",
				       p->place[i].text[l] ? p->place[i].text[l] : "");
	return true;
}

/* Until pg.c has a use for them: libpq would print them. */
static void drop_notice(void *arg, const PGresult *res)
{
	(void)arg;
	(void)res;
}

static void restart_timer(struct pg_connecting *c)
{
	c->end_ns = c->timeout_ms ? clock_ns() + (uint64_t)c->timeout_ms * NS_PER_MS : 0;
}

/* Not PQconnectdbParams(), which leaves no moment to have notices dropped before there are some. */
static int begin(struct pg_connecting *c, struct deferred_error *err)
{
	struct keywords k = c->keywords;
	char *list[LISTS] = { NULL };
	bool joined = true;

	for (size_t l = 0; joined && l < LISTS; l++) {
		joined = join(&c->places, l, &list[l]);
		if (joined && *list[l])
			keyword(&k, lists[l], list[l]);
	}
	PQfinish(c->conn);
	c->conn = joined ? PQconnectStartParams(k.key, k.value, 0) : NULL;
	for (size_t l = 0; l < LISTS; l++)
		free(list[l]);
	if (!c->conn || PQstatus(c->conn) == CONNECTION_BAD)
		return failed(c, c->conn, err);
	PQsetNoticeReceiver(c->conn, drop_notice, NULL);
	PQsetErrorVerbosity(c->conn, PQERRORS_VERBOSE);
	c->next = PGRES_POLLING_WRITING;
	c->at = find_place(c);
	restart_timer(c);
	return 0;
}

/* The place that libpq is at does not answer. */
static int begin_with_others(struct pg_connecting *c, struct deferred_error *err)
{
	struct place *silent = &c->places.place[c->at];

	error_set(err, DEFERRED_ECONNECT, "connect", "cannot connect: server at \"%s\", port %s: timeout expired",
		  PQhost(c->conn), PQport(c->conn));
	error_hint(err, "is the server running, and is --db, DEFERRED_DB or database.conninfo right?");
	for (size_t l = 0; l < LISTS; l++)
		free(silent->text[l]);
	memmove(silent, silent + 1, (--c->places.n - c->at) * sizeof(*silent));
	/* libpq would take no host for not given, and go back to the list. */
	if (c->places.n == 0 ||
	    (c->places.n == 1 && !c->places.place[0].text[HOST] && !c->places.place[0].text[ADDRESS]))
		return DEFERRED_ECONNECT;
	error_clear(err);
	return begin(c, err);
}

/* ---- names ------------------------------------------------------------------------------------- */

static int look_up(struct pg_connecting *c, struct deferred_error *err)
{
	char **names = calloc(c->places.n, sizeof(*names));
	bool any = false;

	for (size_t i = 0; names && i < c->places.n; i++)
		if (is_name(&c->places.place[i])) {
			names[i] = c->places.place[i].text[HOST];
			any = true;
		}
	if (names && any)
		c->names = resolve_start(names, c->places.n);
	free(names);
	if (!names)
		return no_memory(err);
	if (any && !c->names)
		return error_errno(err, DEFERRED_ECONNECT, "connect",
				   "cannot connect: cannot start to look up a host name\nraise the limit for memory, "
				   "open files (ulimit -n) or threads (ulimit -u)");
	c->began_ns = clock_ns();
	restart_timer(c);
	return any ? 0 : begin(c, err);
}

static bool is_known(const struct pg_connecting *c, size_t i)
{
	const char *why;

	return !is_name(&c->places.place[i]) || resolve_found(c->names, i, &why);
}

static uint64_t names_end_ns(const struct pg_connecting *c)
{
	uint64_t soon_ns = c->began_ns + NAMES_NS;

	for (size_t i = 0; i < c->places.n; i++)
		if (is_known(c, i))
			return c->end_ns && c->end_ns < soon_ns ? c->end_ns : soon_ns;
	return c->end_ns;
}

static int no_address(const struct pg_connecting *c, struct deferred_error *err)
{
	const char *why;

	resolve_found(c->names, 0, &why);
	if (why)
		error_set(err, DEFERRED_ECONNECT, "connect",
			  "cannot connect: could not translate host name \"%.255s\" to address: %s",
			  c->places.place[0].text[HOST], why);
	else
		error_set(err, DEFERRED_ECONNECT, "connect",
			  "cannot connect: could not translate host name \"%.255s\" to address: "
			  "no name server has answered for %.1f s",
			  c->places.place[0].text[HOST], (double)(clock_ns() - c->began_ns) / 1e9);
	error_hint(err, "is the host name right, and do the name servers in /etc/resolv.conf answer?");
	return DEFERRED_ECONNECT;
}

/* From names to addresses: each of them is a place. */
static int take_names(struct pg_connecting *c, struct deferred_error *err)
{
	struct places found = { 0 };
	bool added = true;
	const char *why;
	int rc;

	for (size_t i = 0; added && i < c->places.n; i++) {
		const char *const *text = (const char *const *)c->places.place[i].text;
		char address[NI_MAXHOST];

		if (!is_name(&c->places.place[i]))
			added = places_add(&found, text);
		else
			for (const struct addrinfo *a = resolve_found(c->names, i, &why); added && a; a = a->ai_next)
				if (write_address(a->ai_addr, a->ai_addrlen, address, sizeof(address)))
					added = places_add(&found, (const char *[]){ text[HOST], address, text[PORT] });
	}
	if (!added || found.n == 0) {
		rc = added ? no_address(c, err) : no_memory(err);
		places_clear(&found);
		return rc;
	}
	places_clear(&c->places);
	c->places = found;
	resolve_end(c->names);
	c->names = NULL;
	return begin(c, err);
}

/* ---- from outside ------------------------------------------------------------------------------ */

int pg_connect_start(struct pg_connecting **out, const char *conninfo, const char *program, int limit_ms,
		     struct deferred_error *err)
{
	struct pg_connecting *c = calloc(1, sizeof(*c));
	struct keywords all;
	int rc;

	*out = NULL;
	if (!c)
		return no_memory(err);
	rc = connect_keywords(&all, &c->opts, conninfo, program, err);
	if (rc == 0)
		rc = ask_places(c, &all, limit_ms, err);
	for (int i = 0; rc == 0 && i < all.n; i++)
		if (!is_list(all.key[i]))
			keyword(&c->keywords, all.key[i], all.value[i]);
	if (rc == 0)
		rc = look_up(c, err);
	if (rc == 0)
		*out = c;
	else
		pg_connect_end(c);
	return rc;
}

int pg_connect_fd(const struct pg_connecting *c)
{
	return c->conn ? PQsocket(c->conn) : resolve_fd(c->names);
}

short pg_connect_events(const struct pg_connecting *c)
{
	return !c->conn || c->next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
}

int pg_connect_poll(struct pg_connecting *c, PGconn **conn, struct deferred_error *err)
{
	struct pollfd fd = { pg_connect_fd(c), pg_connect_events(c), 0 };
	bool all = c->names && resolve_pending(c->names) == 0;
	uint64_t end_ns = c->names ? names_end_ns(c) : c->end_ns;

	*conn = NULL;
	/* Asked before the socket is ready, libpq would wait for it. */
	if (c->conn && poll(&fd, 1, 0) > 0) {
		size_t at;

		c->next = PQconnectPoll(c->conn);
		if (c->next == PGRES_POLLING_FAILED)
			return failed(c, c->conn, err);
		if (c->next == PGRES_POLLING_OK) {
			PQsetErrorVerbosity(c->conn, PQERRORS_DEFAULT);
			*conn = c->conn;
			c->conn = NULL;
			return 0;
		}
		at = find_place(c);
		if (at != c->at)
			restart_timer(c);
		c->at = at;
		return 0;
	}
	if (!all && (!end_ns || clock_ns() < end_ns))
		return 0;
	return c->conn ? begin_with_others(c, err) : take_names(c, err);
}

int pg_connect_wait(struct pg_connecting *c, PGconn **conn, struct deferred_error *err)
{
	int rc = 0;

	for (*conn = NULL; rc == 0 && !*conn;) {
		uint64_t end_ns = c->names ? names_end_ns(c) : c->end_ns, now = clock_ns();
		struct pollfd fd = { pg_connect_fd(c), pg_connect_events(c), 0 };

		poll(&fd, 1, !end_ns ? -1 : end_ns > now ? (int)((end_ns - now) / NS_PER_MS) + 1 : 0);
		rc = pg_connect_poll(c, conn, err);
	}
	return rc;
}

void pg_connect_end(struct pg_connecting *c)
{
	if (!c)
		return;
	PQfinish(c->conn);
	resolve_end(c->names);
	places_clear(&c->places);
	PQconninfoFree(c->opts);
	free(c);
}
