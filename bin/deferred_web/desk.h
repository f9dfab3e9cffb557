/* SPDX-License-Identifier: MIT */
/*
 * desk - threads that serve visits, and the sessions of the database that they do it by. A session is one user's, and
 * kept for a minute after its last visit and five after its login, found again by name and a keyed hash of the
 * password.
 */
#ifndef DESK_H
#define DESK_H

#include "web.h"

/* conninfo is borrowed. NULL: no memory or no thread, and err says so. */
struct desk *desk_start(struct web *web, int threads, struct deferred_error *err);

/* The visit is borrowed until its wake(), which comes at once for one that would have to wait too long. */
void desk_submit(struct desk *desk, struct visit *v);

/* Close sessions that nobody uses, and answer visits that have waited too long. To be called every second or so. */
void desk_tick(struct desk *desk);
void desk_stop(struct desk *desk);

/* A session for a visit, in v->pg. DESK_REFUSED: name and password are not right. */
enum desk_outcome { DESK_OK, DESK_REFUSED, DESK_AWAY };
enum desk_outcome desk_open(struct desk *desk, struct visit *v, struct deferred_error *err);

/* The visit is done with it. */
void desk_close(struct desk *desk, struct visit *v);

#endif
