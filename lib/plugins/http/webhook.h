/* SPDX-License-Identifier: MIT */
/* webhook - secrets and signatures as Standard Webhooks defines them, https://www.standardwebhooks.com */
#ifndef WEBHOOK_H
#define WEBHOOK_H

#include <stdbool.h>
#include <stddef.h>

#define WEBHOOK_KEY_MAX 64
#define WEBHOOK_TEXT_MAX 128      /* bytes of a secret as text */
#define WEBHOOK_SIGNATURE_SIZE 48 /* "v1,", Base64 of 32 bytes, and a NUL */

struct webhook_secret {
	unsigned char key[WEBHOOK_KEY_MAX];
	size_t len;
};

/* "whsec_" and Base64 of 24 to 64 bytes. False: it is not. */
bool webhook_secret_read(const char *text, struct webhook_secret *secret);

/* The signature of one message. False: there is no memory, or libcrypto does not work. */
bool webhook_sign(const struct webhook_secret *secret, const char *id, long long timestamp, const char *body,
		  size_t len, char signature[WEBHOOK_SIGNATURE_SIZE]);

#endif
