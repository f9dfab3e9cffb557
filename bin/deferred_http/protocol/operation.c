/* SPDX-License-Identifier: MIT */
#include "protocol/operation.h"

#include <string.h>

#define READ (VERB_GET | VERB_HEAD)

/* Documentation and emulator differ in what a token needs for Update, Delete and Clear. Both are accepted. */
static const struct operation table[] = {
	{ "ListQueues", VERB_GET, LEVEL_ACCOUNT, NULL, "list", { "s", "l", "" }, false, OP_LIST_QUEUES },
	{ "GetServiceProperties",
	  VERB_GET,
	  LEVEL_ACCOUNT,
	  "service",
	  "properties",
	  { "s", "r", "" },
	  false,
	  OP_GET_PROPERTIES },
	{ "SetServiceProperties",
	  VERB_PUT,
	  LEVEL_ACCOUNT,
	  "service",
	  "properties",
	  { "s", "w", "" },
	  true,
	  OP_SET_PROPERTIES },
	{ "GetServiceStatistics", VERB_GET, LEVEL_ACCOUNT, "service", "stats", { "s", "r", "" }, false, OP_GET_STATS },
	{ "GetUserDelegationKey",
	  VERB_POST,
	  LEVEL_ACCOUNT,
	  "service",
	  "userdelegationkey",
	  { "", "", "" },
	  false,
	  OP_DELEGATION_KEY },
	{ "CreateQueue", VERB_PUT, LEVEL_QUEUE, NULL, NULL, { "c", "cw", "" }, false, OP_CREATE_QUEUE },
	{ "DeleteQueue", VERB_DELETE, LEVEL_QUEUE, NULL, NULL, { "c", "d", "" }, false, OP_DELETE_QUEUE },
	{ "GetQueueMetadata", READ, LEVEL_QUEUE, NULL, "metadata", { "c", "r", "r" }, false, OP_GET_METADATA },
	{ "SetQueueMetadata", VERB_PUT, LEVEL_QUEUE, NULL, "metadata", { "c", "w", "" }, false, OP_SET_METADATA },
	{ "GetQueueACL", READ, LEVEL_QUEUE, NULL, "acl", { "", "", "" }, false, OP_GET_ACL },
	{ "SetQueueACL", VERB_PUT, LEVEL_QUEUE, NULL, "acl", { "", "", "" }, true, OP_SET_ACL },
	{ "PutMessage", VERB_POST, LEVEL_MESSAGES, NULL, NULL, { "o", "a", "a" }, true, OP_PUT_MESSAGE },
	{ "GetMessages", VERB_GET, LEVEL_MESSAGES, NULL, NULL, { "o", "p", "p" }, false, OP_GET_MESSAGES },
	{ "ClearMessages", VERB_DELETE, LEVEL_MESSAGES, NULL, NULL, { "co", "d", "" }, false, OP_CLEAR_MESSAGES },
	{ "UpdateMessage", VERB_PUT, LEVEL_MESSAGE, NULL, NULL, { "co", "u", "u" }, true, OP_UPDATE_MESSAGE },
	{ "DeleteMessage", VERB_DELETE, LEVEL_MESSAGE, NULL, NULL, { "co", "p", "p" }, false, OP_DELETE_MESSAGE },
};
static const struct operation peek = { "PeekMessages", VERB_GET,          LEVEL_MESSAGES, NULL,
				       NULL,           { "o", "r", "r" }, false,          OP_PEEK_MESSAGES };
static const struct operation put_raw = { "PutMessage2008", VERB_PUT, LEVEL_MESSAGES, NULL, NULL,
					  { "", "", "" },   true,     OP_PUT_RAW };

static bool same_value(const char *a, const char *b)
{
	return a ? b && strcmp(a, b) == 0 : !b;
}

enum fault operation_find(const struct request *r, const struct operation **op)
{
	const char *comp = request_param(r, "comp"), *peekonly = request_param(r, "peekonly");
	/* Below the account, restype has no meaning and is ignored, like all unknown parameters. */
	const char *restype = r->level == LEVEL_ACCOUNT ? request_param(r, "restype") : NULL;
	bool is_there = false;

	*op = NULL;
	if (r->verb & (VERB_PATCH | VERB_OTHER))
		return FAULT_UnsupportedHttpVerb;
	if (request_param_times(r, "comp") > 1 || request_param_times(r, "restype") > 1 ||
	    request_param_times(r, "peekonly") > 1)
		return FAULT_InvalidQueryParameterValue;
	if (r->level == LEVEL_MESSAGES && r->verb == VERB_PUT && !comp && r->form_2008) {
		*op = &put_raw;
		return FAULT_NONE;
	}
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].level != r->level || !same_value(table[i].comp, comp) ||
		    !same_value(table[i].restype, restype))
			continue;
		is_there = true;
		if (table[i].verbs & r->verb)
			*op = &table[i];
	}
	if (*op && (*op)->run == OP_GET_MESSAGES && same_value(peekonly, "true"))
		*op = &peek;
	if (*op)
		return FAULT_NONE;
	/* GET and HEAD of a queue always say which part of it. */
	if (!is_there || (r->level == LEVEL_QUEUE && !comp && (r->verb & READ)))
		return FAULT_InvalidQueryParameterValue;
	return FAULT_UnsupportedHttpVerb;
}

const char *operation_name(enum operation_run run)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].run == run)
			return table[i].name;
	return run == OP_PEEK_MESSAGES ? peek.name : put_raw.name;
}
