/* SPDX-License-Identifier: MIT */
#include "api/openapi.h"

__asm__(".section .rodata\n.global openapi_text\n.hidden openapi_text\nopenapi_text:\n"
	".incbin \"bin/deferred_http/api/openapi.json\"\n.byte 0\n.previous\n");
extern const char openapi_text[];

enum served_step openapi_answer(struct exchange *x)
{
	buf_text(&x->reply.body, openapi_text);
	return SERVED_ANSWER;
}
