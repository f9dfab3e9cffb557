/* SPDX-License-Identifier: MIT */
/*
 * shard_route - which of several databases a job goes to, and which one it is in.
 *
 * Where it goes: each shard gets a number from the route and its own name, and that with the largest one has the route.
 * So a shard that is added takes its share from all others, and nothing else moves. The number is FNV-1a (64 bits) of
 * the bytes of the route, a zero byte, and the bytes of the name. The last step of splitmix64 finishes it.
 * tests/lib/shard_route_test.c has expected values.
 *
 * Where it is: the database with number N gives out the ids from N * SHARD_IDS + 1 on.
 */
#ifndef SHARD_ROUTE_H
#define SHARD_ROUTE_H

#include <stddef.h>
#include <stdint.h>

#define SHARD_IDS INT64_C(10000000000000) /* deferred.__shard_set() says the same */
#define SHARD_MAX 899                     /* its ids are the last that a number of JavaScript holds */

/* The place in names[] of the one that has the route; n is not 0. The order of the names counts for nothing. */
size_t shard_route_for(const char *const *names, size_t n, const char *route);

/* The number of the database that gave out the id; 0: one that is no shard. */
int shard_route_of(int64_t id);

#endif
