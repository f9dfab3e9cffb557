/* SPDX-License-Identifier: MIT */
/*
 * refusal - why a request was not let in. Its sender is told what he sent, as we read it, and our time: never a
 * signature that would be right, nor whether there is an account of that name. The log tells these apart.
 */
#ifndef REFUSAL_H
#define REFUSAL_H

#include "protocol/auth.h"

/* For the sender, in the request's arena; NULL: there is no more to say. now_us: when the request was judged. */
const char *refusal_detail(const struct auth *auth, const struct request *r, int64_t now_us);

/* For the log; NULL: nothing was refused. */
const char *refusal_word(enum auth_why why);

#endif
