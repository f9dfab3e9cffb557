/* SPDX-License-Identifier: MIT */
/* route - which operation a request asks for. */
#ifndef ROUTE_H
#define ROUTE_H

#include "http/request.h"
#include "protocol/sas.h"

enum route_run {
	RUN_LIST_QUEUES,
	RUN_GET_PROPERTIES,
	RUN_SET_PROPERTIES,
	RUN_GET_STATS,
	RUN_DELEGATION_KEY,
	RUN_CREATE_QUEUE,
	RUN_DELETE_QUEUE,
	RUN_GET_METADATA,
	RUN_SET_METADATA,
	RUN_GET_ACL,
	RUN_SET_ACL,
	RUN_PUT_MESSAGE,
	RUN_GET_MESSAGES,
	RUN_PEEK_MESSAGES,
	RUN_CLEAR_MESSAGES,
	RUN_UPDATE_MESSAGE,
	RUN_DELETE_MESSAGE,
	RUN_PUT_RAW,
	RUNS
};

struct operation {
	const char *name;
	unsigned verbs; /* of enum request_verb */
	enum request_level level;
	const char *restype, *comp; /* of the query; NULL: absent */
	struct sas_need need;
	bool takes_body;
	enum route_run run;
};

/* FAULT_NONE and the operation; or why there is none. OPTIONS is not routed. */
enum fault route_find(const struct request *r, const struct operation **op);

/* What an operation is called in logs and metrics. */
const char *route_name(enum route_run run);

#endif
