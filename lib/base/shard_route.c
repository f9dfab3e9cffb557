/* SPDX-License-Identifier: MIT */
#include "shard_route.h"

#include "random.h"

static uint64_t add_bytes(uint64_t hash, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		hash = (hash ^ *p) * 0x100000001b3u;
	return hash;
}

static uint64_t route_weight(const char *name, const char *route)
{
	uint64_t hash = add_bytes(0xcbf29ce484222325u, route);

	hash *= 0x100000001b3u; /* of the zero byte */
	return random_mix(add_bytes(hash, name));
}

size_t shard_route_for(const char *const *names, size_t n, const char *route)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (route_weight(names[i], route) > route_weight(names[best], route))
			best = i;
	return best;
}

int shard_route_of(int64_t id)
{
	return id > 0 && id / SHARD_IDS <= SHARD_MAX ? (int)(id / SHARD_IDS) : 0;
}
