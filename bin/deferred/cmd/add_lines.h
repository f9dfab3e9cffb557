/* SPDX-License-Identifier: MIT */
/*
 * add_lines - defer one job for each line of a file: {"fn": ..., "params": ..., options by their SQL names}.
 *
 * All of them in one transaction, or none. The text of a line is sent unchanged, and the server cuts the params out of
 * it. Nothing is parsed and written again. Empty lines are skipped.
 */
#ifndef ADD_LINES_H
#define ADD_LINES_H

#include "cmd.h"

#include <stdio.h>

/* Prints the ids, one a line, once all are stored. A wrong line is reported by its number. Returns the exit code. */
int add_lines(struct cli *cli, FILE *fp);

/* The two halves of it. added: receives the ids, and of which line each is; freed with added_free(). ADDED_NONE: it has
 * none, printed as "-", in JSON as null. */
#define ADDED_NONE INT64_MIN
struct added {
	int64_t *ids, *lines;
	size_t len, cap;
};
int added_append(struct added *added, int64_t id, int64_t line, struct deferred_error *err);
int add_lines_store(struct cli *cli, FILE *fp, struct added *added);
void added_print(struct cli *cli, const struct added *added);
void added_free(struct added *added);

/* Hands each line that is a JSON object to f, until one is none or f fails: its number in the file counts from 1. Empty
 * lines are skipped. */
typedef int add_lines_fn(void *data, const char *line, size_t len, int64_t number, struct deferred_error *err);
int add_lines_read(FILE *fp, add_lines_fn *f, void *data, struct deferred_error *err);

#endif
