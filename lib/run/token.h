/* SPDX-License-Identifier: MIT */
/*
 * token - proof of a claim that a function gets. All jobs of one claim share a receipt, which could end any of them. A
 * token is valid for one job, and the receipt cannot be computed from it. Programs that use it link with libcrypto; the
 * shared library does not contain it.
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
