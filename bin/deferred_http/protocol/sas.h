/* SPDX-License-Identifier: MIT */
/* sas - shared access signatures: rights for a while, in the query. */
#ifndef SAS_H
#define SAS_H

#include "protocol/sign.h"

struct sas {
	bool present;    /* there is a sig: the request is judged by it, unless it has an Authorization header */
	bool of_account; /* else of one queue */
	bool malformed;
	/* As they came; "" where absent. */
	const char *sv, *sig, *se, *st, *sp, *spr, *sip, *ss, *srt, *si, *ses;
};

/* A policy kept with the queue, which a token can name. "" where it says nothing. */
struct sas_policy {
	const char *id, *start, *expiry, *permission;
};

/* An operation needs a token with one of these letters. "": no token is enough. */
struct sas_need {
	const char *types, *account_permissions, *queue_permissions;
};

void sas_read(const struct request *r, struct sas *sas);
void sas_text(const struct sas *sas, const struct request *r, struct buf *out);
bool sas_verify(const struct sas *sas, const struct request *r, const struct sign_keys *keys);

/* Take from the policy what the token does not say. False: policy NULL, or both say it. */
bool sas_take_policy(struct sas *sas, const struct sas_policy *policy);

/* All but the signature: time, protocol, address, service, type, permission. now in seconds since 1970. */
enum fault sas_check(const struct sas *sas, const struct request *r, const struct sas_need *need, int64_t now);

#endif
