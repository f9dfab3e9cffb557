/* SPDX-License-Identifier: MIT */
/* Strings to sign and signatures: the vectors of the specification, and what clients do otherwise. */
#include "protocol/auth.h"
#include "http/crypto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_call.h"

#define KEY_E "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
#define KEY_K "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define DATE "Fri, 20 Nov 2026 18:15:32 GMT"
#define COMMON "x-ms-date: " DATE "\nx-ms-version: 2021-12-02"
#define HOST_E "\nHost: 127.0.0.1:10001\n"
#define HOST_K "\nHost: sally.queue.example.test\n"
#define AT 1795198532 /* DATE */

static void read_key(struct sign_keys *keys, const char *text)
{
	memset(keys, 0, sizeof(*keys));
	keys->len[0] = strlen(text) == 88 ? 64 : 32;
	assert_true(crypto_base64_decode(text, keys->key[0], keys->len[0]));
}

static const struct {
	const char *name, *call, *text, *key, *authorization, *signature;
} vectors[] = {
	{ "V1", "GET /devstoreaccount1/vec-queue?comp=metadata&timeout=30" HOST_E COMMON,
	  "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" DATE "\nx-ms-version:2021-12-02\n"
	  "/devstoreaccount1/devstoreaccount1/vec-queue\ncomp:metadata\ntimeout:30",
	  KEY_E, "SharedKey devstoreaccount1:", "OF/xcMnNUK/hGaCbFvKeYb6S1gKs7b7t/B/35C++Aig=" },
	{ "V2",
	  "POST /devstoreaccount1/vec-queue/messages?visibilitytimeout=0&messagettl=3600&timeout=30" HOST_E COMMON
	  "\nContent-Type: application/xml\nContent-Length: 130\nx-ms-client-request-id: "
	  "11111111-2222-3333-4444-555555555555",
	  "POST\n\n\n130\n\napplication/"
	  "xml\n\n\n\n\n\n\nx-ms-client-request-id:11111111-2222-3333-4444-555555555555\nx-ms-date:" DATE
	  "\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/vec-queue/"
	  "messages\nmessagettl:3600\ntimeout:30\nvisibilitytimeout:0",
	  KEY_E, "SharedKey devstoreaccount1:", "KMX607xoe3v7hcNpWxkhVsZ5DcKDSH7CBU8Khxp8sWU=" },
	{ "V3",
	  "PUT /devstoreaccount1/vec-queue?comp=metadata" HOST_E COMMON
	  "\nContent-Length: 0\nx-ms-meta-a_b: 1\nx-ms-meta-a1: 2\nx-ms-meta-ab: 3\nx-ms-meta-a: 4",
	  "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" DATE
	  "\nx-ms-meta-a:4\nx-ms-meta-a_b:1\nx-ms-meta-a1:2\nx-ms-meta-ab:3\nx-ms-version:2021-12-02\n"
	  "/devstoreaccount1/devstoreaccount1/vec-queue\ncomp:metadata",
	  KEY_E, "SharedKey devstoreaccount1:", "0IO6myYVlYQuDd9rUAWdx1CNs7fqMmx9tvzLAow3eI0=" },
	{ "V4",
	  "DELETE /myqueue/messages/6012a834-f3cf-410f-bddd-dc29ee36de2a?popreceipt=AgAAAAMAAAA%2B%2Fw%3D%3D" HOST_K
		  COMMON,
	  "DELETE\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" DATE "\nx-ms-version:2021-12-02\n/sally/myqueue/messages/"
	  "6012a834-f3cf-410f-bddd-dc29ee36de2a\npopreceipt:AgAAAAMAAAA+/w==",
	  KEY_K, "SharedKey sally:", "Jueiuyk/8A+dCRy22GDBO3uuSxkcQAs2sl/L5PaGImk=" },
	{ "V5",
	  "POST /devstoreaccount1/vec-queue/messages" HOST_E COMMON
	  "\nContent-Type: application/xml\nContent-Length: 130",
	  "POST\n\napplication/xml\n\nx-ms-date:" DATE
	  "\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/vec-queue/messages",
	  KEY_E, "SharedKeyLite devstoreaccount1:", "KL2Vh++/CMLD/Qy6vRjrSdi8fDv0AKVeXglouQsYxW0=" },
	{ "V6", "GET /devstoreaccount1/vec-queue?comp=metadata" HOST_E COMMON,
	  "GET\n\n\n\nx-ms-date:" DATE
	  "\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/vec-queue?comp=metadata",
	  KEY_E, "SharedKeyLite devstoreaccount1:", "IFO0h/PZm2uAVfGU8BTEuq80fhZN3z3XZ/tbMKmQ7BI=" },
	{ "V7",
	  "PUT /myqueue/messages?messagettl=3600" HOST_K
	  "x-ms-date: Mon, 27 Oct 2008 17:00:25 GMT\nContent-Length: 7\nContent-MD5: BGs2aTHs1OdRaB2gKGDC3w==",
	  "PUT\nBGs2aTHs1OdRaB2gKGDC3w==\n\n\nx-ms-date:Mon, 27 Oct 2008 17:00:25 GMT\n/sally/myqueue/messages", KEY_K,
	  "SharedKey sally: ", "3CsW+lSf5tbpr4Jt6kDUhNv5zT9iyqJ500buzg9NPnI=" },
};
#define VECTORS (sizeof(vectors) / sizeof(vectors[0]))

