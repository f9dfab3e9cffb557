/* SPDX-License-Identifier: MIT */
#include "guard.h"

#include "base/text/base64.h"
#include "http/crypto.h"
#include "http/text.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The next word of a list; NULL: there is none. */
static const char *next_word(const char **list, size_t *len)
{
	const char *word = *list + strspn(*list, ", \t");

	*len = strcspn(word, ", \t");
	*list = word + *len;
	return *len > 0 ? word : NULL;
}

static bool is_listed(const char *list, const char *name)
{
	size_t len;

	for (const char *word; list && (word = next_word(&list, &len));)
		if (strlen(name) == len && strncasecmp(word, name, len) == 0)
			return true;
	return false;
}

bool guard_host(const struct request *r, const char *hosts)
{
	struct in_addr v4;

	if (strcmp(r->host, "localhost") == 0 || strcmp(r->host, "[::1]") == 0)
		return true;
	if (inet_pton(AF_INET, r->host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127)
		return true;
	return *r->host && is_listed(hosts, r->host);
}

bool guard_same_origin(const struct request *r)
{
	const char *origin = request_value(r, "origin"), *site = request_value(r, "sec-fetch-site"), *at;

	if (!origin || (site && strcmp(site, "same-origin") != 0))
		return false;
	at = strstr(origin, "://");
	return at && *r->authority && strcasecmp(at + 3, r->authority) == 0;
}

void guard_token(const unsigned char key[GUARD_KEY_BYTES], const char *user, int64_t hour, char token[GUARD_TOKEN_SIZE])
{
	unsigned char mac[CRYPTO_SHA256_BYTES];
	char text[GUARD_NAME_SIZE + 32];
	int n = snprintf(text, sizeof(text), "%" PRId64 " %s", hour, user);

	token[0] = '\0';
	if (n < 0 || n >= (int)sizeof(text) || !crypto_hmac_sha256(key, GUARD_KEY_BYTES, text, (size_t)n, mac))
		return;
	for (size_t i = 0; i < sizeof(mac); i++)
		snprintf(token + 2 * i, 3, "%02x", mac[i]);
}

bool guard_token_ok(const unsigned char key[GUARD_KEY_BYTES], const char *user, int64_t hour, const char *token)
{
	bool ok = false;

	if (!token || strlen(token) != GUARD_TOKEN_SIZE - 1)
		return false;
	for (int64_t h = hour - 1; h <= hour; h++) {
		char is[GUARD_TOKEN_SIZE];

		guard_token(key, user, h, is);
		ok |= is[0] && crypto_equal(is, token, GUARD_TOKEN_SIZE - 1);
	}
	return ok;
}

bool guard_basic(struct request *r, char user[GUARD_NAME_SIZE], const char **password)
{
	const char *header = request_value(r, "authorization");
	char *text, *colon;
	size_t n;

	if (!header || strncasecmp(header, "basic ", 6) != 0)
		return false;
	header += 6 + strspn(header + 6, " ");
	text = arena_alloc(r->arena, strlen(header) + 4);
	if (!base64_decode(header, text, &n) || !text_is_utf8(text, n))
		return false;
	text[n] = '\0';
	colon = strchr(text, ':');
	/* With an empty password, libpq would look for one of ours. */
	if (!colon || colon == text || !colon[1] || colon - text >= GUARD_NAME_SIZE)
		return false;
	*colon = '\0';
	memcpy(user, text, (size_t)(colon - text) + 1);
	*password = colon + 1;
	return true;
}

bool guard_peer(const struct request *r, const char *addresses)
{
	char text[INET6_ADDRSTRLEN];

	if (r->peer.ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)&r->peer)->sin_addr, text, sizeof(text));
	else if (r->peer.ss_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)&r->peer)->sin6_addr, text, sizeof(text));
	else
		return true;
	return is_listed(addresses, text);
}

const char *guard_field(struct arena *arena, const char *form, size_t len, const char *name)
{
	const char *end = form + len, *p = form;

	while (p < end) {
		const char *stop = memchr(p, '&', (size_t)(end - p)), *equals;
		size_t n;

		stop = stop ? stop : end;
		equals = memchr(p, '=', (size_t)(stop - p));
		if (equals && strlen(name) == (size_t)(equals - p) && memcmp(p, name, strlen(name)) == 0) {
			char *value = arena_copy(arena, equals + 1, (size_t)(stop - equals) - 1);
			long decoded;

			n = (size_t)(stop - equals) - 1;
			for (size_t i = 0; i < n; i++)
				if (value[i] == '+')
					value[i] = ' ';
			decoded = text_percent_decode(value, n);
			if (decoded < 0)
				return NULL;
			value[decoded] = '\0';
			return value;
		}
		p = stop + 1;
	}
	return NULL;
}

const char *guard_role(const char *users, const char *user)
{
	static const char *const roles[] = { "deferred_viewer", "deferred_reader", "deferred_operator" };
	size_t len, name = strlen(user);

	for (const char *word; users && name > 0 && (word = next_word(&users, &len));)
		for (size_t i = 0; len > name && word[name] == ':' && memcmp(word, user, name) == 0 &&
				   i < sizeof(roles) / sizeof(roles[0]);
		     i++)
			if (strlen(roles[i]) == len - name - 1 &&
			    memcmp(word + name + 1, roles[i], len - name - 1) == 0)
				return roles[i];
	return NULL;
}
