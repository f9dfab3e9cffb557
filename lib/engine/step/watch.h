/* SPDX-License-Identifier: MIT */
/* watch - which of the other workers have died? */
#ifndef WATCH_H
#define WATCH_H

#include "store/store_worker.h"

#define WATCH_SUSPECTS 64

struct watch {
	bool again;        /* our own lock is to be taken again */
	uint64_t again_ns; /* not before */
	bool others;       /* there are other workers */
	uint64_t look_ns;  /* the next look at them, not before */
	struct {
		struct store_silent who;
		uint64_t since_ns;
	} suspect[WATCH_SUSPECTS]; /* workers without a lock */
	size_t suspects;
};

struct watch_in {
	struct pg *pg;
	int64_t worker;
	int32_t max_attempts;
	bool looks;             /* it is a service */
	store_dead_fn *is_dead; /* see struct worker_setup */
	void *data;
};

void watch_connected(struct watch *watch, uint64_t now); /* again, and with a lock */
void watch_unlocked(struct watch *watch);                /* our lock was lost with a cycle */
/* Between cycles. Returns 1 when jobs of dead workers have become ready, 0 or DEFERRED_ELOST. */
int watch_run(struct watch *watch, const struct watch_in *in, uint64_t now, struct deferred_error *err);
uint64_t watch_due_ns(const struct watch *watch);
void watch_log_losses(const struct store_losses *losses, const char *why);

#endif
