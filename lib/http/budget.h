/* SPDX-License-Identifier: MIT */
/*
 * budget - bytes that are held for clients: large heads of requests, bodies that are being received, and answers that
 * clients have not read. Each kind has a limit. Each address and each account has a lower one, so that none takes the
 * room of the others. Small amounts are not counted. The number of connections bounds them.
 */
#ifndef BUDGET_H
#define BUDGET_H

#include "http/request.h"

enum budget_kind { BUDGET_HEADS, BUDGET_BODIES, BUDGET_ANSWERS, BUDGET_KINDS };

#define BUDGET_MAX (128u * 1024 * 1024)  /* of a kind */
#define BUDGET_SHARE (32u * 1024 * 1024) /* of it, for one address or account */
#define BUDGET_SMALL (8u * 1024)

#define BUDGET_NAME_SIZE (REQUEST_ACCOUNT_MAX + 2)

/* Bytes that one request holds. The zero value holds nothing. */
struct budget_hold {
	char address[BUDGET_NAME_SIZE], account[BUDGET_NAME_SIZE]; /* whose share it takes; "": nobody's */
	size_t bytes[BUDGET_KINDS];
};

/* Called once, before anything is held. IPv6 addresses count as one if only their last 64 bits differ. */
void budget_address(struct budget_hold *hold, const struct sockaddr_storage *address);
/* Called once. Held bytes count for the account too, even beyond its share. */
void budget_account(struct budget_hold *hold, const char *account);

/* Holds this many bytes instead of those before. False: there is no room for more, and nothing was changed. */
bool budget_hold(struct budget_hold *hold, enum budget_kind kind, size_t bytes);

/* Whether there is room for `more` bytes. */
bool budget_has(const struct budget_hold *hold, enum budget_kind kind, size_t more);

/* Releases all. */
void budget_release(struct budget_hold *hold);

/* Returns freed memory to the system if there is much. Call it about every second. */
void budget_trim(void);

#endif
