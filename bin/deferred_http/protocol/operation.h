/* SPDX-License-Identifier: MIT */
/* operation - the operations of the protocol, and which one a request asks for. */
#ifndef OPERATION_H
#define OPERATION_H

#include "http/request.h"
#include "protocol/sas.h"

enum operation_run {
	OP_LIST_QUEUES,
	OP_GET_PROPERTIES,
	OP_SET_PROPERTIES,
	OP_GET_STATS,
	OP_DELEGATION_KEY,
	OP_CREATE_QUEUE,
	OP_DELETE_QUEUE,
	OP_GET_METADATA,
	OP_SET_METADATA,
	OP_GET_ACL,
	OP_SET_ACL,
	OP_PUT_MESSAGE,
	OP_GET_MESSAGES,
	OP_PEEK_MESSAGES,
	OP_CLEAR_MESSAGES,
	OP_UPDATE_MESSAGE,
	OP_DELETE_MESSAGE,
	OP_PUT_RAW,
	/* Of the JSON API: route.c. */
	OP_DEFER_JOB,
	OP_DEFER_JOBS,
	OP_GET_JOB,
	OP_UPDATE_JOB,
	OP_CANCEL_JOB,
	OP_RETRY_JOB,
	OP_LIST_JOBS,
	OP_LIST_JOB_QUEUES,
	OP_GET_JOB_QUEUE,
	OP_SEND_EVENT,
	OP_CLAIM_JOBS,
	OP_FINISH_JOB,
	OP_FAIL_JOB,
	OP_SNOOZE_JOB,
	OP_EXTEND_JOB,
	OP_REPORT_PROGRESS,
	OP_SAVE_STEP,
	OP_GET_OPENAPI,
	OPERATIONS
};

struct operation {
	const char *name;
	unsigned verbs; /* of enum request_verb */
	enum request_level level;
	const char *restype, *comp; /* of the query; NULL: absent */
	struct sas_need need;
	bool takes_body;
	enum operation_run run;
};

/* FAULT_NONE and the operation, or why there is none. OPTIONS is not an operation. */
enum fault operation_find(const struct request *r, const struct operation **op);

/* The name of an operation in logs and metrics. */
const char *operation_name(enum operation_run run);

#endif
