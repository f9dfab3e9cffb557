/* SPDX-License-Identifier: MIT */
#include "desk.h"

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 32
#define SESSIONS_MAX 64 /* idle ones */
#define KEEP_NS (60 * NS_PER_S)
/* since the login: a password that was changed or a login that was taken away counts by then */
#define OLDEST_NS (300 * NS_PER_S)
/* Tries that may fail in a minute, of a name at an address or of an address, before others have to wait for their turn.
 * */
#define TRIES 5
#define TURN_NS NS_PER_S               /* of a name at an address */
#define ADDRESS_TURN_NS (NS_PER_S / 5) /* of an address: it may be that of a proxy */
#define TRIERS 256
#define KNOWN 256
#define KNOWN_NS (12 * 3600 * NS_PER_S)
#define TURN_WAIT_NS (8 * NS_PER_S) /* a later turn is not waited for */
#define WAIT_NS (10 * NS_PER_S)
#define WAITING_MAX 32 /* visits of one group */

struct session {
	struct session *next;
	char user[GUARD_NAME_SIZE];
	unsigned char mac[CRYPTO_SHA256_BYTES]; /* of the password */
	struct pg *pg;
	uint64_t born_ns, used_ns;
	struct store_web_me me; /* of a login that acts for itself, as it was at me_ns */
	uint64_t me_ns;
};

/* Who failed to log in. An old one gives its place up. */
struct trier {
	uint64_t who, since_ns, turn_ns; /* turn_ns: when the next try may begin */
	int failed;
};

/* A name and password that were right. */
struct known {
	uint64_t who, at_ns;
};

struct desk {
	struct web *web;
	pthread_t thread[THREADS_MAX];
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct visit *first, **last; /* waiting */
	struct visit *served;
	bool stopping;
	struct session *idle;
	int idle_len;
	struct trier triers[TRIERS];
	struct known known[KNOWN];
};

static bool password_mac(const struct desk *d, const struct visit *v, unsigned char mac[CRYPTO_SHA256_BYTES])
{
	return crypto_hmac_sha256(d->web->key, GUARD_KEY_BYTES, v->password ? v->password : "",
				  v->password ? strlen(v->password) : 0, mac);
}

/* ---- whose turn it is ------------------------------------------------------------------------- */

/* A number for two texts, which nobody can choose. */
static uint64_t number_of(const struct desk *d, char kind, const char *name, const void *more, size_t len)
{
	unsigned char text[1 + GUARD_NAME_SIZE + sizeof(((struct visit *)0)->address)] = { 0 },
								       mac[CRYPTO_SHA256_BYTES] = { 0 };
	uint64_t number;

	text[0] = (unsigned char)kind;
	strncpy((char *)text + 1, name, GUARD_NAME_SIZE - 1);
	memcpy(text + 1 + GUARD_NAME_SIZE, more, len);
	crypto_hmac_sha256(d->web->key, GUARD_KEY_BYTES, (char *)text, sizeof(text), mac);
	memcpy(&number, mac, sizeof(number));
	return number;
}

/* The address of who asks. A proxy that is trusted adds the one that it sees to the list. */
static void client_of(const struct visit *v, char address[sizeof(v->address)])
{
	const char *list =
		guard_peer(&v->request, v->web->proxies) ? request_value(&v->request, "x-forwarded-for") : NULL;
	const char *comma = list ? strrchr(list, ',') : NULL, *from = list ? (comma ? comma + 1 : list) : v->address;

	strncpy(address, from + strspn(from, " "), sizeof(v->address) - 1);
}

static bool is_known(const struct desk *d, uint64_t who)
{
	for (size_t i = 0; i < KNOWN; i++)
		if (d->known[i].who == who && d->known[i].at_ns != 0)
			return clock_ns() - d->known[i].at_ns < KNOWN_NS;
	return false;
}

/* A name and password that were accepted replace the oldest entry. The later requests of the visit count separately. */
static void remember(struct desk *d, struct visit *v)
{
	struct known *place = &d->known[0];

	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < KNOWN && place->who != v->login; i++)
		if (d->known[i].who == v->login || d->known[i].at_ns < place->at_ns)
			place = &d->known[i];
	*place = (struct known){ v->login, clock_ns() };
	if (d->web->auth != WEB_NONE)
		v->group = v->login;
	pthread_cond_broadcast(&d->more);
	pthread_mutex_unlock(&d->lock);
}

/* Locked. One that has not failed lately: none, or a new one. */
static struct trier *trier(struct desk *d, uint64_t who, bool make)
{
	struct trier *oldest = &d->triers[0];
	uint64_t now = clock_ns();