static void vectors_give_their_text_and_their_signature(void **state)
{
	(void)state;
	for (size_t i = 0; i < VECTORS; i++) {
		struct sign_form form = { .lite = strstr(vectors[i].authorization, "Lite") ||
						  strcmp(vectors[i].name, "V7") == 0 };
		struct arena arena = { 0 };
		struct buf text = { 0 };
		struct sign_keys keys;
		struct request r;

		assert_int_equal(http_call(&r, &arena, vectors[i].call), FAULT_NONE);
		sign_text(&r, &form, &text);
		assert_string_equal(text.p, vectors[i].text);
		read_key(&keys, vectors[i].key);
		assert_true(sign_matches(&keys, text.p, text.len, vectors[i].signature));
		buf_clear(&text);
		arena_clear(&arena);
	}
}

/* The request as a whole, with its Authorization header and everything that is wrong with it. */
static bool accepted(const char *call, const char *authorization, const char *signature, const char *key, int64_t now)
{
	struct arena arena = { 0 };
	struct sign_keys keys;
	struct request r;
	struct auth auth;
	char text[2048];
	bool ok;

	snprintf(text, sizeof(text), "%s\nAuthorization: %s%s", call, authorization, signature);
	read_key(&keys, key);
	ok = http_call(&r, &arena, text) == FAULT_NONE && auth_read(&r, now, &auth) && auth_verify(&auth, &r, &keys);
	arena_clear(&arena);
	return ok;
}

static void requests_of_the_vectors_are_accepted_and_no_others(void **state)
{
	(void)state;
	for (size_t i = 0; i < VECTORS; i++) {
		int64_t now = strcmp(vectors[i].name, "V7") == 0 ? 1225126825 : AT;
		char other[64];

		assert_true(
			accepted(vectors[i].call, vectors[i].authorization, vectors[i].signature, vectors[i].key, now));
		assert_true(accepted(vectors[i].call, vectors[i].authorization, vectors[i].signature, vectors[i].key,
				     now + AUTH_SKEW_S));
		assert_false(accepted(vectors[i].call, vectors[i].authorization, vectors[i].signature, vectors[i].key,
				      now + AUTH_SKEW_S + 1));
		assert_false(accepted(vectors[i].call, vectors[i].authorization, vectors[i].signature, vectors[i].key,
				      now - AUTH_SKEW_S - 1));
		assert_false(accepted(vectors[i].call, vectors[i].authorization, vectors[i].signature,
				      strcmp(vectors[i].key, KEY_K) == 0 ? KEY_E : KEY_K, now));
		assert_false(accepted(vectors[i].call, "SharedKey other:", vectors[i].signature, vectors[i].key, now));
		assert_false(accepted(vectors[i].call, vectors[i].authorization, "", vectors[i].key, now));
		snprintf(other, sizeof(other), "%s", vectors[i].signature);
		other[3] = other[3] == 'A' ? 'B' : 'A';
		assert_false(accepted(vectors[i].call, vectors[i].authorization, other, vectors[i].key, now));
		/* One bit beyond the 32 bytes: base64 has two spellings of the last one, and only the first is one. */
		snprintf(other, sizeof(other), "%s=", vectors[i].signature);
		assert_false(accepted(vectors[i].call, vectors[i].authorization, other, vectors[i].key, now));
	}
}

