/* SPDX-License-Identifier: MIT */
#include "webhook.h"

#include "base/text/base64.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool webhook_secret_read(const char *text, struct webhook_secret *secret)
{
	char bytes[WEBHOOK_TEXT_MAX / 4 * 3 + 3];
	bool ok = strncmp(text, "whsec_", 6) == 0 && strlen(text) <= WEBHOOK_TEXT_MAX &&
		  base64_decode(text + 6, bytes, &secret->len) && secret->len >= 24 && secret->len <= WEBHOOK_KEY_MAX;

	if (ok)
		memcpy(secret->key, bytes, secret->len);
	explicit_bzero(bytes, sizeof(bytes));
	return ok;
}

bool webhook_sign(const struct webhook_secret *secret, const char *id, long long timestamp, const char *body,
		  size_t len, char signature[WEBHOOK_SIGNATURE_SIZE])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned int mac_len = 0;
	char *text = NULL;
	size_t text_len;
	FILE *f = open_memstream(&text, &text_len);
	bool ok;

	if (!f)
		return false;
	fprintf(f, "%s.%lld.", id, timestamp);
	fwrite(body, 1, len, f);
	ok = fclose(f) == 0 &&
	     HMAC(EVP_sha256(), secret->key, (int)secret->len, (const unsigned char *)text, text_len, mac, &mac_len);
	if (ok) {
		memcpy(signature, "v1,", 3);
		base64_encode(mac, mac_len, signature + 3);
	}
	free(text);
	return ok;
}
