/* SPDX-License-Identifier: MIT */
#include "http/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool crypto_hmac_sha256(const void *key, size_t key_len, const char *text, size_t len,
			unsigned char mac[CRYPTO_SHA256_BYTES])
{
	unsigned int n = 0;

	return HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, len, mac, &n) &&
	       n == CRYPTO_SHA256_BYTES;
}

bool crypto_md5(const char *text, size_t len, unsigned char md5[CRYPTO_MD5_BYTES])
{
	unsigned int n = 0;

	return EVP_Digest(text ? text : "", len, md5, &n, EVP_md5(), NULL) == 1 && n == CRYPTO_MD5_BYTES;
}

bool crypto_sha256(const char *text, size_t len, unsigned char sha256[CRYPTO_SHA256_BYTES])
{
	unsigned int n = 0;

	return EVP_Digest(text, len, sha256, &n, EVP_sha256(), NULL) == 1 && n == CRYPTO_SHA256_BYTES;
}

bool crypto_equal(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}

bool crypto_base64_decode(const char *text, unsigned char *bytes, size_t len)
{
	size_t quads = (len + 2) / 3, pad = quads * 3 - len;
	unsigned char out[3 * 32];

	/* EVP_DecodeBlock() skips white space and fills up with zero bytes, so the length and the padding are checked
	 * here. */
	if (strlen(text) != quads * 4 || quads * 3 > sizeof(out) ||
	    strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") != quads * 4 - pad)
		return false;
	for (size_t i = 0; i < pad; i++)
		if (text[quads * 4 - 1 - i] != '=')
			return false;
	if (EVP_DecodeBlock(out, (const unsigned char *)text, (int)(quads * 4)) != (int)(quads * 3))
		return false;
	memcpy(bytes, out, len);
	return true;
}

void crypto_base64_add(struct buf *out, const char *bytes, size_t len)
{
	while (len > 0) {
		unsigned char text[4 * 256 + 1];
		size_t n = len < 3 * 256 ? len : 3 * 256;

		buf_add(out, (char *)text, (size_t)EVP_EncodeBlock(text, (const unsigned char *)bytes, (int)n));
		bytes += n;
		len -= n;
	}
}

void crypto_guid(char text[CRYPTO_GUID_SIZE])
{
	unsigned char b[16];

	if (RAND_bytes(b, sizeof(b)) != 1)
		memset(b, 0, sizeof(b)); /* it names a request in logs, and guards nothing */
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(text, CRYPTO_GUID_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}