/* Signs what `form` makes of the call, and says whether it is accepted. */
static bool signed_as(const char *call, struct sign_form form, const char *scheme)
{
	unsigned char mac[CRYPTO_SHA256_BYTES];
	struct buf text = { 0 }, signature = { 0 };
	struct arena arena = { 0 };
	struct sign_keys keys;
	struct request r;
	bool ok;

	http_call(&r, &arena, call);
	sign_text(&r, &form, &text);
	read_key(&keys, KEY_E);
	crypto_hmac_sha256(keys.key[0], keys.len[0], text.p, text.len, mac);
	crypto_base64_add(&signature, (const char *)mac, sizeof(mac));
	ok = accepted(call, scheme, signature.p, KEY_E, AT);
	buf_clear(&text);
	buf_clear(&signature);
	arena_clear(&arena);
	return ok;
}

#define A "SharedKey devstoreaccount1:"
static void a_request_without_a_time_is_refused(void **state)
{
	(void)state;
	assert_true(
		signed_as("GET /devstoreaccount1/vec-queue?comp=metadata" HOST_E COMMON, (struct sign_form){ 0 }, A));
	assert_false(signed_as("GET /devstoreaccount1/vec-queue?comp=metadata" HOST_E "x-ms-version: 2021-12-02",
			       (struct sign_form){ 0 }, A));
	assert_false(signed_as("GET /devstoreaccount1/vec-queue?comp=metadata" HOST_E
			       "x-ms-version: 2021-12-02\nDate: soon",
			       (struct sign_form){ 0 }, A));
}

static void what_clients_do_otherwise_is_accepted_where_they_did_it(void **state)
{
	static const char meta[] =
		"PUT /devstoreaccount1/q?comp=metadata" HOST_E COMMON "\nx-ms-meta-a_b: 1\nx-ms-meta-a1: 2";
	static const char language[] = "GET /devstoreaccount1/q?comp=metadata" HOST_E COMMON "\nContent-Language: de";
	static const char second[] = "GET /devstoreaccount1-secondary/?comp=list" HOST_E COMMON;
	static const char old_zero[] =
		"PUT /devstoreaccount1/q" HOST_E "x-ms-date: " DATE "\nx-ms-version: 2014-02-14\nContent-Length: 0";
	static const char new_zero[] = "PUT /devstoreaccount1/q" HOST_E COMMON "\nContent-Length: 0";
	static const char first[] = "PUT /devstoreaccount1/q" HOST_E "x-ms-date: " DATE "\nContent-Length: 0";

	(void)state;
	assert_true(signed_as(meta, (struct sign_form){ .byte_order = true }, A));
	assert_true(signed_as(language, (struct sign_form){ .swapped = true }, A));
	assert_true(signed_as(language, (struct sign_form){ 0 }, A));
	assert_true(signed_as(second, (struct sign_form){ 0 }, A));
	assert_true(signed_as(second, (struct sign_form){ .no_suffix = true }, A));
	assert_true(signed_as(old_zero, (struct sign_form){ .literal_zero = true }, A));
	assert_false(signed_as(new_zero, (struct sign_form){ .literal_zero = true }, A));
	/* Without a version: the short text first, then the long one. */
	assert_true(signed_as(first, (struct sign_form){ .lite = true }, A));
	assert_true(signed_as(first, (struct sign_form){ 0 }, A));
	assert_true(signed_as(first, (struct sign_form){ .literal_zero = true }, A));
	/* With one, the scheme says which. */
	assert_false(signed_as(new_zero, (struct sign_form){ .lite = true }, A));
	assert_false(signed_as(new_zero, (struct sign_form){ 0 }, "SharedKeyLite devstoreaccount1:"));
	assert_true(signed_as(new_zero, (struct sign_form){ .lite = true }, "sharedkeylite devstoreaccount1:   "));
	assert_false(signed_as(new_zero, (struct sign_form){ 0 }, "Bearer devstoreaccount1:"));
	assert_false(signed_as(new_zero, (struct sign_form){ 0 }, "SharedKeys devstoreaccount1:"));
	assert_false(signed_as(new_zero, (struct sign_form){ 0 }, "SharedKey devstoreaccount1 "));
}

