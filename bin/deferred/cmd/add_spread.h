/* SPDX-License-Identifier: MIT */
/*
 * add_spread - the same as add_lines, where the jobs of a file go to several databases.
 *
 * A line goes to the shard of the jobs it waits for, else to that of its concurrency_key or key, else, with others
 * around it, to one that answers. What goes to one shard is one transaction, so each of them stores all its lines or
 * none. Before any of that each line is looked at.
 */
#ifndef ADD_SPREAD_H
#define ADD_SPREAD_H

#include "cmd.h"

#include <stdio.h>

/* Prints the ids in the order of the lines, "-" for one that was not stored. Returns the exit code, that of the first
 * shard that failed. */
int add_spread(struct cli *cli, FILE *fp);

#endif
