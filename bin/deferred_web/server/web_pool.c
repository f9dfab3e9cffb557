/* SPDX-License-Identifier: MIT */
#include "web_pool.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 32
#define SESSIONS_MAX 64 /* idle ones */
#define KEEP_NS (60 * NS_PER_S)
/* since the login: after that, a changed password or a revoked login counts */
#define OLDEST_NS (300 * NS_PER_S)
/* Logins of a name from an address, or from an address, that may fail in a minute. Later ones wait for their turn. */
#define TRIES 5
#define TURN_NS NS_PER_S               /* of a name at an address */
#define ADDRESS_TURN_NS (NS_PER_S / 5) /* of an address: it may be that of a proxy */
#define TRIERS 256
#define KNOWN 256
#define KNOWN_NS (12 * 3600 * NS_PER_S)
#define TURN_WAIT_NS (8 * NS_PER_S) /* a later turn is not waited for */
#define WAIT_NS (10 * NS_PER_S)
#define WAITING_MAX 32 /* requests of one group */

struct session {
	struct session *next;
	char user[GUARD_NAME_SIZE];
	unsigned char mac[CRYPTO_SHA256_BYTES]; /* of the password */
	struct pg *pg;
	uint64_t born_ns, used_ns;
	struct store_web_me me; /* of a login that acts for itself, as it was at me_ns */
	uint64_t me_ns;
};

/* A name or address whose logins failed. The oldest one is replaced first. */
struct trier {
	uint64_t who, since_ns, turn_ns; /* turn_ns: when the next try may begin */
	int failed;
};

/* A name and password that were right. */
struct known {
	uint64_t who, at_ns;
};

struct web_pool {
	struct web *web;
	const struct web_pool_work *work;
	pthread_t thread[THREADS_MAX];
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct web_request *first, **last; /* waiting */
	struct web_request *served;
	bool stopping;
	struct session *idle;
	int idle_len;
	struct trier triers[TRIERS];
	struct known known[KNOWN];
};

static bool password_mac(const struct web_pool *p, const struct web_request *r, unsigned char mac[CRYPTO_SHA256_BYTES])
{
	return crypto_hmac_sha256(p->web->key, GUARD_KEY_BYTES, r->password ? r->password : "",
				  r->password ? strlen(r->password) : 0, mac);
}

/* ---- whose turn it is ------------------------------------------------------------------------- */

/* A number for two texts. Nobody outside can choose it. */
static uint64_t group_number(const struct web_pool *p, char kind, const char *name, const void *more, size_t len)
{
	unsigned char text[1 + GUARD_NAME_SIZE + sizeof(((struct web_request *)0)->address)] = { 0 },
									     mac[CRYPTO_SHA256_BYTES] = { 0 };
	uint64_t number;

	text[0] = (unsigned char)kind;
	memcpy(text + 1, name, strnlen(name, GUARD_NAME_SIZE - 1));
	memcpy(text + 1 + GUARD_NAME_SIZE, more, len);
	crypto_hmac_sha256(p->web->key, GUARD_KEY_BYTES, (char *)text, sizeof(text), mac);
	memcpy(&number, mac, sizeof(number));
	return number;
}

/* A trusted proxy appends the address of its client to the list. */
static void client_address(const struct web_request *r, char address[sizeof(r->address)])
{
	const char *list = guard_peer(&r->http, r->web->proxies) ? request_value(&r->http, "x-forwarded-for") : NULL;
	const char *comma = list ? strrchr(list, ',') : NULL, *from = list ? (comma ? comma + 1 : list) : r->address;

	strncpy(address, from + strspn(from, " "), sizeof(r->address) - 1);
}

static bool is_known_login(const struct web_pool *p, uint64_t who)
{
	for (size_t i = 0; i < KNOWN; i++)
		if (p->known[i].who == who && p->known[i].at_ns != 0)
			return clock_ns() - p->known[i].at_ns < KNOWN_NS;
	return false;
}

