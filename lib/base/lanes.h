/* SPDX-License-Identifier: MIT */
/*
 * lanes - a few lanes: what is ready in one queue at one priority (sql/functions/claim/__claim.sql). A claim asks those
 * first that have given something lately.
 */
#ifndef LANES_H
#define LANES_H

#include <stddef.h>
#include <stdint.h>

#define LANES_MAX 64 /* further ones are not kept: they are found again */

struct lanes {
	size_t n;
	char *queue[LANES_MAX];
	int32_t priority[LANES_MAX];
};

void lanes_add(struct lanes *lanes, const char *queue,
	       int32_t priority); /* unless it is there; queue is copied; without memory, it is left out */
void lanes_clear(struct lanes *lanes);
void lanes_move(struct lanes *to, struct lanes *from); /* `to` loses what it had, `from` is empty then */

#endif
