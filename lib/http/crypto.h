/* SPDX-License-Identifier: MIT */
/* crypto - HMAC, MD5, base64, random numbers; the only file of this program to include OpenSSL. */
#ifndef CRYPTO_H
#define CRYPTO_H

#include "http/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define CRYPTO_SHA256_BYTES 32
#define CRYPTO_MD5_BYTES 16
#define CRYPTO_GUID_SIZE 37

/* False: the library failed, which is no valid signature. */
bool crypto_hmac_sha256(const void *key, size_t key_len, const char *text, size_t len,
			unsigned char mac[CRYPTO_SHA256_BYTES]);
bool crypto_sha256(const char *text, size_t len, unsigned char sha256[CRYPTO_SHA256_BYTES]);
bool crypto_md5(const char *text, size_t len, unsigned char md5[CRYPTO_MD5_BYTES]);

/* In a time that does not tell where they differ. */
bool crypto_equal(const void *a, const void *b, size_t len);

/* Exactly len bytes of base64 with its padding, nothing else around it. */
bool crypto_base64_decode(const char *text, unsigned char *bytes, size_t len);
void crypto_base64_add(struct buf *out, const char *bytes, size_t len);

/* A fresh random GUID. */
void crypto_guid(char text[CRYPTO_GUID_SIZE]);

#endif