static void either_key_of_an_account_will_do(void **state)
{
	unsigned char mac[CRYPTO_SHA256_BYTES];
	struct buf signature = { 0 };
	struct sign_keys keys;

	(void)state;
	read_key(&keys, KEY_E);
	crypto_hmac_sha256("other", 5, "text", 4, mac);
	crypto_base64_add(&signature, (const char *)mac, sizeof(mac));
	assert_false(sign_matches(&keys, "text", 4, signature.p));
	memcpy(keys.key[1], "other", 5);
	keys.len[1] = 5;
	assert_true(sign_matches(&keys, "text", 4, signature.p));
	buf_clear(&signature);
	/* An account without keys is nobody's: not even that of the empty key. */
	memset(&keys, 0, sizeof(keys));
	crypto_hmac_sha256("", 0, "text", 4, mac);
	crypto_base64_add(&signature, (const char *)mac, sizeof(mac));
	assert_false(sign_matches(&keys, "text", 4, signature.p));
	buf_clear(&signature);
}

static void a_signature_is_compared_to_its_last_byte(void **state)
{
	unsigned char mac[CRYPTO_SHA256_BYTES];
	struct sign_keys keys;

	(void)state;
	read_key(&keys, KEY_E);
	crypto_hmac_sha256(keys.key[0], keys.len[0], "text", 4, mac);
	for (size_t i = 0; i < sizeof(mac); i++)
		for (int bit = 1; bit < 256; bit *= 2) {
			struct buf signature = { 0 };

			mac[i] ^= (unsigned char)bit;
			crypto_base64_add(&signature, (const char *)mac, sizeof(mac));
			assert_false(sign_matches(&keys, "text", 4, signature.p));
			mac[i] ^= (unsigned char)bit;
			buf_clear(&signature);
		}
}

static void header_names_have_an_order_of_their_own(void **state)
{
	static const char *const sorted[] = { "x-ms-date",     "x-ms-meta",    "x-ms-meta-a",
					      "x-ms-meta-a_b", "x-ms-meta-a1", "x-ms-meta-ab",
					      "x-ms-meta-b",   "x-ms-meta-c1", "x-ms-version" };

	(void)state;
	for (size_t i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++) {
		assert_int_equal(sign_compare_names(sorted[i], sorted[i]), 0);
		for (size_t k = i + 1; k < sizeof(sorted) / sizeof(sorted[0]); k++) {
			assert_true(sign_compare_names(sorted[i], sorted[k]) < 0);
			assert_true(sign_compare_names(sorted[k], sorted[i]) > 0);
		}
	}
	/* Hyphens count only where all else is equal. */
	assert_true(sign_compare_names("x-ms-meta-a-b", "x-ms-meta-ab") < 0);
	assert_true(sign_compare_names("x-ms-meta-a-c", "x-ms-meta-ab") > 0);
}

/* ---- shared access signatures */

