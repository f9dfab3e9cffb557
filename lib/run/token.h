/* SPDX-License-Identifier: MIT */
/*
 * token - what a function is told of its claim. All jobs that a worker claims at once have one receipt, so that who
 * knows it can end any of them; a token is good for one job, and nobody gets from it to the receipt. Programs that use
 * it link with libcrypto, the shared library does not contain it.
 */
#ifndef TOKEN_H
#define TOKEN_H

#include <stdint.h>

/*
 * The first 64 bits of SHA-256 of receipt and id, each as eight bytes, the highest first: as
 * sql/functions/claim/__token.sql has it. 0 for receipt 0, outside a queue.
 */
int64_t token_of(int64_t receipt, int64_t id);

#endif
