/* SPDX-License-Identifier: MIT */
#include "store/account.h"

#include <stdlib.h>
#include <string.h>

#define WHERE "account"

/* Send a statement whose answer does not matter; the arguments are cleared. */
static int exec_only(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct deferred_error *err)
{
	struct pg_result *res;
	int rc = pg_exec(pg, stmt, args, PG_BINARY, &res, err);

	pg_args_clear(args);
	pg_result_free(res);
	return rc;
}

void store_account_free(struct account_row *rows, size_t n)
{
	for (size_t i = 0; rows && i < n; i++) {
		free(rows[i].name);
		free(rows[i].properties);
		free(rows[i].created);
		free(rows[i].key_since[0]);
		free(rows[i].key_since[1]);
		free(rows[i].functions);
	}
	free(rows);
}

static bool read_row(struct account_row *a, const struct pg_result *res, size_t row)
{
	a->name = strdup(pg_text(res, row, 0, NULL));
	a->enabled = pg_bool(res, row, 1);
	for (int i = 0; i < 2; i++) {
		size_t len;
		const char *cipher = pg_text(res, row, 2 + i, &len);

		if (len <= sizeof(a->cipher[i])) {
			memcpy(a->cipher[i], cipher, len);
			a->cipher_len[i] = len;
		}
		a->key_since[i] = strdup(pg_text(res, row, 6 + i, NULL));
	}
	a->properties = pg_null(res, row, 4) ? NULL : strdup(pg_text(res, row, 4, NULL));
	a->created = strdup(pg_text(res, row, 5, NULL));
	a->functions = strdup(pg_text(res, row, 8, NULL));
	return a->name && a->created && a->key_since[0] && a->key_since[1] && a->functions &&
	       (a->properties || pg_null(res, row, 4));
}

int store_account_ls(struct pg *pg, struct account_row **rows, size_t *n, struct deferred_error *err)
{
	struct pg_result *res;
	bool read = true;
	int rc = pg_exec(pg, &sql_account_ls, NULL, PG_BINARY, &res, err);

	*rows = NULL;
	*n = 0;
	if (rc == 0 && pg_rows(res) > 0) {
		*rows = calloc(pg_rows(res), sizeof(**rows));
		for (size_t row = 0; *rows && row < pg_rows(res); row++)
			read = read_row(&(*rows)[(*n)++], res, row) && read;
		if (!*rows || !read)
			rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	}
	pg_result_free(res);
	if (rc < 0) {
		store_account_free(*rows, *n);
		*rows = NULL;
		*n = 0;
	}
	return rc;
}

int store_account_set_properties(struct pg *pg, const char *name, const char *json, struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_json(&args, json, json ? strlen(json) : 0);
	rc = pg_exec(pg, &sql_account_set_properties, &args, PG_BINARY, &res, err);
	pg_args_clear(&args);
	if (rc == 0 && !pg_bool(res, 0, 0))
		rc = error_set(err, DEFERRED_ENOTFOUND, WHERE, "no account '%s'", name);
	pg_result_free(res);
	return rc;
}

int store_account_add(struct pg *pg, const char *name, const unsigned char *const cipher[2], const size_t cipher_len[2],
		      struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_bytea(&args, cipher[0], cipher_len[0]);
	pg_arg_bytea(&args, cipher[1], cipher_len[1]);
	return exec_only(pg, &sql_account_add, &args, err);
}

/* What is NULL stays as it is; enabled below 0 too. */
static int set(struct pg *pg, const char *name, const unsigned char *key1, const unsigned char *key2, size_t len,
	       int enabled, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_bytea(&args, key1, len);
	pg_arg_bytea(&args, key2, len);
	if (enabled < 0)
		pg_arg_null(&args);
	else
		pg_arg_int4(&args, enabled);
	return exec_only(pg, &sql_account_set, &args, err);
}

int store_account_rotate(struct pg *pg, const char *name, int number, const unsigned char *cipher, size_t cipher_len,
			 struct deferred_error *err)
{
	return set(pg, name, number == 1 ? cipher : NULL, number == 1 ? NULL : cipher, cipher_len, -1, err);
}

int store_account_enable(struct pg *pg, const char *name, bool enabled, struct deferred_error *err)
{
	return set(pg, name, NULL, NULL, 0, enabled, err);
}

int store_account_allow(struct pg *pg, const char *name, bool allow, const char *const *functions, size_t n, char **now,
			struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	*now = NULL;
	pg_args_init(&args);
	pg_arg_text(&args, name);
	pg_arg_text_array(&args, functions, NULL, n);
	rc = pg_exec(pg, allow ? &sql_account_allow : &sql_account_disallow, &args, PG_BINARY, &res, err);
	pg_args_clear(&args);
	if (rc == 0 && !(*now = strdup(pg_text(res, 0, 0, NULL))))
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	pg_result_free(res);
	return rc;
}

int store_account_rm(struct pg *pg, const char *name, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, name);
	return exec_only(pg, &sql_account_rm, &args, err);
}
