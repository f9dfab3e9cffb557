/* SPDX-License-Identifier: MIT */
#include "protocol/auth.h"

#include "http/text.h"

#include <string.h>
#include <strings.h>

/* "SharedKey account:signature". The account is the one addressed; blanks may follow the colon. */
static bool read_header(const struct request *r, const char *header, struct auth *auth)
{
	size_t scheme = strcspn(header, " "), len;
	const char *p = header + scheme;

	auth->lite = scheme == 13 && strncasecmp(header, "SharedKeyLite", 13) == 0;
	if (!auth->lite && !(scheme == 9 && strncasecmp(header, "SharedKey", 9) == 0))
		return false;
	auth->scheme = auth->lite ? "SharedKeyLite" : "SharedKey";
	p += strspn(p, " ");
	len = strcspn(p, ":");
	if (p[len] != ':' || len != strlen(r->account) || len == 0 || memcmp(p, r->account, len) != 0)
		return false;
	p += len + 1;
	auth->signature = p + strspn(p, " ");
	return true;
}

static bool is_near(const struct request *r, int64_t now)
{
	const char *date = request_value(r, "x-ms-date");
	int64_t then;

	if (!date)
		date = request_value(r, "date");
	return date && text_rfc1123_parse(date, &then) && then - now <= AUTH_SKEW_S && now - then <= AUTH_SKEW_S;
}

bool auth_read(const struct request *r, int64_t now, struct auth *auth)
{
	const char *header = request_value(r, "authorization");

	*auth = (struct auth){ .scheme = "none" };
	if (header) {
		auth->why = !read_header(r, header, auth) ? AUTH_HEADER : is_near(r, now) ? AUTH_FINE : AUTH_CLOCK;
		return auth->why == AUTH_FINE;
	}
	sas_read(r, &auth->sas);
	if (auth->sas.present)
		auth->scheme = auth->sas.of_account ? "AccountSAS" : "QueueSAS";
	auth->why = !auth->sas.present ? AUTH_NOTHING : auth->sas.malformed ? AUTH_TOKEN : AUTH_FINE;
	return auth->why == AUTH_FINE;
}

bool auth_verify(const struct auth *auth, const struct request *r, const struct sign_keys *keys)
{
	if (auth->signature)
		return sign_verify(r, keys, auth->lite, auth->signature);
	return sas_verify(&auth->sas, r, keys);
}

bool auth_judge(struct auth *auth, const struct request *r, const struct account *account)
{
	static const struct sign_keys nobodys = { .len = { 32, 32 } };
	/* For an unknown account a signature is computed too. Otherwise the time of the refusal would tell which
	 * accounts exist. */
	bool matches = auth_verify(auth, r, account ? &account->keys : &nobodys);

	auth->why = !account            ? AUTH_NO_ACCOUNT
		    : !account->enabled ? AUTH_DISABLED
		    : matches           ? AUTH_FINE
					: AUTH_SIGNATURE;
	return auth->why == AUTH_FINE;
}
