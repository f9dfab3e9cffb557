/* SPDX-License-Identifier: MIT */
/*
 * refusal - why a request was refused. The sender gets back the request as we read it, and our time. The answer never
 * has a right signature, and does not say whether the account exists. The log does.
 */
#ifndef REFUSAL_H
#define REFUSAL_H

#include "protocol/auth.h"

/* For the sender, in the request's arena; NULL: there is no more to say. now_us: when the request was judged. */
const char *refusal_detail(const struct auth *auth, const struct request *r, int64_t now_us);

/* For the log; NULL: nothing was refused. */
const char *refusal_word(enum auth_why why);

#endif
