/* SPDX-License-Identifier: MIT */
#include "store/account.h"

#include "rows/account.h"

#include <stdlib.h>
#include <string.h>

#define WHERE "account"

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

static void copy_key(struct account_row *a, int i, const char *cipher, size_t len)
{
	if (len > sizeof(a->cipher[i]))
		return;
	memcpy(a->cipher[i], cipher, len);
	a->cipher_len[i] = len;
}

static bool read_row(struct account_row *a, const struct account_ls_row *r)
{
	a->name = strdup(r->name);
	a->enabled = r->enabled;
	copy_key(a, 0, r->key1, r->key1_len);
	copy_key(a, 1, r->key2, r->key2_len);
	a->key_since[0] = strdup(r->key1_since);
	a->key_since[1] = strdup(r->key2_since);
	a->properties = r->properties ? strdup(r->properties) : NULL;
	a->created = strdup(r->created);
	a->functions = strdup(r->functions);
	return a->name && a->created && a->key_since[0] && a->key_since[1] && a->functions &&
	       (a->properties || !r->properties);
}

int store_account_ls(struct pg *pg, struct account_row **rows, size_t *n, struct deferred_error *err)
{
	struct pg_result *res;
	bool read = true;
	int rc = account_ls_exec(pg, &res, err);

	*rows = NULL;
	*n = 0;
	if (rc == 0 && pg_rows(res) > 0) {
		*rows = calloc(pg_rows(res), sizeof(**rows));
		for (size_t row = 0; *rows && row < pg_rows(res); row++) {
			struct account_ls_row r = account_ls_row(res, row);

			read = read_row(&(*rows)[(*n)++], &r) && read;
		}
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
	struct account_set_properties_row r;
	int rc = account_set_properties_one(pg, name, json, &r, err);

	if (rc == 0 && !r.found)
		rc = error_set(err, DEFERRED_ENOTFOUND, WHERE,
			       "account '%s' does not exist\ndeferred account ls lists them", name);
	return rc;
}

int store_account_add(struct pg *pg, const char *name, const unsigned char *const cipher[2], const size_t cipher_len[2],
		      struct deferred_error *err)
{
	return account_add_exec(pg, name, cipher[0], cipher_len[0], cipher[1], cipher_len[1], err);
}

int store_account_rotate(struct pg *pg, const char *name, int number, const unsigned char *cipher, size_t cipher_len,
			 struct deferred_error *err)
{
	return account_set_exec(pg, name, number == 1 ? cipher : NULL, cipher_len, number == 1 ? NULL : cipher,
				cipher_len, NULL, err);
}

int store_account_enable(struct pg *pg, const char *name, bool enabled, struct deferred_error *err)
{
	return account_set_exec(pg, name, NULL, 0, NULL, 0, &(int32_t){ enabled }, err);
}

int store_account_allow(struct pg *pg, const char *name, bool allow, const char *const *functions, size_t n, char **now,
			struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = (allow ? account_allow_exec : account_disallow_exec)(pg, name, functions, n, &res, err);

	*now = NULL;
	if (rc == 0 && !(*now = strdup(account_allow_row(res, 0).functions)))
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	pg_result_free(res);
	return rc;
}
