/* SPDX-License-Identifier: MIT */
/* Which shard of the config file a job goes to. */
#include "base/error.h"
#include "base/shard_route.h"
#include "port/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A random one. If the kernel had no random number, which it has, the first one. */
static size_t random_index(size_t n)
{
	uint64_t number = 0;

	return getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number) ? (size_t)(number % n) : 0;
}

static int choose_shard(const struct config *config, const char *route, char *name, size_t size,
			struct deferred_error *err)
{
	size_t len, n = 0, best;
	const struct config_shard *shards = config_shards(config, &len);
	const char **names = calloc(len + 1, sizeof(*names));

	if (!names)
		return error_set(err, DEFERRED_ENOMEM, "shard", "out of memory");
	for (size_t i = 0; i < len; i++)
		if (shards[i].accepting)
			names[n++] = shards[i].name;
	best = n == 0 ? 0 : route ? shard_route_for(names, n, route) : random_index(n);
	if (n > 0 && strlen(names[best]) < size)
		strcpy(name, names[best]);
	free(names);
	if (n == 0)
		return error_set(err, DEFERRED_ENOTFOUND, "shard",
				 len > 0 ? "no shard accepts jobs\nset accepting = 1 for a shard in the config file"
					 : "the config file has no shards\nadd a section shard \"NAME\" to it");
	return name[0] ? 0
		       : error_set(err, DEFERRED_EINVAL, "shard",
				   "the name of the shard has more than %zu bytes\nuse a larger buffer", size);
}

int deferred_shard_for(const char *route, char *name, size_t size, struct deferred_error *err)
{
	struct config *config = NULL;
	int rc;

	error_clear(err);
	if (!name || size == 0)
		return error_set(err, DEFERRED_EINVAL, "shard", "the buffer for the name is missing\npass a buffer");
	name[0] = '\0';
	rc = config_load(&config, NULL, err);
	if (rc == 0)
		rc = choose_shard(config, route, name, size, err);
	config_free(config);
	return rc;
}
