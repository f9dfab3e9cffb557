/* SPDX-License-Identifier: MIT */
/*
 * account_cache - the accounts as they were read last, and the thread that reads them. It also ends expired messages.
 *
 * The thread reads all accounts every ACCOUNT_CACHE_EVERY_MS. So a changed key, or a removed account, is refused after
 * that time. A request that fails with the known accounts makes it read them at once, but at most every
 * ACCOUNT_CACHE_PAUSE_MS.
 */
#ifndef ACCOUNT_CACHE_H
#define ACCOUNT_CACHE_H

#include "base/error.h"
#include "protocol/accounts.h"

#define ACCOUNT_CACHE_EVERY_MS 2000
#define ACCOUNT_CACHE_PAUSE_MS 200

struct account_cache;

/* A request that waits for accounts that are read after it asked. */
struct account_cache_waiter {
	void (*wake)(void *data); /* called once, by another thread */
	void *wake_data;
	bool fresh; /* out; false: the database cannot be reached */
	struct account_cache_waiter *next;
};

/* key_file has the key that the keys of accounts are encrypted with. Both texts are copied. */
struct account_cache *account_cache_start(const char *conninfo, const char *key_file, struct deferred_error *err);

/* Give them back by accounts_release(). NULL: they could not be read yet. */
struct accounts *account_cache_accounts(struct account_cache *cache);

/* Why requests are refused, without secrets. NULL: they are not. Static. */
const char *account_cache_trouble(struct account_cache *cache);

/* Reads them again. The waiter is borrowed until wake(). */
void account_cache_refresh(struct account_cache *cache, struct account_cache_waiter *waiter);
void account_cache_stop(struct account_cache *cache);

#endif
