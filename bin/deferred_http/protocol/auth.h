/* SPDX-License-Identifier: MIT */
/* auth - who sent a request: the Authorization header or a SAS, held against the keys of the account addressed. */
#ifndef AUTH_H
#define AUTH_H

#include "protocol/accounts.h"
#include "protocol/sas.h"

#define AUTH_SKEW_S (15 * 60)

/* Why a request is not let in; refusal.c has the words. */
enum auth_why {
	AUTH_FINE,
	AUTH_NOTHING,    /* neither header nor SAS */
	AUTH_HEADER,     /* the header is none, or of another account than the one addressed */
	AUTH_CLOCK,      /* no time, or not near enough to ours */
	AUTH_TOKEN,      /* the SAS is malformed */
	AUTH_NO_ACCOUNT, /* and these three, which the sender must not be able to tell apart: */
	AUTH_DISABLED,
	AUTH_SIGNATURE,
	AUTH_TOKEN_TIME,   /* with a right signature */
	AUTH_POLICY,       /* it does not exist */
	AUTH_POLICY_TWICE, /* it sets a field that the SAS sets too */
};

struct auth {
	enum auth_why why;
	const char *scheme; /* for the access log */
	bool lite;
	const char *signature; /* of the header; NULL where a SAS is judged */
	struct sas sas;
};

/* Read what there is. False: nothing that could be right, whoever sent it, and why; the time is judged here as well. */
bool auth_read(const struct request *r, int64_t now, struct auth *auth);

/* Is the signature right? A SAS still has to pass sas_check(), and first the policy it names. */
bool auth_verify(const struct auth *auth, const struct request *r, const struct sign_keys *keys);

/* The same of an account, NULL: there is none, which takes as long; sets why. */
bool auth_judge(struct auth *auth, const struct request *r, const struct account *account);

#endif
