/* SPDX-License-Identifier: MIT */
/*
 * budget - bytes held for clients: large heads of requests, bodies that are being received, answers that have not been
 * taken. There is a limit for all of a kind, and a lower one for each address and each account, so that none of them
 * takes the room of the others.
 * What is small is not counted: it always goes through, and is bounded by the number of connections.
 */
#ifndef BUDGET_H
#define BUDGET_H

#include "http/request.h"

enum budget_kind { BUDGET_HEADS, BUDGET_BODIES, BUDGET_ANSWERS, BUDGET_KINDS };

#define BUDGET_MAX (128u * 1024 * 1024)  /* of a kind */
#define BUDGET_SHARE (32u * 1024 * 1024) /* of it, for one address or account */
#define BUDGET_SMALL (8u * 1024)

#define BUDGET_NAME_SIZE (REQUEST_ACCOUNT_MAX + 2)

/* What one request holds. The zero value holds nothing. */
struct budget_hold {
	char address[BUDGET_NAME_SIZE], account[BUDGET_NAME_SIZE]; /* who pays; "": nobody */
	size_t bytes[BUDGET_KINDS];
};

/* Said once, before anything is held. Addresses of IPv6 that differ in their last 64 bits alone are one. */
void budget_address(struct budget_hold *hold, const struct sockaddr_storage *address);
/* Said once. What is held already counts for the account too, even beyond its share. */
void budget_account(struct budget_hold *hold, const char *account);

/* Hold so many bytes from now on, in place of those held before. False: there is no room for more, and nothing is
 * changed. */
bool budget_hold(struct budget_hold *hold, enum budget_kind kind, size_t bytes);

/* Would there be room for so many more? */
bool budget_has(const struct budget_hold *hold, enum budget_kind kind, size_t more);

/* Hold nothing any more. */
void budget_release(struct budget_hold *hold);

/* Give to the system what was given back here, if it is much. To be called every second or so. */
void budget_trim(void);

#endif
