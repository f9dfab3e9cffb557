/* SPDX-License-Identifier: MIT */
/*
 * api - the JSON API: requests under "/v1/" with a token. protocol/route.c finds what is asked for. The SQL function
 * deferred.__api() does it in one transaction and makes the answer (sql/functions/api). Requests that each store one
 * job become one statement: deferred.__api_many(). Errors are problem details as of RFC 9457.
 *
 * A body of more than BUDGET_SMALL bytes is received only after the database has checked the token. So nobody without
 * a token takes room from others.
 */
#ifndef API_H
#define API_H

#include "front/exchange.h"

extern const struct front_api api_front;

#endif
