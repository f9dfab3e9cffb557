/* SPDX-License-Identifier: MIT */
#include "store/shard.h"

#include "rows/admin.h"

int store_shard_set(struct pg *pg, int number, bool *set, struct deferred_error *err)
{
	struct shard_set_row r;
	int rc = shard_set_one(pg, number, &r, err);

	if (rc == 0)
		*set = r.added;
	return rc;
}

int store_shard_look(struct pg *pg, struct store_shard *shard, struct deferred_error *err)
{
	struct shard_look_row r;
	int rc = shard_look_one(pg, STORE_SHARD_READY_MAX, &r, err);

	if (rc == 0)
		*shard = (struct store_shard){ r.shard, r.ready, r.workers };
	return rc;
}
