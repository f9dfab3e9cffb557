/* SPDX-License-Identifier: MIT */
#include "protocol/route.h"

#include "http/text.h"

#include <string.h>

#define PREFIX "/v1/"
#define READ (VERB_GET | VERB_HEAD)

static const struct route table[] = {
	{ { "DeferJob", VERB_POST, .takes_body = true, .run = OP_DEFER_JOB }, "jobs", "defer" },
	{ { "DeferJobs", VERB_POST, .takes_body = true, .run = OP_DEFER_JOBS }, "jobs/batch", "batch", true },
	{ { "GetJob", READ, .run = OP_GET_JOB }, "jobs/*", "job" },
	{ { "UpdateJob", VERB_PATCH, .takes_body = true, .run = OP_UPDATE_JOB }, "jobs/*", "update" },
	{ { "CancelJob", VERB_DELETE, .run = OP_CANCEL_JOB }, "jobs/*", "cancel" },
	{ { "RetryJob", VERB_POST, .takes_body = true, .run = OP_RETRY_JOB }, "jobs/*/retry", "retry" },
	{ { "ListJobs", READ, .run = OP_LIST_JOBS }, "jobs", "jobs", true },
	{ { "ListJobQueues", READ, .run = OP_LIST_JOB_QUEUES }, "queues", "queues", true },
	{ { "GetJobQueue", READ, .run = OP_GET_JOB_QUEUE }, "queues/*", "queue", true },
	{ { "SendEvent", VERB_POST, .takes_body = true, .run = OP_SEND_EVENT }, "events/*", "event" },
	{ { "ClaimJobs", VERB_POST, .takes_body = true, .run = OP_CLAIM_JOBS }, "claim", "claim" },
	{ { "FinishJob", VERB_POST, .takes_body = true, .run = OP_FINISH_JOB }, "jobs/*/finish", "finish" },
	{ { "FailJob", VERB_POST, .takes_body = true, .run = OP_FAIL_JOB }, "jobs/*/fail", "fail" },
	{ { "SnoozeJob", VERB_POST, .takes_body = true, .run = OP_SNOOZE_JOB }, "jobs/*/snooze", "snooze" },
	{ { "ExtendJob", VERB_POST, .takes_body = true, .run = OP_EXTEND_JOB }, "jobs/*/extend", "extend" },
	{ { "ReportProgress", VERB_POST, .takes_body = true, .run = OP_REPORT_PROGRESS },
	  "jobs/*/progress",
	  "progress" },
	{ { "SaveStep", VERB_POST, .takes_body = true, .run = OP_SAVE_STEP }, "jobs/*/step", "step" },
	{ { "GetOpenApi", READ, .run = OP_GET_OPENAPI }, "openapi.json" },
};

bool route_is_api(const struct request *r)
{
	return strncmp(r->raw_path, PREFIX, strlen(PREFIX)) == 0;
}

/* The path is compared as it came: an escaped letter of a fixed segment is another path. */
static bool match_path(const struct request *r, const char *path, const char **arg)
{
	const char *at = r->raw_path + strlen(PREFIX), *star = strchr(path, '*');
	size_t fixed = star ? (size_t)(star - path) : strlen(path), len;
	char *copy;
	long decoded;

	*arg = NULL;
	if (strncmp(at, path, fixed) != 0)
		return false;
	if (!star)
		return !at[fixed];
	len = strcspn(at + fixed, "/");
	if (len == 0 || strcmp(at + fixed + len, star + 1) != 0)
		return false;
	copy = arena_copy(r->arena, at + fixed, len);
	decoded = text_percent_decode(copy, len);
	if (decoded < 0)
		return false;
	copy[decoded] = '\0';
	*arg = copy;
	return true;
}

static const char *methods_of(struct arena *arena, unsigned verbs)
{
	static const struct {
		enum request_verb verb;
		const char *name;
	} names[] = { { VERB_GET, "GET" },
		      { VERB_HEAD, "HEAD" },
		      { VERB_POST, "POST" },
		      { VERB_PATCH, "PATCH" },
		      { VERB_DELETE, "DELETE" } };
	const char *list = "";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (verbs & names[i].verb)
			list = arena_printf(arena, "%s%s%s", list, *list ? ", " : "", names[i].name);
	return list;
}

const struct route *route_find(const struct request *r, const char **arg, const char **allow)
{
	unsigned verbs = 0;

	*allow = NULL;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (!match_path(r, table[i].path, arg))
			continue;
		if (table[i].op.verbs & r->verb)
			return &table[i];
		verbs |= table[i].op.verbs;
	}
	if (verbs)
		*allow = methods_of(r->arena, verbs);
	return NULL;
}

const char *route_name(enum operation_run run)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].op.run == run)
			return table[i].op.name;
	return NULL;
}
