/* SPDX-License-Identifier: MIT */
/* cors - the preflight requests of browsers, and the headers that they need: section 11 of the protocol. */
#ifndef CORS_H
#define CORS_H

#include "http/reply.h"
#include "http/request.h"
#include "protocol/json.h"

/* Answer an OPTIONS request. properties NULL: the account is unknown, and so has no rules. */
void cors_preflight(const struct request *r, const struct service_properties *properties, struct reply *reply);

/* Adds the headers of an actual request's answer. All other headers must be there. */
void cors_headers(const struct request *r, const struct service_properties *properties, struct reply *reply);

/* Does `list`, separated by commas, hold the value, without regard to case? "*" at the end of an entry: any rest. */
bool cors_list_has(const char *list, const char *value, size_t len);

#endif
