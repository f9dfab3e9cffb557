/* SPDX-License-Identifier: MIT */
#include "protocol/refusal.h"

#include "http/text.h"

#include <inttypes.h>
#include <string.h>

#define SAID_MAX 4096 /* of what was sent */

/* The client may have sent any bytes. The result fits into a document. */
static const char *printable(struct arena *arena, const char *text, size_t len)
{
	bool cut = len > SAID_MAX;
	char *copy;

	if (cut)
		for (len = SAID_MAX; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
			len--;
	copy = arena_copy(arena, text, len);
	if (!text_is_utf8(copy, len))
		for (char *p = copy; *p; p++)
			if ((unsigned char)*p >= 0x80)
				*p = '?';
	return cut ? arena_printf(arena, "%s...", copy) : copy;
}

static const char *said_text(struct arena *arena, const char *text)
{
	return printable(arena, text, strlen(text));
}

static const char *clock_detail(const struct request *r, int64_t now_us)
{
	const char *date = request_value(r, "x-ms-date"), *header = date ? "x-ms-date" : "Date";
	char ours[TEXT_RFC1123_SIZE];
	int64_t then, ahead;

	if (!date)
		date = request_value(r, "date");
	if (!date || !text_rfc1123_parse(date, &then))
		return "The time of the request is missing: x-ms-date or Date has to be such as 'Fri, 20 Nov 2026 "
		       "18:15:32 GMT'.";
	text_rfc1123(now_us, ours);
	ahead = then - now_us / 1000000;
	return arena_printf(r->arena,
			    "Request date header too %s: %s '%s' is %" PRId64
			    " s %s the server's clock, which is '%s'; %d s are allowed.",
			    ahead < 0 ? "old" : "new", header, said_text(r->arena, date), ahead < 0 ? -ahead : ahead,
			    ahead < 0 ? "behind" : "ahead of", ours, AUTH_SKEW_S);
}

static const char *signature_detail(const struct auth *auth, const struct request *r)
{
	struct buf text = { 0 };
	const char *sent;

	if (auth->signature)
		sign_text_usual(r, auth->lite, &text);
	else
		sas_text(&auth->sas, r, &text);
	sent = printable(r->arena, text.p, text.len);
	buf_clear(&text);
	return arena_printf(
		r->arena,
		auth->signature
			? "The MAC signature found in the HTTP request is not the same as any computed signature. "
			  "Server used following string to sign: '%s'."
			: "Signature did not match. String to sign used was %s",
		sent);
}

static const char *token_time_detail(const struct sas *sas, const struct request *r, int64_t now_us)
{
	char ours[TEXT_ISO_SIZE];

	text_iso8601(now_us, ours);
	return arena_printf(
		r->arena, "Signature not valid in the specified time frame: Start [%s] - Expiry [%s] - Current [%s]%s",
		said_text(r->arena, sas->st), said_text(r->arena, sas->se), ours,
		sas->spr[0] ? "; and spr has to be https or https,http." : ".");
}

const char *refusal_detail(const struct auth *auth, const struct request *r, int64_t now_us)
{
	switch (auth->why) {
	case AUTH_FINE:
		return NULL;
	case AUTH_NOTHING:
		return "The request has neither an Authorization header nor a shared access signature.";
	case AUTH_HEADER:
		return arena_printf(r->arena,
				    "The Authorization header is not 'SharedKey %s:' or 'SharedKeyLite %s:' and a "
				    "signature; the account is the "
				    "one that is addressed.",
				    said_text(r->arena, r->account), said_text(r->arena, r->account));
	case AUTH_CLOCK:
		return clock_detail(r, now_us);
	case AUTH_TOKEN:
		return "The shared access signature is malformed: sv is a version such as 2021-12-02, and no parameter "
		       "is given twice.";
	case AUTH_NO_ACCOUNT:
	case AUTH_DISABLED:
	case AUTH_SIGNATURE:
		return signature_detail(auth, r);
	case AUTH_TOKEN_TIME:
		return token_time_detail(&auth->sas, r, now_us);
	case AUTH_POLICY:
		return "The stored access policy that si names does not exist.";
	case AUTH_POLICY_TWICE:
		return "The stored access policy that si names and the token both set st, se or sp.";
	}
	return NULL;
}

const char *refusal_word(enum auth_why why)
{
	static const char *const words[] = {
		[AUTH_FINE] = NULL,           [AUTH_NOTHING] = "unsigned",    [AUTH_HEADER] = "header",
		[AUTH_CLOCK] = "clock",       [AUTH_TOKEN] = "token",         [AUTH_NO_ACCOUNT] = "no account",
		[AUTH_DISABLED] = "disabled", [AUTH_SIGNATURE] = "signature", [AUTH_TOKEN_TIME] = "token time",
		[AUTH_POLICY] = "policy",     [AUTH_POLICY_TWICE] = "policy",
	};

	return words[why];
}
