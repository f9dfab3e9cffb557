/* SPDX-License-Identifier: MIT */
#ifndef PLURAL_H
#define PLURAL_H

#include <stdint.h>

/* The ending of a noun that follows the number n. */
static inline const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
