/* SPDX-License-Identifier: MIT */
/* client - what deferred_defer() checks before anything is sent, for those who have something else to do first. */
#ifndef CLIENT_H
#define CLIENT_H

#include "base/error.h"

/* params_max_bytes 0: the limit of the queue alone counts, which the server knows. Returns 0 or DEFERRED_EINVAL. */
int client_check(const struct deferred_call_spec *call, int64_t params_max_bytes, struct deferred_error *err);

#endif
