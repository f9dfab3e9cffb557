/* SPDX-License-Identifier: MIT */
/* assets - files that are part of the program. Their addresses contain a hash of their content, so browsers may keep
 * them for ever. */
#ifndef ASSETS_H
#define ASSETS_H

#include "web_assets.h" /* made at build time: ASSET_NAME, their addresses */

#include <stddef.h>

struct asset {
	const char *path, *type;
	const unsigned char *bytes, *end; /* gzipped */
};

/* NULL: there is no such file. */
const struct asset *assets_find(const char *path);

#endif