/* A name and password that were accepted replace the oldest entry. From then on the request counts as one of that
 * login. */
static void remember_login(struct web_pool *p, struct web_request *r)
{
	struct known *place = &p->known[0];

	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < KNOWN && place->who != r->login; i++)
		if (p->known[i].who == r->login || p->known[i].at_ns < place->at_ns)
			place = &p->known[i];
	*place = (struct known){ r->login, clock_ns() };
	if (p->web->auth != WEB_NONE)
		r->group = r->login;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
}

/* Locked. make: add it where it has not failed lately. NULL: it has not. */
static struct trier *find_trier(struct web_pool *p, uint64_t who, bool make)
{
	struct trier *oldest = &p->triers[0];
	uint64_t now = clock_ns();

	for (size_t i = 0; i < TRIERS; i++) {
		struct trier *t = &p->triers[i];

		if (t->failed > 0 && now - t->since_ns > KEEP_NS)
			t->failed = 0;
		if (t->failed > 0 && t->who == who)
			return t;
		if (t->failed == 0 || (oldest->failed > 0 && t->since_ns < oldest->since_ns))
			oldest = t;
	}
	if (!make)
		return NULL;
	*oldest = (struct trier){ .who = who, .since_ns = now };
	return oldest;
}

static void count_failure(struct web_pool *p, const struct web_request *r)
{
	pthread_mutex_lock(&p->lock);
	find_trier(p, r->pair, true)->failed++;
	find_trier(p, r->group, true)->failed++;
	pthread_mutex_unlock(&p->lock);
}

/*
 * Locked. Returns when the login may be tried. Where many logins failed, later ones are tried one after the other. None
 * is refused because of others. Logins that succeeded lately do not come here.
 */
static uint64_t next_turn(struct web_pool *p, const struct web_request *r)
{
	struct trier *of[] = { find_trier(p, r->pair, false), find_trier(p, r->group, false) };
	static const uint64_t takes_ns[] = { TURN_NS, ADDRESS_TURN_NS };
	uint64_t at = r->submitted_ns;

	for (size_t i = 0; i < 2; i++)
		if (of[i] && of[i]->failed >= TRIES && of[i]->turn_ns > at)
			at = of[i]->turn_ns;
	for (size_t i = 0; i < 2 && at - r->submitted_ns < TURN_WAIT_NS; i++)
		if (of[i])
			of[i]->turn_ns = at + takes_ns[i];
	return at;
}

/* Locked. A group shares threads. It is a login, or all unknown logins from one address. */
static void assign_group(struct web_pool *p, struct web_request *r)
{
	char address[sizeof(r->address)] = "";
	unsigned char mac[CRYPTO_SHA256_BYTES] = { 0 };

	client_address(r, address);
	password_mac(p, r, mac);
	r->login = group_number(p, 'l', r->user, mac, sizeof(mac));
	r->pair = group_number(p, 'p', r->user, address, sizeof(address));
	r->group = r->login;
	r->submitted_ns = r->turn_ns = clock_ns();
	if (p->web->auth == WEB_NONE || (p->web->auth == WEB_POSTGRES && !is_known_login(p, r->login)))
		r->group = group_number(p, 'a', "", address, sizeof(address));
	if (p->web->auth == WEB_POSTGRES && r->group != r->login)
		r->turn_ns = next_turn(p, r);
}

static size_t count_group(const struct web_request *list, uint64_t group)
{
	size_t n = 0;

	for (; list; list = list->next)
		n += list->group == group;
	return n;
}

/*
 * Locked. No group has more than half of the threads. A request whose group has the fewest threads is first. Among
 * several it is the one that found the fewest requests of its group when it came.
 */
static struct web_request *next_request(struct web_pool *p)
{
	size_t share = (size_t)(p->threads + 1) / 2, fewest = SIZE_MAX;
	struct web_request **best = NULL, *r;
	uint64_t now = clock_ns();

