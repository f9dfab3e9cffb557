/* SPDX-License-Identifier: MIT */
/* unknown_function - functions of which jobs were met, and which no plugin here has. */
#ifndef UNKNOWN_FUNCTION_H
#define UNKNOWN_FUNCTION_H

#include "engine/pure/ledger.h"
#include "run/pool/pool.h"

struct unknown_function {
	char **name;
	size_t len;
};

/* Gives back the jobs that no runner was given, for this reason or because their time to start had passed. */
void unknown_function_return(struct unknown_function *u, struct pool *pool, struct ledger *ledger);
void unknown_function_clear(struct unknown_function *u); /* new plugins may have them */
/* The names that a claim is limited to: NULL for any, which is also the answer when there is no memory. To be freed. */
const char **unknown_function_known(const struct unknown_function *u, const struct pool *pool, size_t *len);

#endif
