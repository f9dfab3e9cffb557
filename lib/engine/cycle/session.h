/* SPDX-License-Identifier: MIT */
/* session - the session with the server: registered, lost with its connection, and taken up again. */
#ifndef SESSION_H
#define SESSION_H

#include "engine/cycle/trip.h"

int session_lineage(const struct trip *t, struct deferred_error *err);  /* may we work for this server? */
int session_register(struct trip *t, struct deferred_error *err);       /* at the start */
int session_register_again(struct trip *t, struct deferred_error *err); /* the server does not know this worker */
void session_lose(struct trip *t, const struct deferred_error *err, uint64_t now);
/* At each turn while the connection is lost. Returns an error if a step failed: the connection is lost again. */
int session_connect(struct trip *t, uint64_t now, struct deferred_error *err);
/* The run ends, since the server is away for too long. */
bool session_given_up(const struct trip *t, uint64_t now);
void session_log_given_up(struct trip *t);
/* Queues to be served that do not exist yet. Between cycles, and before the first one. */
void session_log_missing_queues(const struct trip *t);

#endif
