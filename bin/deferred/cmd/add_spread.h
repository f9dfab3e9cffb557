/* SPDX-License-Identifier: MIT */
/*
 * add_spread - the same as add_lines, where the jobs of a file go to several databases.
 *
 * A line goes to the shard of the jobs it waits for, or to that of its concurrency_key or key. Other lines go in groups
 * to shards that answer. Each shard gets its lines in one transaction, and stores all or none. All lines are checked
 * before that.
 */
#ifndef ADD_SPREAD_H
#define ADD_SPREAD_H

#include "cmd.h"

#include <stdio.h>

/* Prints the ids in the order of the lines, "-" for one that was not stored. Returns the exit code, that of the first
 * shard that failed. */
int add_spread(struct cli *cli, FILE *fp);

#endif
