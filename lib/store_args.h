/* SPDX-License-Identifier: MIT */
/*
 * store_args - what the statements of a worker share, one by one (store_worker.c) and in cycles (store_cycle.c): settings of
 * the transaction, arguments, answers.
 */
#ifndef STORE_ARGS_H
#define STORE_ARGS_H

#include "attempt.h"
#include "error.h"
#include "pg.h"
#include "store_worker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What comes back with an answer, so that it is known which one it is. */
enum store_tag {
	TAG_SETUP, TAG_PROBE, TAG_REGISTER, TAG_RECOVER, TAG_RECORD, TAG_RENEW, TAG_PROMOTE, TAG_CLAIM, TAG_CLAIM_LIMITED, TAG_LOOK, TAG_IGNORE,
	TAG_UNKNOWN, TAG_RECORDED, TAG_OUTCOMES, TAG_TRACK, TAG_NEXT_DUE, TAG_KEEP, TAG_ARM, TAG_OPEN, TAG_PEEK, TAG_DIRECT
};

int store_add_setup(struct pg *pg, struct deferred_error *err);
void store_arg_queues(struct pg_args *args, const struct store_scope *scope);
void store_arg_track(struct pg_args *args, const struct store_track *track);
void store_take_track(struct store_track *track, int tag, const struct pg_result *res);
int store_arg_claims(struct pg_args *args, struct attempt *const *a, size_t n, struct deferred_error *err);
void store_take_outcomes(int *outcomes, size_t n, const struct pg_result *res);

/* Scratch for the arrays of one statement: one allocation each for numbers, small numbers and texts. */
struct store_columns {
	size_t n;
	int64_t *int8;
	int32_t *int4;
	bool *nulls;
	const char **text;
	size_t *len;
};
int store_columns_init(struct store_columns *c, size_t n, struct deferred_error *err);
void store_columns_clear(struct store_columns *c);

#define INT8_COLUMN(args, c, expr)                                   \
	do {                                                         \
		for (size_t i = 0; i < (c)->n; i++)                  \
			(c)->int8[i] = (int64_t)(expr);              \
		pg_arg_int8_array((args), (c)->int8, NULL, (c)->n);  \
	} while (0)

/* Most attempts have no error, exit code and so on: a column without values is one NULL. */
#define INT4_COLUMN_OR_NULL(args, c, expr, none)                                       \
	do {                                                                           \
		bool some = false;                                                     \
		for (size_t i = 0; i < (c)->n; i++) {                                  \
			(c)->int4[i] = (int32_t)(expr);                                \
			(c)->nulls[i] = (c)->int4[i] == (none);                        \
			some |= !(c)->nulls[i];                                        \
		}                                                                      \
		pg_arg_int4_array((args), some ? (c)->int4 : NULL, (c)->nulls, (c)->n); \
	} while (0)

#define TEXT_COLUMN_OR_NULL(args, c, expr, length)                                      \
	do {                                                                            \
		bool some = false;                                                      \
		for (size_t i = 0; i < (c)->n; i++) {                                   \
			(c)->text[i] = (expr);                                          \
			(c)->len[i] = (c)->text[i] ? (size_t)(length) : 0;              \
			some |= (c)->text[i] != NULL;                                   \
		}                                                                       \
		pg_arg_text_array((args), some ? (c)->text : NULL, (c)->len, (c)->n);   \
	} while (0)

#endif
