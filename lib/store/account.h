/* SPDX-License-Identifier: MIT */
/* store_account - accounts of the HTTP front. Keys come and go encrypted: account_key.h. */
#ifndef STORE_ACCOUNT_H
#define STORE_ACCOUNT_H

#include "port/pg.h"
#include "rows/account.h"

#define STORE_ACCOUNT_CIPHER_MAX 128

struct account_row {
	char *name; /* given, as all of it: store_account_free() */
	bool enabled;
	unsigned char cipher[2][STORE_ACCOUNT_CIPHER_MAX];
	size_t cipher_len[2];         /* 0: longer than any key could be */
	char *properties;             /* JSON; NULL: none */
	char *created, *key_since[2]; /* times as people read them */
	char *functions;              /* that it was given, blanks between */
};

/* All accounts, by name. Source: account_ls.sql. */
int store_account_ls(struct pg *pg, struct account_row **rows, size_t *n, struct deferred_error *err);
void store_account_free(struct account_row *rows, size_t n);

/* DEFERRED_ENOTFOUND: no such account. Source: account_set_properties.sql. */
int store_account_set_properties(struct pg *pg, const char *name, const char *json, struct deferred_error *err);

/* DEFERRED_EDB with sqlstate 42710: it is there; 22023: the name is none. Source: account_add.sql. */
int store_account_add(struct pg *pg, const char *name, const unsigned char *const cipher[2], const size_t cipher_len[2],
		      struct deferred_error *err);

/* Replace a key, number 1 or 2. Sqlstate 42704: no such account. Source: account_set.sql. */
int store_account_rotate(struct pg *pg, const char *name, int number, const unsigned char *cipher, size_t cipher_len,
			 struct deferred_error *err);

/* Source: account_set.sql. */
int store_account_enable(struct pg *pg, const char *name, bool enabled, struct deferred_error *err);

/*
 * Allow functions to an account, or disallow them. A name may be PREFIX.* for all names with this prefix. The caller
 * frees *now: all functions of the account, as account_row.functions. Sqlstate 42704: the account does not exist, or
 * does not have the function; 22023: a name is invalid. Source: account_allow.sql, account_disallow.sql.
 */
int store_account_allow(struct pg *pg, const char *name, bool allow, const char *const *functions, size_t n, char **now,
			struct deferred_error *err);

#endif
