/* SPDX-License-Identifier: MIT */
/*
 * add_lines - defer one job for each line of a file: {"fn": ..., "params": ..., options by their SQL names}.
 *
 * All of them in one transaction, or none. The text of a line goes to the server as it stands, which cuts the
 * params out of it: nothing is parsed and written anew. Empty lines are skipped.
 */
#ifndef ADD_LINES_H
#define ADD_LINES_H

#include "cmd.h"

#include <stdio.h>

/* Prints the ids, one a line, once all are stored. A wrong line is reported by its number. Returns the exit code. */
int add_lines(struct cli *cli, FILE *fp);

#endif
