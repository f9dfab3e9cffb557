/* SPDX-License-Identifier: MIT */
/* sign - the text that a client signs with its key, in the forms there are, and whether a signature is that of a key.
 * */
#ifndef SIGN_H
#define SIGN_H

#include "http/request.h"

#define SIGN_KEYS 2
#define SIGN_KEY_MAX 64

/* The keys of an account. A key without bytes is not set. */
struct sign_keys {
	unsigned char key[SIGN_KEYS][SIGN_KEY_MAX];
	size_t len[SIGN_KEYS];
};

/* Order in which names of canonical headers stand: hyphens count last, "_" before digits before letters. <0, 0, >0. */
int sign_compare_names(const char *a, const char *b);

/* How the text is put together. The zero value is what present-day clients do. */
struct sign_form {
	bool lite;         /* the short text: SharedKeyLite, and SharedKey before 2009-09-19 */
	bool literal_zero; /* a Content-Length of 0 is "0" (before 2015-02-21), not empty */
	bool swapped;      /* Content-Language before Content-Encoding, as JavaScript clients have it */
	bool byte_order;   /* headers in plain byte order */
	bool no_suffix;    /* "-secondary" is left out of the path */
};
void sign_text(const struct request *r, const struct sign_form *form, struct buf *out);

/* In the form that is tried first. lite: the scheme SharedKeyLite. */
void sign_text_usual(const struct request *r, bool lite, struct buf *out);

/* Is `signature` (base64) that of the text by one of the keys? */
bool sign_matches(const struct sign_keys *keys, const char *text, size_t len, const char *signature);

/* Is it that of the request in any of the forms a client of its version may have used? lite: the scheme SharedKeyLite.
 * */
bool sign_verify(const struct request *r, const struct sign_keys *keys, bool lite, const char *signature);

#endif
