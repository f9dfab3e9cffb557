/* SPDX-License-Identifier: MIT */
/* traceparent - the form of a W3C trace context: "00-TRACE-SPAN-FLAGS", as sql/functions/job/__traceparent.sql has it
 * too. */
#ifndef TRACEPARENT_H
#define TRACEPARENT_H

#include <stdbool.h>

#define TRACEPARENT_SIZE 56 /* with its NUL */
#define TRACEPARENT_FORM "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

bool traceparent_valid(const char *text);

#endif
