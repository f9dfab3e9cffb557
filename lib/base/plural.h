/* SPDX-License-Identifier: MIT */
#ifndef PLURAL_H
#define PLURAL_H

#include <stdint.h>

/* What the noun that follows the number n ends with. */
static inline const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
