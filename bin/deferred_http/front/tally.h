/* SPDX-License-Identifier: MIT */
/* tally - requests counted in memory, by operation and status, and how long they took: since this process began. Called
 * by all threads. */
#ifndef TALLY_H
#define TALLY_H

#include "protocol/route.h"

#include <stdbool.h>
#include <stdint.h>

struct tally;
struct tally *tally_new(void); /* NULL: no memory */
void tally_free(struct tally *t);

/* op NULL: none was found, or it is none of the protocol. status 0: cut off before there was an answer. us: from the
 * request line to the end of the answer. */
void tally_add(struct tally *t, const struct operation *op, int status, int64_t us);

/* As exposition.h has it, given: free(). NULL: no memory. */
char *tally_text(struct tally *t, bool open);

#endif
