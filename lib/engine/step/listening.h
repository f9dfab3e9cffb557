/* SPDX-License-Identifier: MIT */
/* listening - being woken by NOTIFY (setting "listen"). */
#ifndef LISTENING_H
#define LISTENING_H

#include "engine/pure/wake.h"
#include "store/cycle/cycle.h"

struct listening {
	bool wanted;     /* the setting */
	bool begun;      /* tried on this connection */
	bool complained; /* about a pooler */
	struct wake wake;
	uint64_t check_ns;   /* a job of ours may have been cancelled: renew our leases then; 0: not the case */
	uint64_t checked_ns; /* the last renewal was sent */
};

void listening_set_up(struct listening *l, bool wanted);
void listening_lost(struct listening *l); /* with the connection */
/* Returns 1 if the connection has begun to be notified, so all has to be looked at, or an error. */
int listening_begin(struct listening *l, struct pg *pg, const struct deferred_backoff *interval,
		    struct deferred_error *err);
/* At each turn: reads the notifications that came. */
void listening_read(struct listening *l, struct pg *pg, const struct store_scope *scope, int64_t worker, uint64_t now);
/* The step, to a cycle that does other things too. */
int listening_add(struct listening *l, struct store_cycle *cycle, const struct store_scope *scope, enum wake_step step,
		  bool claims, struct deferred_error *err);
bool listening_needs_cycle(enum wake_step step); /* a cycle of its own, where there is no other */
int listening_add_step(struct listening *l, struct store_cycle *cycle, const struct store_scope *scope,
		       enum wake_step step, int64_t worker, int64_t from_us, struct deferred_error *err);
void listening_after(struct listening *l, struct plan *plan, struct store_cycle *cycle, uint64_t now);
void listening_checked(struct listening *l, uint64_t now); /* a renewal is being sent */
void listening_no_leases(struct listening *l);

#endif
