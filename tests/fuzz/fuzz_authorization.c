/* SPDX-License-Identifier: MIT */
/* The Authorization header, or the query of a SAS, of an otherwise good request: nothing that was made up is right. */
#include "fuzz.h"

#define NOW 1795198532

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sas_need need = { "sco", "rwdlacup", "raup" };
	static const char date[] = "Fri, 20 Nov 2026 18:15:32 GMT";
	static const struct sas_policy policy = { "p", "", "2099-01-01", "raup" };
	struct sign_keys keys = { .len = { 32, 64 } };
	struct arena arena = { 0 };
	bool by_query = size > 0 && data[0] == '?';
	struct request r;
	struct auth auth;
	char *target;

	for (size_t i = 0; i < sizeof(keys.key); i++)
		keys.key[i / SIGN_KEY_MAX][i % SIGN_KEY_MAX] = (unsigned char)(i * 7 + 3);
	target = arena_printf(&arena, "/acct/queue/messages%s",
			      by_query ? arena_copy(&arena, (const char *)data, size) : "");
	request_line(&r, &arena, "GET", target, strlen(target));
	request_header(&r, "Host", 4, "127.0.0.1", 9);
	request_header(&r, "x-ms-date", 9, date, sizeof(date) - 1);
	if (!by_query)
		request_header(&r, "Authorization", 13, (const char *)data, size);
	if (address_read(&r) == FAULT_NONE && auth_read(&r, NOW, &auth)) {
		HOLDS(auth.signature || auth.sas.present);
		HOLDS(!auth_verify(&auth, &r, &keys));
		if (!auth.signature) {
			sas_take_policy(&auth.sas, &policy);
			sas_check(&auth.sas, &r, &need, NOW);
		}
	}
	arena_clear(&arena);
	return 0;
}