	for (size_t i = 0; i < TRIERS; i++) {
		struct trier *t = &d->triers[i];

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

static void failed(struct desk *d, const struct visit *v)
{
	pthread_mutex_lock(&d->lock);
	trier(d, v->pair, true)->failed++;
	trier(d, v->group, true)->failed++;
	pthread_mutex_unlock(&d->lock);
}

/*
 * Locked. Names and passwords are tried one after the other where many were wrong, never refused for what others tried:
 * whoever was in lately does not come here, and all others wait for their turn. Returns when that is.
 */
static uint64_t turn_of(struct desk *d, const struct visit *v)
{
	struct trier *of[] = { trier(d, v->pair, false), trier(d, v->group, false) };
	static const uint64_t takes_ns[] = { TURN_NS, ADDRESS_TURN_NS };
	uint64_t at = v->submitted_ns;

	for (size_t i = 0; i < 2; i++)
		if (of[i] && of[i]->failed >= TRIES && of[i]->turn_ns > at)
			at = of[i]->turn_ns;
	for (size_t i = 0; i < 2 && at - v->submitted_ns < TURN_WAIT_NS; i++)
		if (of[i])
			of[i]->turn_ns = at + takes_ns[i];
	return at;
}

/* Locked. A group shares what threads there are: a login; all at an address that are not known. */
static void introduce(struct desk *d, struct visit *v)
{
	char address[sizeof(v->address)] = "";
	unsigned char mac[CRYPTO_SHA256_BYTES] = { 0 };

	client_of(v, address);
	password_mac(d, v, mac);
	v->login = number_of(d, 'l', v->user, mac, sizeof(mac));
	v->pair = number_of(d, 'p', v->user, address, sizeof(address));
	v->group = v->login;
	v->submitted_ns = v->turn_ns = clock_ns();
	if (d->web->auth == WEB_NONE || (d->web->auth == WEB_POSTGRES && !is_known(d, v->login)))
		v->group = number_of(d, 'a', "", address, sizeof(address));
	if (d->web->auth == WEB_POSTGRES && v->group != v->login)
		v->turn_ns = turn_of(d, v);
}

static size_t count_of(const struct visit *list, uint64_t group)
{
	size_t n = 0;

	for (; list; list = list->next)
		n += list->group == group;
	return n;
}

/* Locked. No group has more than half of the threads. First goes a visit whose group has the fewest threads; of
 * several, the one that found the fewest visits of its group when it came. */
static struct visit *next_visit(struct desk *d)
{
	size_t share = (size_t)(d->threads + 1) / 2, fewest = SIZE_MAX;
	struct visit **best = NULL, *v;
	uint64_t now = clock_ns();

	for (struct visit **at = &d->first; *at; at = &(*at)->next) {
		size_t served = count_of(d->served, (*at)->group);

		if (served >= share || ((*at)->turn_ns > now && !d->stopping))
			continue;
		if (best && (served > fewest || (served == fewest && (*at)->before >= (*best)->before)))
			continue;
		best = at;
		fewest = served;
	}
	if (!best)
		return NULL;
	v = *best;
	*best = v->next;
	if (!*best)
		d->last = best;
	return v;
}

/* ---- sessions --------------------------------------------------------------------------------- */

static struct session *session_free(struct session *s)
{
	struct session *next = s->next;

	pg_close(s->pg);
	free(s);
	return next;
}

/* The name a session is found by: of those that act as roles, none. */
static const char *login(const struct desk *d, const struct visit *v)
{
	return d->web->auth == WEB_POSTGRES ? v->user : "";
}

static struct session *take(struct desk *d, const struct visit *v, const unsigned char mac[CRYPTO_SHA256_BYTES])
{
	struct session **at = &d->idle, *s;

	pthread_mutex_lock(&d->lock);
	for (s = d->idle; s; s = s->next) {
		if (strcmp(s->user, login(d, v)) == 0 && crypto_equal(s->mac, mac, CRYPTO_SHA256_BYTES))
			break;
		at = &s->next;
	}
	if (s) {
		*at = s->next;
		d->idle_len--;
	}
	pthread_mutex_unlock(&d->lock);
	return s;
}

enum desk_outcome desk_open(struct desk *d, struct visit *v, struct deferred_error *err)
{
	unsigned char mac[CRYPTO_SHA256_BYTES];
	struct session *s;
	int rc;

	if (!password_mac(d, v, mac)) {
		error_set(err, DEFERRED_ESYSTEM, "web", "no HMAC");
		return DESK_AWAY;
	}
	while ((s = take(d, v, mac))) {
		v->pg = pg_alive(s->pg) ? s->pg : NULL;
		if (v->pg) {
			v->pg_born_ns = s->born_ns;
			if (!v->role) {
				v->me = s->me;
				v->me_ns = s->me_ns;
			}
			free(s);
			return DESK_OK;
		}
		session_free(s);
	}
	if (d->web->auth != WEB_POSTGRES) {
		rc = pg_open(&v->pg, d->web->conninfo, "deferred_web", err);
	} else {
		rc = pg_open_as(&v->pg, d->web->conninfo, "deferred_web", v->user, v->password, err);
	}
	if (rc == 0 && (rc = pg_pin(v->pg, err)) < 0)
		pg_close(v->pg);
	if (rc == 0) {
		remember(d, v);
		pg_on_notice(v->pg, NULL, NULL);
		v->pg_born_ns = clock_ns();
		return DESK_OK;
	}
	v->pg = NULL;
	if (d->web->auth != WEB_POSTGRES || strcmp(err->where, PG_LOGIN) != 0)
		return DESK_AWAY;
	failed(d, v);
	return DESK_REFUSED;
}

void desk_close(struct desk *d, struct visit *v)
{
	struct session *s = NULL;

	if (!v->pg)
		return;
	if (!pg_broken(v->pg) && !pg_in_transaction(v->pg) && clock_ns() - v->pg_born_ns < OLDEST_NS)
		s = calloc(1, sizeof(*s));
	if (s && password_mac(d, v, s->mac)) {
		memcpy(s->user, login(d, v), strlen(login(d, v)) + 1);
		s->pg = v->pg;
		s->born_ns = v->pg_born_ns;
		s->used_ns = clock_ns();
		s->me = v->me;
		s->me_ns = v->me_ns;
		pthread_mutex_lock(&d->lock);
		if (d->idle_len < SESSIONS_MAX) {
			s->next = d->idle;
			d->idle = s;
			d->idle_len++;
			v->pg = NULL;
		}
		pthread_mutex_unlock(&d->lock);
	}
	if (v->pg) {
		pg_close(v->pg);
		free(s);
	}
	v->pg = NULL;
}

/* What waits, and can be answered no more in time. */
static void answer_late(struct desk *d)
{
	struct visit *late = NULL, *v;
	uint64_t now = clock_ns();

	pthread_mutex_lock(&d->lock);
	for (struct visit **at = &d->first; (v = *at);) {
		if (now - v->submitted_ns < WAIT_NS) {
			at = &v->next;
			continue;
		}
		*at = v->next;
		v->next = late;
		late = v;
	}
	for (d->last = &d->first; *d->last;)
		d->last = &(*d->last)->next;
	pthread_cond_broadcast(&d->more); /* the turn of some has come */
	pthread_mutex_unlock(&d->lock);
	while ((v = late)) {
		late = v->next;
		visit_late(v, false);
		v->wake(v->wake_data);
	}
}

void desk_tick(struct desk *d)
{
	struct session *old = NULL, **at;
	uint64_t now = clock_ns();

	answer_late(d);
	pthread_mutex_lock(&d->lock);
	for (at = &d->idle; *at;) {
		struct session *s = *at;

		if (now - s->used_ns < KEEP_NS && now - s->born_ns < OLDEST_NS) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		d->idle_len--;
		s->next = old;
		old = s;
	}
	pthread_mutex_unlock(&d->lock);
	while (old)
		old = session_free(old);
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *serve(void *data)
{
	struct desk *d = data;
	struct visit *v, **at;

	pthread_mutex_lock(&d->lock);
	for (;;) {
		if (!(v = next_visit(d))) {
			if (d->stopping && !d->first)
				break;
			pthread_cond_wait(&d->more, &d->lock);
			continue;
		}
		v->next = d->served;
		d->served = v;
		pthread_mutex_unlock(&d->lock);
		visit_run(v);
		pthread_mutex_lock(&d->lock);
		for (at = &d->served; *at != v; at = &(*at)->next)
			;
		*at = v->next;
		pthread_cond_broadcast(&d->more);
		pthread_mutex_unlock(&d->lock);
		v->wake(v->wake_data);
		pthread_mutex_lock(&d->lock);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

struct desk *desk_start(struct web *web, int threads, struct deferred_error *err)
{
	struct desk *d = calloc(1, sizeof(*d));

	if (!d) {
		error_set(err, DEFERRED_ENOMEM, "desk", "out of memory");
		return NULL;
	}
	d->web = web;
	d->last = &d->first;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->more, NULL);
	while (d->threads < threads && d->threads < THREADS_MAX &&
	       pthread_create(&d->thread[d->threads], NULL, serve, d) == 0)
		d->threads++;
	if (d->threads == 0) {
		error_set(err, DEFERRED_ESYSTEM, "desk", "cannot start a thread");
		desk_stop(d);
		return NULL;
	}
	return d;
}

void desk_submit(struct desk *d, struct visit *v)
{
	bool often, crowded;

	pthread_mutex_lock(&d->lock);
	introduce(d, v);
	v->before = count_of(d->first, v->group) + count_of(d->served, v->group);
	often = v->turn_ns - v->submitted_ns >= TURN_WAIT_NS;
	crowded = v->before >= WAITING_MAX;
	if (!often && !crowded) {
		v->next = NULL;
		*d->last = v;
		d->last = &v->next;
		pthread_cond_signal(&d->more);
	}
	pthread_mutex_unlock(&d->lock);
	if (often || crowded) {
		visit_late(v, often);
		v->wake(v->wake_data);
	}
}

void desk_stop(struct desk *d)
{
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	pthread_cond_broadcast(&d->more);
	pthread_mutex_unlock(&d->lock);
	for (int i = 0; i < d->threads; i++)
		pthread_join(d->thread[i], NULL);
	while (d->idle)
		d->idle = session_free(d->idle);
	pthread_cond_destroy(&d->more);
	pthread_mutex_destroy(&d->lock);
	explicit_bzero(d, sizeof(*d));
	free(d);
}
