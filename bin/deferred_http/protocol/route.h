/* SPDX-License-Identifier: MIT */
/* route - the requests of the JSON API, and which one a request is. The paths of the API begin with "/v1/". No account
 * of the Azure protocol has a name of two characters, so no path means two things. */
#ifndef ROUTE_H
#define ROUTE_H

#include "protocol/operation.h"

struct route {
	struct operation op; /* name, verbs, takes_body and run */
	const char *path;    /* behind "/v1/"; "*" is one segment, the argument */
	const char *call;    /* op of deferred.__api(); NULL: the answer needs no database */
	bool slow;           /* runs apart from messages */
};

bool route_is_api(const struct request *r);

/* NULL: there is none. Then *allow has the methods of the path; NULL: it is unknown. *arg is decoded. NULL: the path
 * has none. */
const struct route *route_find(const struct request *r, const char **arg, const char **allow);

/* NULL: it is of the Azure protocol. */
const char *route_name(enum operation_run run);

#endif
