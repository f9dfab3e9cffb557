/* SPDX-License-Identifier: MIT */
#include "http/budget.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 1024
#define TRIM_BYTES (1024 * 1024)

/* An address or account that holds something. */
struct payer {
	struct payer *next;
	char name[BUDGET_NAME_SIZE];
	size_t bytes[BUDGET_KINDS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct payer *slots[SLOTS];
static size_t all[BUDGET_KINDS];
static size_t given_back; /* since budget_trim() */

/* A first letter keeps accounts and addresses apart. */
void budget_address(struct budget_hold *hold, const struct sockaddr_storage *address)
{
	const unsigned char *ip;
	int len = 8;

	if (address->ss_family == AF_INET) {
		ip = (const unsigned char *)&((const struct sockaddr_in *)address)->sin_addr;
		len = 4;
	} else if (address->ss_family == AF_INET6) {
		ip = ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr;
		if (IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)address)->sin6_addr)) {
			ip += 12;
			len = 4;
		}
	} else {
		return; /* a local socket: whoever is behind it */
	}
	hold->address[0] = '@';
	for (int i = 0; i < len; i++)
		snprintf(hold->address + 1 + 2 * i, 3, "%02x", ip[i]);
}

static struct payer **find_payer(const char *name)
{
	struct payer **at;
	unsigned hash = 5381;

	for (const char *p = name; *p; p++)
		hash = hash * 33 + (unsigned char)*p;
	for (at = &slots[hash % SLOTS]; *at && strcmp((*at)->name, name) != 0;)
		at = &(*at)->next;
	return at;
}

static size_t counted_bytes(size_t bytes)
{
	return bytes > BUDGET_SMALL ? bytes : 0;
}

static bool fits_share(const char *name, enum budget_kind kind, size_t more)
{
	const struct payer *payer = *find_payer(name);

	return (payer ? payer->bytes[kind] : 0) + more <= BUDGET_SHARE;
}

static bool fits_shares(const struct budget_hold *hold, enum budget_kind kind, size_t more)
{
	return all[kind] + more <= BUDGET_MAX && fits_share(hold->address, kind, more) &&
	       fits_share(hold->account, kind, more);
}

/* False: no memory for a new payer. */
static bool charge_payer(const char *name, enum budget_kind kind, size_t was, size_t is)
{
	struct payer **at = find_payer(name), *payer = *at;

	if (!name[0] || was == is)
		return true;
	if (!payer) {
		payer = calloc(1, sizeof(*payer));
		if (!payer)
			return false;
		snprintf(payer->name, sizeof(payer->name), "%s", name);
		*at = payer;
	}
	payer->bytes[kind] += is - was;
	for (int k = 0; k < BUDGET_KINDS; k++)
		if (payer->bytes[k] > 0)
			return true;
	*at = payer->next;
	free(payer);
	return true;
}

/* The head came before its account was known. It counts for the account from now on. */
void budget_account(struct budget_hold *hold, const char *account)
{
	snprintf(hold->account, sizeof(hold->account), "=%s", account);
	pthread_mutex_lock(&lock);
	for (enum budget_kind k = BUDGET_HEADS; k < BUDGET_KINDS; k++)
		if (!charge_payer(hold->account, k, 0, counted_bytes(hold->bytes[k])))
			hold->account[0] = '\0'; /* no memory for a new payer, so nothing was charged yet */
	pthread_mutex_unlock(&lock);
}

static bool change_hold(struct budget_hold *hold, enum budget_kind kind, size_t was, size_t is)
{
	if (is > was && !fits_shares(hold, kind, is - was))
		return false;
	if (!charge_payer(hold->address, kind, was, is))
		return false;
	if (!charge_payer(hold->account, kind, was, is)) {
		charge_payer(hold->address, kind, is, was);
		return false;
	}
	all[kind] += is - was;
	given_back += was > is ? was - is : 0;
	return true;
}

bool budget_hold(struct budget_hold *hold, enum budget_kind kind, size_t bytes)
{
	size_t was = counted_bytes(hold->bytes[kind]), is = counted_bytes(bytes);
	bool changed;

	if (was != is) {
		pthread_mutex_lock(&lock);
		changed = change_hold(hold, kind, was, is);
		pthread_mutex_unlock(&lock);
		if (!changed)
			return false;
	}
	hold->bytes[kind] = bytes;
	return true;
}

bool budget_has(const struct budget_hold *hold, enum budget_kind kind, size_t more)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = fits_shares(hold, kind, more);
	pthread_mutex_unlock(&lock);
	return has;
}

void budget_release(struct budget_hold *hold)
{
	for (enum budget_kind k = BUDGET_HEADS; k < BUDGET_KINDS; k++)
		budget_hold(hold, k, 0);
}

/* The allocator keeps what was freed between things that stay. */
void budget_trim(void)
{
	bool much;

	pthread_mutex_lock(&lock);
	much = given_back >= TRIM_BYTES;
	if (much)
		given_back = 0;
	pthread_mutex_unlock(&lock);
	if (much)
		malloc_trim(0);
}
