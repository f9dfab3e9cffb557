/* SPDX-License-Identifier: MIT */
/* names - which names functions and queues may have; deferred.defer() has the same rules. */
#ifndef NAMES_H
#define NAMES_H

#include <stdbool.h>

#define NAMES_FUNCTION_MAX 127
#define NAMES_QUEUE_MAX 88

/* [A-Za-z_][A-Za-z0-9_.]*, 1 to NAMES_FUNCTION_MAX bytes. NULL: no. */
bool names_is_function(const char *name);

/* [A-Za-z0-9_][A-Za-z0-9_.-]*, 1 to NAMES_QUEUE_MAX bytes. */
bool names_is_queue(const char *name);

/* The beginning of a queue name, which may be empty, and '*'. */
bool names_is_pattern(const char *name);

#endif
