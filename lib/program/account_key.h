/* SPDX-License-Identifier: MIT */
/*
 * account_key - keys of accounts, which the database stores encrypted. A reader of the database or of a dump needs the
 * master key, a file on the machines that serve accounts. Programs that use it link with libcrypto; the shared library
 * does not contain it.
 *
 * The encrypted form is one byte 1, a nonce of 12 bytes, the key, and the 16 bytes of the AES-256-GCM tag. The tag
 * covers the name of the account and the number of the key too, so that a key cannot replace another.
 */
#ifndef ACCOUNT_KEY_H
#define ACCOUNT_KEY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define ACCOUNT_MASTER_BYTES 32
#define ACCOUNT_KEY_MIN 16
#define ACCOUNT_KEY_NEW 32 /* a key made here */
#define ACCOUNT_KEY_MAX 64
#define ACCOUNT_CIPHER_MAX (1 + 12 + ACCOUNT_KEY_MAX + 16)
#define ACCOUNT_KEY_TEXT 89 /* base64 of the longest key and NUL */

/*
 * Read the master key. The file must be a regular one of ours or root's that nobody else can write, and nobody outside
 * its group read. Returns 0; DEFERRED_ECONFIG, with a hint; DEFERRED_ENOTFOUND: there is no such file.
 */
int account_key_load(const char *path, unsigned char master[ACCOUNT_MASTER_BYTES], struct deferred_error *err);

/* Make the file, mode 0600, on disk when this returns, unless it is there. Returns 0 or DEFERRED_ESYSTEM. */
int account_key_make(const char *path, struct deferred_error *err);

/* A new key. Returns 0 or DEFERRED_ESYSTEM. */
int account_key_new(unsigned char key[ACCOUNT_KEY_NEW], struct deferred_error *err);

/* A new token of the JSON API, and its SHA-256, which the database stores. Returns as account_key_new(). */
#define ACCOUNT_TOKEN_PREFIX "dfr_"
struct account_token {
	char text[sizeof(ACCOUNT_TOKEN_PREFIX) + ACCOUNT_KEY_TEXT]; /* 32 bytes in base64url, without padding */
	unsigned char sha256[32];
};
int account_key_token(struct account_token *token, struct deferred_error *err);

/* number: 1 or 2. Returns 0 or DEFERRED_ESYSTEM. */
int account_key_encrypt(const unsigned char master[ACCOUNT_MASTER_BYTES], const char *account, int number,
			const unsigned char *key, size_t len, unsigned char cipher[ACCOUNT_CIPHER_MAX],
			size_t *cipher_len, struct deferred_error *err);

/* Returns 0; DEFERRED_ECONFIG: it was encrypted under another master key, for another account or number, or is damaged.
 * */
int account_key_decrypt(const unsigned char master[ACCOUNT_MASTER_BYTES], const char *account, int number,
			const unsigned char *cipher, size_t cipher_len, unsigned char key[ACCOUNT_KEY_MAX], size_t *len,
			struct deferred_error *err);

/* A key as base64, and back; false: it is none, or its length is not within the limits above. */
void account_key_text(char text[ACCOUNT_KEY_TEXT], const unsigned char *key, size_t len);
bool account_key_parse(const char *text, unsigned char key[ACCOUNT_KEY_MAX], size_t *len);

#endif
