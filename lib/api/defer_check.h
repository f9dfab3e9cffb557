/* SPDX-License-Identifier: MIT */
/* defer_check - what is wrong with a call can often be said before anything is sent; the rest the database refuses. */
#ifndef DEFER_CHECK_H
#define DEFER_CHECK_H

#include "base/error.h"

#include <stddef.h>

/* params_max_bytes 0: only the limit of the queue counts, which the server knows. Returns 0 or DEFERRED_EINVAL. */
int defer_check(const struct deferred_call_spec *call, int64_t params_max_bytes, struct deferred_error *err);
int defer_check_many(const struct deferred_call_spec *calls, size_t n, int64_t params_max_bytes,
		     struct deferred_error *err);

#endif
