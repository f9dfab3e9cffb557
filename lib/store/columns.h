/* SPDX-License-Identifier: MIT */
/*
 * columns - the arguments of a statement for many rows: one array for each column. All arrays are filled in the same
 * scratch buffer, one after the other.
 *
 *     COLUMN_INT8(&args, &c, jobs[i]->id);
 *
 * This adds an array of the c.n values of the expression for i = 0, 1, ... In a column ..._OR_NULL, `none` stands for
 * NULL. A column without any value is sent as a single NULL, which saves bytes and time. A text NULL is NULL.
 */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "base/error.h"
#include "port/pg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct columns {
	size_t n;
	const char **text; /* and the one block of memory */
	size_t *len;
	int64_t *int8;
	double *float8;
	int32_t *int4;
	bool *nulls;
};

/* Room for n rows; where: the error's. Returns 0 or DEFERRED_ENOMEM: then there are none, and c may be cleared all the
 * same. */
int columns_init(struct columns *c, size_t n, const char *where, struct deferred_error *err);
void columns_clear(struct columns *c);

#define COLUMN_FILL(c, column, expr) \
	for (size_t i = 0; i < (c)->n; i++) \
	(c)->column[i] = (expr)

#define COLUMN_OR_NULL(args, c, column, expr, none, add) \
	do { \
		bool some = false; \
		for (size_t i = 0; i < (c)->n; i++) { \
			(c)->column[i] = (expr); \
			(c)->nulls[i] = (c)->column[i] == (none); \
			some |= !(c)->nulls[i]; \
		} \
		add((args), some ? (c)->column : NULL, (c)->nulls, (c)->n); \
	} while (0)

#define COLUMN_INT8(args, c, expr) \
	do { \
		COLUMN_FILL(c, int8, expr); \
		pg_arg_int8_array((args), (c)->int8, NULL, (c)->n); \
	} while (0)
#define COLUMN_INT4(args, c, expr) \
	do { \
		COLUMN_FILL(c, int4, expr); \
		pg_arg_int4_array((args), (c)->int4, NULL, (c)->n); \
	} while (0)
#define COLUMN_INTERVAL(args, c, us) \
	do { \
		COLUMN_FILL(c, int8, us); \
		pg_arg_interval_array((args), (c)->int8, (c)->n); \
	} while (0)
#define COLUMN_TID(args, c, tid) \
	do { \
		COLUMN_FILL(c, int8, tid); \
		pg_arg_tid_array((args), (c)->int8, (c)->n); \
	} while (0)
#define COLUMN_TEXT(args, c, expr) \
	do { \
		COLUMN_FILL(c, text, expr); \
		pg_arg_text_array((args), (c)->text, NULL, (c)->n); \
	} while (0)
#define COLUMN_JSON(args, c, expr) \
	do { \
		COLUMN_FILL(c, text, expr); \
		pg_arg_json_array((args), (c)->text, NULL, (c)->n); \
	} while (0)

#define COLUMN_INT8_OR_NULL(args, c, expr, none) COLUMN_OR_NULL(args, c, int8, expr, none, pg_arg_int8_array)
#define COLUMN_INT4_OR_NULL(args, c, expr, none) COLUMN_OR_NULL(args, c, int4, expr, none, pg_arg_int4_array)
#define COLUMN_FLOAT8_OR_NULL(args, c, expr, none) COLUMN_OR_NULL(args, c, float8, expr, none, pg_arg_float8_array)

/* length: of (c)->text[i], bytes; asked only where there is a text. */
#define COLUMN_TEXT_OR_NULL(args, c, expr, length) \
	do { \
		bool some = false; \
		for (size_t i = 0; i < (c)->n; i++) { \
			(c)->text[i] = (expr); \
			(c)->len[i] = (c)->text[i] ? (size_t)(length) : 0; \
			some |= (c)->text[i] != NULL; \
		} \
		pg_arg_text_array((args), some ? (c)->text : NULL, (c)->len, (c)->n); \
	} while (0)

#endif
