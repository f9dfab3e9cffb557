/* SPDX-License-Identifier: MIT */
/* certificate - how long certificates in a file are good for. */
#ifndef CERTIFICATE_H
#define CERTIFICATE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Seconds until the certificates of a file in PEM end, negative: since they have. all: until the first of them does, as
 * in a chain; else until the last one does, as in a collection of those that are trusted.
 *
 * Returns 0, or DEFERRED_ECONFIG: the file cannot be read, or there is none in it.
 */
int certificate_left(const char *path, bool all, int64_t *seconds, struct deferred_error *err);

#endif
