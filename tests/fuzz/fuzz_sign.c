/* SPDX-License-Identifier: MIT */
/* The string to sign of any request: signed with a key, in each form, it is accepted, and by no other key. A refusal
 * tells of it, in text. */
#include "fuzz.h"

#include "http/crypto.h"
#include "protocol/refusal.h"
#include "http/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sign_keys keys = { .key = { "key one, which is no secret" }, .len = { 27, 0 } },
			 others = { .key = { "another" }, .len = { 7, 0 } };
	struct arena arena = { 0 };
	struct request r;

	if (fuzz_request(&r, &arena, (const char *)data, size) == FAULT_NONE) {
		for (int lite = 0; lite < 2; lite++) {
			struct sign_form form = { .lite = lite };
			struct buf text = { 0 }, signature = { 0 };
			unsigned char mac[CRYPTO_SHA256_BYTES];

			sign_text(&r, &form, &text);
			HOLDS(text.len > 0 && strlen(text.p) == text.len);
			HOLDS(crypto_hmac_sha256(keys.key[0], keys.len[0], text.p, text.len, mac));
			crypto_base64_add(&signature, (const char *)mac, sizeof(mac));
			HOLDS(sign_verify(&r, &keys, lite, signature.p));
			HOLDS(!sign_verify(&r, &others, lite, signature.p));
			for (int why = AUTH_FINE; why <= AUTH_POLICY_TWICE; why++) {
				struct auth auth = { .why = (enum auth_why)why,
						     .lite = lite,
						     .signature = why % 2 ? signature.p : NULL };
				const char *said;

				sas_read(&r, &auth.sas);
				said = refusal_detail(&auth, &r, 1795198532000000);
				HOLDS(!said || (strlen(said) < 5000 * 2 && text_is_utf8(said, strlen(said)) &&
						!strstr(said, signature.p)));
			}
			buf_clear(&text);
			buf_clear(&signature);
		}
		for (size_t i = 0; i < r.headers_len; i++)
			for (size_t k = 0; k < r.headers_len && i < 32 && k < 32; k++) {
				int d = sign_compare_names(r.headers[i].name, r.headers[k].name),
				    e = sign_compare_names(r.headers[k].name, r.headers[i].name);

				HOLDS((d < 0) == (e > 0) && (d == 0) == (i == k));
			}
	}
	arena_clear(&arena);
	return 0;
}
