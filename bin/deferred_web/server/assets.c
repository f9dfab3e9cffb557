/* SPDX-License-Identifier: MIT */
#include "assets.h"

#include <string.h>

#define EMBED(name) \
	__asm__(".section .rodata\n.global asset_" #name "\n.hidden asset_" #name "\nasset_" #name \
		":\n.incbin \"" ASSETS_FOLDER #name ".gz\"\n" \
		".global asset_" #name "_end\n.hidden asset_" #name "_end\nasset_" #name \
		"_end:\n.byte 0\n.previous\n"); \
	extern const unsigned char asset_##name[], asset_##name##_end[]

EMBED(style_css);
EMBED(page_js);
EMBED(icon_svg);

static const struct asset assets[] = {
	{ ASSET_style_css, "text/css; charset=utf-8", asset_style_css, asset_style_css_end },
	{ ASSET_page_js, "text/javascript; charset=utf-8", asset_page_js, asset_page_js_end },
	{ ASSET_icon_svg, "image/svg+xml", asset_icon_svg, asset_icon_svg_end },
};

const struct asset *assets_find(const char *path)
{
	for (size_t i = 0; i < sizeof(assets) / sizeof(assets[0]); i++)
		if (strcmp(assets[i].path, path) == 0)
			return &assets[i];
	return NULL;
}
