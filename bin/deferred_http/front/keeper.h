/* SPDX-License-Identifier: MIT */
/*
 * keeper - the thread that keeps the accounts fresh and sweeps what has expired. It reads all accounts every
 * KEEPER_EVERY_MS, so that a key that was changed, or an account that was taken away, counts no longer after that time;
 * and at once when a request says that it cannot be right with those known, but not more often than every
 * KEEPER_PAUSE_MS.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include "protocol/accounts.h"
#include "base/error.h"

#define KEEPER_EVERY_MS 2000
#define KEEPER_PAUSE_MS 200

struct keeper;

/* Who waits for accounts read after it asked. */
struct keeper_waiter {
	void (*wake)(void *data); /* called once, by another thread */
	void *wake_data;
	bool fresh; /* out: false where the database is away */
	struct keeper_waiter *next;
};

/* conninfo is copied, and so is key_file: the file with the key that the accounts' keys are encrypted with. */
struct keeper *keeper_start(const char *conninfo, const char *key_file, struct deferred_error *err);

/* The accounts last read; accounts_release() them. NULL: they never could be read. */
struct accounts *keeper_accounts(struct keeper *k);

/* Why the accounts last read are none, or none that let anybody in, for strangers to read; NULL: all is well. Static.
 * */
const char *keeper_trouble(struct keeper *k);

/* Read them anew. The waiter is borrowed until wake(). */
void keeper_refresh(struct keeper *k, struct keeper_waiter *waiter);
void keeper_stop(struct keeper *k);

#endif
