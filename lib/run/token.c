/* SPDX-License-Identifier: MIT */
/* The plain functions: through EVP it takes nearly twice as long, 0.8 ms for the first one, 2.4 MB of memory, and may
 * fail. */
#define OPENSSL_API_COMPAT 0x10101000L
#include "run/token.h"

#include <endian.h>
#include <openssl/sha.h>
#include <string.h>

int64_t token_of(int64_t receipt, int64_t id)
{
	uint64_t text[2] = { htobe64((uint64_t)receipt), htobe64((uint64_t)id) }, first;
	unsigned char sum[SHA256_DIGEST_LENGTH];
	SHA256_CTX sha;

	if (receipt == 0)
		return 0;
	SHA256_Init(&sha);
	SHA256_Update(&sha, text, sizeof(text));
	SHA256_Final(sum, &sha);
	memcpy(&first, sum, sizeof(first));
	return (int64_t)be64toh(first);
}
