/* SPDX-License-Identifier: MIT */
/* auth - who sent a request: the Authorization header or a SAS, held against the keys of the account addressed. */
#ifndef AUTH_H
#define AUTH_H

#include "sas.h"

#define AUTH_SKEW_S (15 * 60)

struct auth {
	const char *scheme; /* for the access log */
	bool lite;
	const char *signature; /* of the header; NULL where a SAS is judged */
	struct sas sas;
};

/* Read what there is. False: nothing that could be right, whoever sent it; the time is judged here as well. */
bool auth_read(const struct request *r, int64_t now, struct auth *auth);

/* Is the signature right? A SAS still has to pass sas_check(), and first the policy it names. */
bool auth_verify(const struct auth *auth, const struct request *r, const struct sign_keys *keys);

#endif
