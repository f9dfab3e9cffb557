/* SPDX-License-Identifier: MIT */
/* certificate - how long certificates in a file are good for. */
#ifndef CERTIFICATE_H
#define CERTIFICATE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Seconds until the certificates of a file in PEM expire; negative: since they have. all: until the first one expires,
 * as in a chain. Else until the last one expires, as in a collection of trusted ones.
 *
 * Returns 0, or DEFERRED_ECONFIG: the file cannot be read, or there is none in it.
 */
int certificate_left(const char *path, bool all, int64_t *seconds, struct deferred_error *err);

#endif
