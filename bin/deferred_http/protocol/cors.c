/* SPDX-License-Identifier: MIT */
#include "protocol/cors.h"

#include <string.h>
#include <strings.h>

/* The next entry of a list, blanks around it taken off. False: the end. */
static bool next_entry(const char **list, const char **start, size_t *len)
{
	*list += strspn(*list, " \t,");
	if (!**list)
		return false;
	*start = *list;
	*len = strcspn(*list, ",");
	*list += *len;
	while (*len > 0 && ((*start)[*len - 1] == ' ' || (*start)[*len - 1] == '\t'))
		--*len;
	return true;
}

bool cors_list_has(const char *list, const char *value, size_t value_len)
{
	const char *p;
	size_t len;

	while (next_entry(&list, &p, &len)) {
		bool any_rest = p[len - 1] == '*';

		if (any_rest ? value_len >= len - 1 && strncasecmp(p, value, len - 1) == 0
			     : value_len == len && strncasecmp(p, value, len) == 0)
			return true;
	}
	return false;
}

static bool origin_allowed(const struct cors_rule *rule, const char *origin)
{
	const char *list = rule->origins, *p;
	size_t len;

	while (next_entry(&list, &p, &len))
		if ((len == 1 && *p == '*') || (len == strlen(origin) && strncasecmp(p, origin, len) == 0))
			return true;
	return false;
}

static bool all_allowed(const struct cors_rule *rule, const char *headers)
{
	const char *p;
	size_t len;

	while (next_entry(&headers, &p, &len))
		if (!cors_list_has(rule->allowed_headers, p, len))
			return false;
	return true;
}

void cors_preflight(const struct request *r, const struct service_properties *properties, struct reply *reply)
{
	const char *origin = request_value(r, "origin"), *method = request_value(r, "access-control-request-method");
	const char *headers = request_value(r, "access-control-request-headers");

	if (!origin || !method || !*origin || !*method) {
		reply_fault(reply, FAULT_InvalidHeaderValue);
		reply->message = "A required CORS header is not present.";
		return;
	}
	for (size_t i = 0; properties && i < properties->cors_len; i++) {
		const struct cors_rule *rule = &properties->cors[i];

		if (!origin_allowed(rule, origin) || !cors_list_has(rule->methods, method, strlen(method)) ||
		    !all_allowed(rule, headers ? headers : ""))
			continue;
		reply->status = 200;
		reply_header(reply, "Access-Control-Allow-Origin", origin);
		reply_header(reply, "Access-Control-Allow-Methods", method);
		if (headers && *headers)
			reply_header(reply, "Access-Control-Allow-Headers", headers);
		reply_header(reply, "Access-Control-Max-Age", rule->max_age);
		reply_header(reply, "Access-Control-Allow-Credentials", "true");
		return;
	}
	reply_fault(reply, FAULT_CorsPreflightFailure);
}

static void expose_headers(const struct cors_rule *rule, struct reply *reply)
{
	struct buf names = { 0 };
	const char *list = rule->exposed_headers, *p;
	size_t len, headers = reply->headers_len;

	for (size_t i = 0; i < headers; i++) {
		const char *name = reply->headers[i].name;

		if (cors_list_has(rule->exposed_headers, name, strlen(name)))
			buf_printf(&names, "%s%s", names.len > 0 ? "," : "", name);
	}
	while (next_entry(&list, &p, &len)) {
		bool there = p[len - 1] == '*';

		for (size_t i = 0; i < headers && !there; i++)
			there = strlen(reply->headers[i].name) == len &&
				strncasecmp(reply->headers[i].name, p, len) == 0;
		if (!there)
			buf_printf(&names, "%s%.*s", names.len > 0 ? "," : "", (int)len, p);
	}
	if (names.len > 0)
		reply_header(reply, "Access-Control-Expose-Headers", arena_copy(reply->arena, names.p, names.len));
	buf_clear(&names);
}

void cors_headers(const struct request *r, const struct service_properties *properties, struct reply *reply)
{
	const char *origin = request_value(r, "origin");

	if (!origin || !properties || properties->cors_len == 0)
		return;
	for (size_t i = 0; i < properties->cors_len; i++) {
		const struct cors_rule *rule = &properties->cors[i];

		if (!origin_allowed(rule, origin) || !cors_list_has(rule->methods, r->method, strlen(r->method)))
			continue;
		expose_headers(rule, reply);
		if (strcmp(rule->origins, "*") == 0) {
			reply_header(reply, "Access-Control-Allow-Origin", "*");
			return;
		}
		reply_header(reply, "Access-Control-Allow-Origin", origin);
		reply_header(reply, "Vary", "Origin");
		reply_header(reply, "Access-Control-Allow-Credentials", "true");
		return;
	}
	reply_header(reply, "Vary", "Origin");
}
