/* SPDX-License-Identifier: MIT */
/* cors - what browsers ask before, and are told with, requests from pages of other origins: section 11 of the protocol.
 * */
#ifndef CORS_H
#define CORS_H

#include "protocol/json.h"
#include "http/reply.h"
#include "http/request.h"

/* Answer an OPTIONS request. properties NULL: the account is unknown, and so has no rules. */
void cors_preflight(const struct request *r, const struct service_properties *properties, struct reply *reply);

/* Add what an actual request is told, when all other headers of the answer are there. */
void cors_headers(const struct request *r, const struct service_properties *properties, struct reply *reply);

/* Does `list`, separated by commas, hold the value, without regard to case? "*" at the end of an entry: any rest. */
bool cors_list_has(const char *list, const char *value, size_t len);

#endif
