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
#define OLDEST_NS (300 * NS_PER_S) /* since the login: a password that was changed or a login that was taken away counts by then */
#define TRIES 5         /* that may fail in a minute, of one name or address */
#define TRIERS 256

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
	unsigned char mac[CRYPTO_SHA256_BYTES];
	uint64_t since_ns;
	int failed;
};

struct desk {
	struct web *web;
	pthread_t thread[THREADS_MAX];
	int threads;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct visit *first, **last;
	bool stopping;
	struct session *idle;
	int idle_len;
	struct trier triers[TRIERS];
};

/* ---- tries ------------------------------------------------------------------------------------ */

/* Locked. NULL: it never failed, and make is false. */
static struct trier *trier(struct desk *d, char kind, const char *name, bool make)
{
	char text[GUARD_NAME_SIZE + 2];
	unsigned char mac[CRYPTO_SHA256_BYTES];
	struct trier *oldest = &d->triers[0];
	uint64_t now = clock_ns();

	text[0] = kind;
	strncpy(text + 1, name, sizeof(text) - 2);
	text[sizeof(text) - 1] = '\0';
	if (!crypto_hmac_sha256(d->web->key, GUARD_KEY_BYTES, text, strlen(text), mac))
		return NULL;
	for (size_t i = 0; i < TRIERS; i++) {
		struct trier *t = &d->triers[i];

		if (t->failed > 0 && now - t->since_ns > KEEP_NS)
			t->failed = 0;
		if (t->failed > 0 && memcmp(t->mac, mac, sizeof(mac)) == 0)
			return t;
		if (t->failed == 0 || (oldest->failed > 0 && t->since_ns < oldest->since_ns))
			oldest = t;
	}
	if (!make)
		return NULL;
	memcpy(oldest->mac, mac, sizeof(mac));
	oldest->since_ns = now;
	oldest->failed = 0;
	return oldest;
}

static bool tries_often(struct desk *d, const struct visit *v)
{
	struct trier *name, *address;
	bool often;

	pthread_mutex_lock(&d->lock);
	name = trier(d, 'n', v->user, false);
	address = v->address[0] ? trier(d, 'a', v->address, false) : NULL;
	often = (name && name->failed >= TRIES) || (address && address->failed >= TRIES);
	pthread_mutex_unlock(&d->lock);
	return often;
}

static void failed(struct desk *d, const struct visit *v)
{
	struct trier *t;

	pthread_mutex_lock(&d->lock);
	if ((t = trier(d, 'n', v->user, true)))
		t->failed++;
	if (v->address[0] && (t = trier(d, 'a', v->address, true)))
		t->failed++;
	pthread_mutex_unlock(&d->lock);
}

/* ---- sessions --------------------------------------------------------------------------------- */

static bool password_mac(const struct desk *d, const struct visit *v, unsigned char mac[CRYPTO_SHA256_BYTES])
{
	return crypto_hmac_sha256(d->web->key, GUARD_KEY_BYTES, v->password ? v->password : "", v->password ? strlen(v->password) : 0, mac);
}

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
		if (tries_often(d, v))
			return DESK_OFTEN;
		rc = pg_open_as(&v->pg, d->web->conninfo, "deferred_web", v->user, v->password, err);
	}
	if (rc == 0) {
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

void desk_tick(struct desk *d)
{
	struct session *old = NULL, **at;
	uint64_t now = clock_ns();

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

	pthread_mutex_lock(&d->lock);
	for (;;) {
		struct visit *v = d->first;

		if (!v && d->stopping)
			break;
		if (!v) {
			pthread_cond_wait(&d->more, &d->lock);
			continue;
		}
		d->first = v->next;
		if (!d->first)
			d->last = &d->first;
		pthread_mutex_unlock(&d->lock);
		visit_run(v);
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
	while (d->threads < threads && d->threads < THREADS_MAX && pthread_create(&d->thread[d->threads], NULL, serve, d) == 0)
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
	pthread_mutex_lock(&d->lock);
	v->next = NULL;
	*d->last = v;
	d->last = &v->next;
	pthread_cond_signal(&d->more);
	pthread_mutex_unlock(&d->lock);
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
