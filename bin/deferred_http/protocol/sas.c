/* SPDX-License-Identifier: MIT */
#include "protocol/sas.h"

#include "http/text.h"

#include <arpa/inet.h>
#include <string.h>

static const char *take_param(const struct request *r, const char *name, struct sas *sas)
{
	const char *value = request_param(r, name);

	if (request_param_times(r, name) > 1 || (value && strchr(value, '\n')))
		sas->malformed = true;
	return value ? value : "";
}

void sas_read(const struct request *r, struct sas *sas)
{
	*sas = (struct sas){ .present = request_param(r, "sig") != NULL,
			     .of_account = request_param(r, "ss") && request_param(r, "srt") };
	sas->sv = take_param(r, "sv", sas);
	sas->sig = take_param(r, "sig", sas);
	sas->se = take_param(r, "se", sas);
	sas->st = take_param(r, "st", sas);
	sas->sp = take_param(r, "sp", sas);
	sas->spr = take_param(r, "spr", sas);
	sas->sip = take_param(r, "sip", sas);
	sas->ss = take_param(r, "ss", sas);
	sas->srt = take_param(r, "srt", sas);
	sas->si = take_param(r, "si", sas);
	sas->ses = take_param(r, "ses", sas);
	if (!text_is_version(sas->sv))
		sas->malformed = true;
}

static void add_sas_line(struct buf *out, const char *value)
{
	buf_text(out, value);
	buf_add(out, "\n", 1);
}

void sas_text(const struct sas *sas, const struct request *r, struct buf *out)
{
	if (sas->of_account) {
		add_sas_line(out, r->account);
		add_sas_line(out, sas->sp);
		add_sas_line(out, sas->ss);
		add_sas_line(out, sas->srt);
		add_sas_line(out, sas->st);
		add_sas_line(out, sas->se);
		add_sas_line(out, sas->sip);
		add_sas_line(out, sas->spr);
		add_sas_line(out, sas->sv);
		if (strcmp(sas->sv, "2020-12-06") >= 0)
			add_sas_line(out, sas->ses);
		return;
	}
	add_sas_line(out, sas->sp);
	add_sas_line(out, sas->st);
	add_sas_line(out, sas->se);
	buf_printf(out, "%s/%s/%s\n", strcmp(sas->sv, "2015-02-21") >= 0 ? "/queue" : "", r->account, r->queue);
	add_sas_line(out, sas->si);
	if (strcmp(sas->sv, "2015-04-05") >= 0) {
		add_sas_line(out, sas->sip);
		add_sas_line(out, sas->spr);
	}
	buf_text(out, sas->sv);
}

bool sas_verify(const struct sas *sas, const struct request *r, const struct sign_keys *keys)
{
	struct buf text = { 0 };
	bool matches;

	if (sas->malformed || (!sas->of_account && !r->queue[0]))
		return false;
	sas_text(sas, r, &text);
	matches = sign_matches(keys, text.p, text.len, sas->sig);
	buf_clear(&text);
	return matches;
}

static bool take_field(const char **field, const char *from_policy)
{
	if (!from_policy[0])
		return true;
	if ((*field)[0])
		return false;
	*field = from_policy;
	return true;
}

bool sas_take_policy(struct sas *sas, const struct sas_policy *policy)
{
	return policy && take_field(&sas->st, policy->start) && take_field(&sas->se, policy->expiry) &&
	       take_field(&sas->sp, policy->permission);
}

/* A bare address or one end of a range, as 16 bytes: those of IPv4 mapped into IPv6. */
static bool parse_address(const char *text, size_t len, unsigned char bytes[16])
{
	char name[INET6_ADDRSTRLEN];

	if (len >= sizeof(name))
		return false;
	memcpy(name, text, len);
	name[len] = '\0';
	memset(bytes, 0, 16);
	bytes[10] = bytes[11] = 0xff;
	return inet_pton(AF_INET, name, bytes + 12) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool address_matches(const char *range, const struct sockaddr_storage *peer)
{
	unsigned char low[16], high[16], from[16] = { 0 };
	const char *dash = strchr(range, '-');

	if (peer->ss_family == AF_INET) {
		from[10] = from[11] = 0xff;
		memcpy(from + 12, &((const struct sockaddr_in *)peer)->sin_addr, 4);
	} else if (peer->ss_family == AF_INET6) {
		memcpy(from, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
	} else {
		return false;
	}
	if (!parse_address(range, dash ? (size_t)(dash - range) : strlen(range), low) ||
	    !parse_address(dash ? dash + 1 : range, strlen(dash ? dash + 1 : range), high))
		return false;
	return memcmp(from, low, 16) >= 0 && memcmp(from, high, 16) <= 0;
}

static bool has_any_of(const char *have, const char *need)
{
	return need[0] && have[strcspn(have, need)] != '\0';
}

enum fault sas_check(const struct sas *sas, const struct request *r, const struct sas_need *need, int64_t now)
{
	int64_t start, expiry;

	if (!text_iso8601_parse(sas->se, &expiry) || now >= expiry)
		return FAULT_AuthenticationFailed;
	if (sas->st[0] && (!text_iso8601_parse(sas->st, &start) || now < start))
		return FAULT_AuthenticationFailed;
	if (sas->spr[0] && strcmp(sas->spr, "https") != 0 && strcmp(sas->spr, "https,http") != 0 &&
	    strcmp(sas->spr, "http,https") != 0)
		return FAULT_AuthenticationFailed;
	if (strcmp(sas->spr, "https") == 0 && !r->tls)
		return FAULT_AuthorizationProtocolMismatch;
	if (sas->sip[0] && !address_matches(sas->sip, &r->peer))
		return FAULT_AuthorizationSourceIPMismatch;
	if (sas->of_account && !strchr(sas->ss, 'q'))
		return FAULT_AuthorizationServiceMismatch;
	if (sas->of_account && !has_any_of(sas->srt, need->types))
		return FAULT_AuthorizationResourceTypeMismatch;
	if (!has_any_of(sas->sp, sas->of_account ? need->account_permissions : need->queue_permissions))
		return FAULT_AuthorizationPermissionMismatch;
	return FAULT_NONE;
}