	for (struct web_request **at = &p->first; *at; at = &(*at)->next) {
		size_t served = count_group(p->served, (*at)->group);

		if (served >= share || ((*at)->turn_ns > now && !p->stopping))
			continue;
		if (best && (served > fewest || (served == fewest && (*at)->before >= (*best)->before)))
			continue;
		best = at;
		fewest = served;
	}
	if (!best)
		return NULL;
	r = *best;
	*best = r->next;
	if (!*best)
		p->last = best;
	return r;
}

/* ---- sessions --------------------------------------------------------------------------------- */

static struct session *free_session(struct session *s)
{
	struct session *next = s->next;

	pg_close(s->pg);
	free(s);
	return next;
}

/* The name by which a session is found. Sessions that act as roles have none. */
static const char *session_name(const struct web_pool *p, const struct web_request *r)
{
	return p->web->auth == WEB_POSTGRES ? r->user : "";
}

static struct session *take_session(struct web_pool *p, const struct web_request *r,
				    const unsigned char mac[CRYPTO_SHA256_BYTES])
{
	struct session **at = &p->idle, *s;

	pthread_mutex_lock(&p->lock);
	for (s = p->idle; s; s = s->next) {
		if (strcmp(s->user, session_name(p, r)) == 0 && crypto_equal(s->mac, mac, CRYPTO_SHA256_BYTES))
			break;
		at = &s->next;
	}
	if (s) {
		*at = s->next;
		p->idle_len--;
	}
	pthread_mutex_unlock(&p->lock);
	return s;
}

enum web_pool_outcome web_pool_open(struct web_pool *p, struct web_request *r, struct deferred_error *err)
{
	unsigned char mac[CRYPTO_SHA256_BYTES];
	struct session *s;
	int rc;

	if (!password_mac(p, r, mac)) {
		error_set(err, DEFERRED_ESYSTEM, "web",
			  "cannot compute an HMAC\nlibcrypto lacks SHA-256: repair its installation");
		return WEB_POOL_AWAY;
	}
	while ((s = take_session(p, r, mac))) {
		r->pg = pg_alive(s->pg) ? s->pg : NULL;
		if (r->pg) {
			r->pg_born_ns = s->born_ns;
			if (!r->role) {
				r->me = s->me;
				r->me_ns = s->me_ns;
			}
			free(s);
			return WEB_POOL_OK;
		}
		free_session(s);
	}
	if (p->web->auth != WEB_POSTGRES)
		rc = pg_open(&r->pg, p->web->conninfo, "deferred_web", err);
	else
		rc = pg_open_as(&r->pg, p->web->conninfo, "deferred_web", r->user, r->password, err);
	if (rc == 0 && (rc = pg_pin(r->pg, err)) < 0)
		pg_close(r->pg);
	if (rc == 0) {
		remember_login(p, r);
		pg_on_notice(r->pg, NULL, NULL);
		r->pg_born_ns = clock_ns();
		return WEB_POOL_OK;
	}
	r->pg = NULL;
	if (p->web->auth != WEB_POSTGRES || strcmp(err->where, PG_LOGIN) != 0)
		return WEB_POOL_AWAY;
	count_failure(p, r);
	return WEB_POOL_REFUSED;
}

void web_pool_close(struct web_pool *p, struct web_request *r)
{
	struct session *s = NULL;

	if (!r->pg)
		return;
	if (!pg_broken(r->pg) && !pg_in_transaction(r->pg) && clock_ns() - r->pg_born_ns < OLDEST_NS)
		s = calloc(1, sizeof(*s));
	if (s && password_mac(p, r, s->mac)) {
		memcpy(s->user, session_name(p, r), strlen(session_name(p, r)) + 1);
		s->pg = r->pg;
		s->born_ns = r->pg_born_ns;
		s->used_ns = clock_ns();
		s->me = r->me;
		s->me_ns = r->me_ns;
		pthread_mutex_lock(&p->lock);
		if (p->idle_len < SESSIONS_MAX) {
			s->next = p->idle;
			p->idle = s;
			p->idle_len++;
			r->pg = NULL;
		}
		pthread_mutex_unlock(&p->lock);
	}
	if (r->pg) {
		pg_close(r->pg);
		free(s);
	}
	r->pg = NULL;
}

