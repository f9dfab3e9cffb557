/* SPDX-License-Identifier: MIT */
/* routes - which path leads to which page or action. */
#ifndef ROUTES_H
#define ROUTES_H

#include "server/web_request.h"

extern const struct web_route web_routes[]; /* ends with path NULL */

#endif