static const struct {
	const char *name, *call, *text, *signature;
} tokens[] = {
	{ "S1",
	  "GET "
	  "/devstoreaccount1/"
	  "?comp=list&sv=2021-12-02&ss=q&srt=sco&spr=https%2Chttp&st=2026-01-01T00%3A00%3A00Z&se=2099-01-01T00%3A00%"
	  "3A00Z"
	  "&sp=rwdlacup&sig=NcDcgOvLB25fTl1fvXcqB1E1ysre1KwDfV%2BtxEBzk4Y%3D" HOST_E,
	  "devstoreaccount1\nrwdlacup\nq\nsco\n2026-01-01T00:00:00Z\n2099-01-01T00:00:00Z\n\nhttps,http\n2021-12-"
	  "02\n\n",
	  "NcDcgOvLB25fTl1fvXcqB1E1ysre1KwDfV+txEBzk4Y=" },
	{ "S2",
	  "GET "
	  "/devstoreaccount1/"
	  "?comp=list&sv=2019-12-12&ss=q&srt=sc&se=2099-01-01T00:00:00Z&sp=rl&sig="
	  "5prWwvtiFNe18O70NzED2ou6kQgfBSVnJpTluyNYcC8=" HOST_E,
	  "devstoreaccount1\nrl\nq\nsc\n\n2099-01-01T00:00:00Z\n\n\n2019-12-12\n",
	  "5prWwvtiFNe18O70NzED2ou6kQgfBSVnJpTluyNYcC8=" },
	{ "S3",
	  "GET "
	  "/devstoreaccount1/vec-queue/"
	  "messages?sv=2021-12-02&sp=raup&st=2026-01-01T00:00:00Z&se=2099-01-01T00:00:00Z&spr=https,http"
	  "&sig=zb6l5WOq9CCdzv%2FzaAwmYKcYO5BSNKMwzFuzmGFLQ6Y%3D" HOST_E,
	  "raup\n2026-01-01T00:00:00Z\n2099-01-01T00:00:00Z\n/queue/devstoreaccount1/"
	  "vec-queue\n\n\nhttps,http\n2021-12-02",
	  "zb6l5WOq9CCdzv/zaAwmYKcYO5BSNKMwzFuzmGFLQ6Y=" },
	{ "S4",
	  "GET "
	  "/devstoreaccount1/vec-queue/"
	  "messages?sv=2021-12-02&si=policy1&sig=PDG5j6Y7NiN%2B0qNdO0QsxrQvcRElhWnwgasK5jgJQ%2FY%3D" HOST_E,
	  "\n\n\n/queue/devstoreaccount1/vec-queue\npolicy1\n\n\n2021-12-02",
	  "PDG5j6Y7NiN+0qNdO0QsxrQvcRElhWnwgasK5jgJQ/Y=" },
};

static void tokens_give_their_text_and_their_signature(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		struct arena arena = { 0 };
		struct buf text = { 0 };
		struct sign_keys keys;
		struct request r;
		struct auth auth;

		assert_int_equal(http_call(&r, &arena, tokens[i].call), FAULT_NONE);
		assert_true(auth_read(&r, AT, &auth));
		sas_text(&auth.sas, &r, &text);
		assert_string_equal(text.p, tokens[i].text);
		assert_string_equal(auth.sas.sig, tokens[i].signature);
		read_key(&keys, KEY_E);
		assert_true(auth_verify(&auth, &r, &keys));
		read_key(&keys, KEY_K);
		assert_false(auth_verify(&auth, &r, &keys));
		assert_false(r.form_2008);
		buf_clear(&text);
		arena_clear(&arena);
	}
}

#define GET_ "GET /devstoreaccount1/vec-queue/messages?"
#define FIT "sv=2021-12-02&sig=x&se=2099-01-01T00:00:00Z&sp=raup"
static const struct {
	const char *query;
	bool tls;
	enum fault fault;
} checks[] = {
	{ FIT, false, FAULT_NONE },
	{ "sv=2021-12-02&sig=x&sp=raup", false, FAULT_AuthenticationFailed },                        /* never ends */
	{ "sv=2021-12-02&sig=x&se=2026-01-01&sp=raup", false, FAULT_AuthenticationFailed },          /* has ended */
	{ "sv=2021-12-02&sig=x&se=soon&sp=raup", false, FAULT_AuthenticationFailed },
	{ FIT "&st=2027-01-01T00:00Z", false, FAULT_AuthenticationFailed },                          /* not begun */
	{ FIT "&st=2026-01-01T00:00:00.1234567Z", false, FAULT_NONE },
	{ FIT "&spr=https", false, FAULT_AuthorizationProtocolMismatch },
	{ FIT "&spr=https", true, FAULT_NONE },
	{ FIT "&spr=ftp", true, FAULT_AuthenticationFailed },
	{ FIT "&sip=10.0.0.5", false, FAULT_NONE },
	{ FIT "&sip=10.0.0.4-10.0.0.6", false, FAULT_NONE },
	{ FIT "&sip=10.0.0.6-10.0.0.9", false, FAULT_AuthorizationSourceIPMismatch },
	{ FIT "&sip=10.0.0.50", false, FAULT_AuthorizationSourceIPMismatch },
	{ FIT "&sip=nonsense", false, FAULT_AuthorizationSourceIPMismatch },
	{ FIT "&ss=b&srt=o", false, FAULT_AuthorizationServiceMismatch },
	{ FIT "&ss=bq&srt=s", false, FAULT_AuthorizationResourceTypeMismatch },
	{ FIT "&ss=bq&srt=so", false, FAULT_NONE },
	{ "sv=2021-12-02&sig=x&se=2099-01-01&sp=ra", false, FAULT_AuthorizationPermissionMismatch },
	{ "sv=2021-12-02&sig=x&se=2099-01-01&sp=", false, FAULT_AuthorizationPermissionMismatch },
};