/* Refuse requests that have waited too long. */
static void answer_late(struct web_pool *p)
{
	struct web_request *late = NULL, *r;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&p->lock);
	for (struct web_request **at = &p->first; (r = *at);) {
		if (now - r->submitted_ns < WAIT_NS) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = late;
		late = r;
	}
	for (p->last = &p->first; *p->last;)
		p->last = &(*p->last)->next;
	pthread_cond_broadcast(&p->more); /* some may be tried now */
	pthread_mutex_unlock(&p->lock);
	while ((r = late)) {
		late = r->next;
		p->work->refuse(r, false);
		r->wake(r->wake_data);
	}
}

void web_pool_tick(struct web_pool *p)
{
	struct session *old = NULL, **at;
	uint64_t now = clock_ns();

	answer_late(p);
	pthread_mutex_lock(&p->lock);
	for (at = &p->idle; *at;) {
		struct session *s = *at;

		if (now - s->used_ns < KEEP_NS && now - s->born_ns < OLDEST_NS) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		p->idle_len--;
		s->next = old;
		old = s;
	}
	pthread_mutex_unlock(&p->lock);
	while (old)
		old = free_session(old);
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *serve_requests(void *data)
{
	struct web_pool *p = data;
	struct web_request *r, **at;

	pthread_mutex_lock(&p->lock);
	for (;;) {
		if (!(r = next_request(p))) {
			if (p->stopping && !p->first)
				break;
			pthread_cond_wait(&p->more, &p->lock);
			continue;
		}
		r->next = p->served;
		p->served = r;
		pthread_mutex_unlock(&p->lock);
		p->work->answer(r);
		pthread_mutex_lock(&p->lock);
		for (at = &p->served; *at != r; at = &(*at)->next)
			;
		*at = r->next;
		pthread_cond_broadcast(&p->more);
		pthread_mutex_unlock(&p->lock);
		r->wake(r->wake_data);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

struct web_pool *web_pool_start(struct web *web, int threads, const struct web_pool_work *work,
				struct deferred_error *err)
{
	struct web_pool *p = calloc(1, sizeof(*p));

	if (!p) {
		error_set(err, DEFERRED_ENOMEM, "pool", "out of memory");
		return NULL;
	}
	p->web = web;
	p->work = work;
	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	while (p->threads < threads && p->threads < THREADS_MAX &&
	       pthread_create(&p->thread[p->threads], NULL, serve_requests, p) == 0)
		p->threads++;
	if (p->threads == 0) {
		error_set(err, DEFERRED_ESYSTEM, "pool",
			  "cannot start a thread\nraise the limit of processes (ulimit -u)");
		web_pool_stop(p);
		return NULL;
	}
	return p;
}

void web_pool_submit(struct web_pool *p, struct web_request *r)
{
	bool often, crowded;

	pthread_mutex_lock(&p->lock);
	assign_group(p, r);
	r->before = count_group(p->first, r->group) + count_group(p->served, r->group);
	often = r->turn_ns - r->submitted_ns >= TURN_WAIT_NS;
	crowded = r->before >= WAITING_MAX;
	if (!often && !crowded) {
		r->next = NULL;
		*p->last = r;
		p->last = &r->next;
		pthread_cond_signal(&p->more);
	}
	pthread_mutex_unlock(&p->lock);
	if (often || crowded) {
		p->work->refuse(r, often);
		r->wake(r->wake_data);
	}
}

void web_pool_stop(struct web_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	for (int i = 0; i < p->threads; i++)
		pthread_join(p->thread[i], NULL);
	while (p->idle)
		p->idle = free_session(p->idle);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	explicit_bzero(p, sizeof(*p));
	free(p);
}
