/* SPDX-License-Identifier: MIT */
/*
 * web_pool - threads that answer requests, and the database sessions that they use. A session belongs to one user. It
 * is kept for a minute after its last request, and for five minutes after its login. It is found again by the name and
 * a keyed hash of the password.
 */
#ifndef WEB_POOL_H
#define WEB_POOL_H

#include "web_request.h"

/* Called by a thread, where it may wait. r->reply is the answer. */
struct web_pool_work {
	void (*answer)(struct web_request *r);
	/* It is not answered: logins are tried too often, or there is too much to do. */
	void (*refuse)(struct web_request *r, bool often);
};

/* conninfo is borrowed. NULL: no memory or no thread, and err says so. */
struct web_pool *web_pool_start(struct web *web, int threads, const struct web_pool_work *work,
				struct deferred_error *err);

/* The request is borrowed until its wake(), which comes at once if it would have to wait too long. */
void web_pool_submit(struct web_pool *p, struct web_request *r);

/* Close sessions that nobody uses, and answer requests that have waited too long. To be called every second or so. */
void web_pool_tick(struct web_pool *p);
void web_pool_stop(struct web_pool *p);

/* A session for a request, in r->pg. WEB_POOL_REFUSED: the name or the password is wrong. */
enum web_pool_outcome { WEB_POOL_OK, WEB_POOL_REFUSED, WEB_POOL_AWAY };
enum web_pool_outcome web_pool_open(struct web_pool *p, struct web_request *r, struct deferred_error *err);

/* The request needs its session no longer. */
void web_pool_close(struct web_pool *p, struct web_request *r);

#endif