static void a_token_gives_the_rights_it_names_and_no_more(void **state)
{
	static const struct sas_need need = { "o", "p", "p" }, never = { "", "", "" };

	(void)state;
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct sockaddr_in *peer;
		struct arena arena = { 0 };
		struct request r;
		struct auth auth;
		char call[512];

		snprintf(call, sizeof(call), GET_ "%s" HOST_E, checks[i].query);
		http_call(&r, &arena, call);
		r.tls = checks[i].tls;
		peer = (struct sockaddr_in *)&r.peer;
		peer->sin_family = AF_INET;
		peer->sin_addr.s_addr = htonl(0x0a000005);
		/* "p" is what Get needs. */
		assert_true(auth_read(&r, AT, &auth));
		if (sas_check(&auth.sas, &r, &need, AT) != checks[i].fault)
			fail_msg("%s: %s", checks[i].query, fault_info(sas_check(&auth.sas, &r, &need, AT))->code);
		assert_int_not_equal(sas_check(&auth.sas, &r, &never, AT), FAULT_NONE);
		arena_clear(&arena);
	}
}

static void a_policy_fills_in_what_the_token_leaves_open(void **state)
{
	struct sas_policy policy = { "policy1", "", "2099-01-01", "raup" };
	struct sas sas = { .st = "", .se = "", .sp = "" };

	(void)state;
	assert_true(sas_take_policy(&sas, &policy));
	assert_string_equal(sas.se, "2099-01-01");
	assert_string_equal(sas.sp, "raup");
	sas = (struct sas){ .st = "2026-01-01", .se = "", .sp = "" };
	assert_true(sas_take_policy(&sas, &policy));
	sas = (struct sas){ .st = "", .se = "", .sp = "r" };
	assert_false(sas_take_policy(&sas, &policy));
	assert_false(sas_take_policy(&sas, NULL));
}

static void a_token_that_says_something_twice_is_refused(void **state)
{
	static const char *const calls[] = { GET_ FIT "&sig=y" HOST_E,
					     GET_ FIT "&sp=r" HOST_E,
					     GET_ "sig=x&se=2099-01-01&sp=raup" HOST_E,
					     GET_ "sv=20211202&sig=x&sp=r" HOST_E,
					     GET_ "sv=2021-12-02&sig=x&sp=r%0Aw" HOST_E,
					     GET_ "sv=2021-12-02" HOST_E };

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct arena arena = { 0 };
		struct request r;
		struct auth auth;

		http_call(&r, &arena, calls[i]);
		assert_false(auth_read(&r, AT, &auth));
		arena_clear(&arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_give_their_text_and_their_signature),
		cmocka_unit_test(requests_of_the_vectors_are_accepted_and_no_others),
		cmocka_unit_test(a_request_without_a_time_is_refused),
		cmocka_unit_test(what_clients_do_otherwise_is_accepted_where_they_did_it),
		cmocka_unit_test(either_key_of_an_account_will_do),
		cmocka_unit_test(a_signature_is_compared_to_its_last_byte),
		cmocka_unit_test(header_names_have_an_order_of_their_own),
		cmocka_unit_test(tokens_give_their_text_and_their_signature),
		cmocka_unit_test(a_token_gives_the_rights_it_names_and_no_more),
		cmocka_unit_test(a_policy_fills_in_what_the_token_leaves_open),
		cmocka_unit_test(a_token_that_says_something_twice_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("http_sign", tests, NULL, NULL);
}
