/* SPDX-License-Identifier: MIT */
/* stall - what does the session of a cycle wait for that is not answered for long? */
#ifndef STALL_H
#define STALL_H

#include "port/pg.h"

#include <stdbool.h>
#include <stdint.h>

struct stall {
	struct pg *pg;    /* the session that asks; NULL: none */
	bool connecting;  /* it is not open yet */
	bool asked;       /* about the current cycle */
	uint64_t sent_ns; /* the cycle was sent */
	uint64_t asked_ns;
};

/* At each turn. waits: the session of the cycle under way; NULL: there is none. */
void stall_run(struct stall *stall, const char *conninfo, const struct pg *waits, uint64_t sent_ns, uint64_t now);

#endif
