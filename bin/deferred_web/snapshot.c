/* SPDX-License-Identifier: MIT */
#include "snapshot.h"

#include "base/clock.h"
#include "page.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SNAPSHOTS 32
#define BODY_MAX (256u * 1024) /* larger ones are not kept */
/* a page that takes longer is made by each who wants it: it is the slow one that is to wait, not others behind it */
#define PATIENCE_NS (300 * NS_PER_MS)
/* what a session may see is asked for that often, where only what has changed is wanted */
#define RIGHTS_NS (60 * NS_PER_S)

struct snapshot {
	char *key;  /* NULL: a free place */
	char *body; /* NULL: none yet */
	size_t len;
	struct visit_hole holes[VISIT_HOLES_MAX];
	size_t holes_len;
	struct store_web_me me; /* of who had it made */
	uint64_t made_ns;
	bool making;
};

struct snapshots {
	pthread_mutex_t lock;
	pthread_cond_t made;
	struct snapshot list[SNAPSHOTS];
	uint64_t dropped_ns; /* what was begun before that is not kept */
};

struct snapshots *snapshots_new(void)
{
	struct snapshots *s = calloc(1, sizeof(*s));
	pthread_condattr_t clock;

	if (s) {
		pthread_mutex_init(&s->lock, NULL);
		pthread_condattr_init(&clock);
		pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
		pthread_cond_init(&s->made, &clock);
		pthread_condattr_destroy(&clock);
	}
	return s;
}

static void forget_body(struct snapshot *one)
{
	if (one->body)
		explicit_bzero(one->body, one->len);
	free(one->body);
	one->body = NULL;
}

static void forget(struct snapshot *one)
{
	forget_body(one);
	free(one->key);
	*one = (struct snapshot){ 0 };
}

void snapshots_free(struct snapshots *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < SNAPSHOTS; i++)
		forget(&s->list[i]);
	pthread_cond_destroy(&s->made);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- what tells them apart -------------------------------------------------------------------- */

static bool knows_rights(const struct visit *v)
{
	return v->role || (v->me_ns > 0 && clock_ns() - v->me_ns < RIGHTS_NS);
}

bool snapshot_wanted(const struct visit *v)
{
	return !v->route->action && request_value(&v->request, "if-none-match") && knows_rights(v);
}

/* The page, and who sees the same of it: a login may be told more than others of equal rights, as of sessions of the
 * database that are its own. In the arena. */
static const char *key(struct visit *v)
{
	const char *path = v->request.raw_path;

	if (v->role)
		return arena_printf(&v->arena, "%s %s?%s", v->role, path, v->query);
	return arena_printf(&v->arena, "%d%d%d %s %s?%s", v->me.viewer, v->me.reader, v->me.operator, v->me.role, path,
			    v->query);
}

/* Locked. NULL: there is none. */
static struct snapshot *find(struct snapshots *s, const char *name)
{
	for (size_t i = 0; i < SNAPSHOTS; i++)
		if (s->list[i].key && strcmp(s->list[i].key, name) == 0)
			return &s->list[i];
	return NULL;
}

/* Locked. The place of the oldest, if none is free; NULL: all are being made, or there is no memory. */
static struct snapshot *add(struct snapshots *s, const char *name)
{
	struct snapshot *place = NULL;

	for (size_t i = 0; i < SNAPSHOTS; i++) {
		struct snapshot *one = &s->list[i];

		if (!one->making && (!place || !one->key || (place->key && one->made_ns < place->made_ns)))
			place = one;
	}
	if (!place)
		return NULL;
	forget(place);
	place->key = strdup(name);
	return place->key ? place : NULL;
}

/* ---- what is kept ----------------------------------------------------------------------------- */

/* Locked. The page as it is for who asks. */
static void fill(struct visit *v, const struct snapshot *one)
{
	struct buf *b = &v->reply.body;
	size_t at = 0;

	if (v->role)
		v->me = one->me;
	for (size_t i = 0; i < one->holes_len; i++) {
		buf_add(b, one->body + at, one->holes[i].at - at);
		at = one->holes[i].at;
		if (one->holes[i].what == HOLE_TOKEN)
			page_token_text(v);
		else
			page_user_text(v);
	}
	buf_add(b, one->body + at, one->len - at);
	v->reply.status = 200;
}

/* Locked. What was left out has its place where it stood. */
static void keep(struct snapshot *one, const struct visit *v)
{
	const struct buf *b = &v->reply.body;
	size_t from = 0, len = 0;
	char *body = malloc(b->len + 1);

	forget_body(one);
	one->holes_len = 0;
	if (!body)
		return;
	for (size_t i = 0; i < v->holes_len; i++) {
		memcpy(body + len, b->p + from, v->holes[i].at - from);
		len += v->holes[i].at - from;
		from = v->holes[i].at + v->holes[i].len;
		one->holes[one->holes_len++] = (struct visit_hole){ .what = v->holes[i].what, .at = len };
	}
	memcpy(body + len, b->p + from, b->len - from);
	one->body = body;
	one->len = len + b->len - from;
	one->me = v->me;
	one->made_ns = clock_ns();
}

/* By the clock that is waited by. */
static struct timespec in_a_while(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += (long)PATIENCE_NS;
	if (at.tv_nsec >= (long)NS_PER_S) {
		at.tv_sec++;
		at.tv_nsec -= (long)NS_PER_S;
	}
	return at;
}

bool snapshot_get(struct snapshots *s, struct visit *v)
{
	const char *name = key(v);
	struct timespec end = in_a_while();
	struct snapshot *one;
	bool found = false;

	pthread_mutex_lock(&s->lock);
	while ((one = find(s, name)) && one->making && pthread_cond_timedwait(&s->made, &s->lock, &end) == 0)
		;
	if (one && one->body && clock_ns() - one->made_ns < SNAPSHOT_MS * NS_PER_MS) {
		fill(v, one);
		found = true;
	} else if (!one || !one->making) {
		v->making = one ? one : add(s, name);
		if (v->making)
			v->making->making = true;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

void snapshot_made(struct snapshots *s, struct visit *v)
{
	bool good = v->reply.status == 200 && !v->route->action && !v->reply.content_type &&
		    v->holes_len <= VISIT_HOLES_MAX && v->reply.body.len > 0 && v->reply.body.len <= BODY_MAX;
	const char *name = good && (v->role || v->me_ns > 0) ? key(v) : NULL;
	struct snapshot *one;

	pthread_mutex_lock(&s->lock);
	if (v->making) {
		v->making->making = false;
		pthread_cond_broadcast(&s->made);
		v->making = NULL;
	}
	/* One that another makes just now will be newer. */
	if (name && v->began_ns > s->dropped_ns && (one = find(s, name) ? find(s, name) : add(s, name)) && !one->making)
		keep(one, v);
	pthread_mutex_unlock(&s->lock);
}

void snapshots_drop(struct snapshots *s)
{
	pthread_mutex_lock(&s->lock);
	s->dropped_ns = clock_ns();
	for (size_t i = 0; i < SNAPSHOTS; i++)
		forget_body(&s->list[i]);
	pthread_mutex_unlock(&s->lock);
}

void snapshots_tick(struct snapshots *s)
{
	uint64_t now = clock_ns();

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < SNAPSHOTS; i++)
		if (s->list[i].key && !s->list[i].making && now - s->list[i].made_ns > SNAPSHOT_MS * NS_PER_MS)
			forget(&s->list[i]);
	pthread_mutex_unlock(&s->lock);
}
