/* SPDX-License-Identifier: MIT */
#include "protocol/address.h"

#include "http/text.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define SECONDARY "-secondary"

static bool is_ip_address(const char *host)
{
	struct in_addr v4;

	return host[0] == '[' || inet_pton(AF_INET, host, &v4) == 1;
}

/* Host style is what the clients' libraries take it for: the second label is "queue". All else has the account in the
 * path. */
static void read_style(struct request *r)
{
	const char *dot = strchr(r->host, '.');

	r->path_style = is_ip_address(r->host) || !dot || strncmp(dot, ".queue.", 7) != 0;
}

static void name_account(struct request *r, const char *name)
{
	size_t len = strlen(name), suffix = strlen(SECONDARY);

	r->secondary = len > suffix && strcmp(name + len - suffix, SECONDARY) == 0;
	r->account = arena_copy(r->arena, name, r->secondary ? len - suffix : len);
}

/* Splits the raw path before it is decoded: %2F is no separator. */
static void read_request_path(struct request *r)
{
	char *segment[5] = { NULL };
	const char *p = r->raw_path;
	size_t n = 0, at;

	while (*p == '/' && p[1]) {
		size_t len = strcspn(++p, "/");
		long decoded;

		if (n == 5) {
			request_wrong(r, FAULT_InvalidUri, NULL);
			break;
		}
		segment[n] = arena_copy(r->arena, p, len);
		decoded = text_percent_decode(segment[n], len);
		if (len == 0 || decoded < 0) {
			request_wrong(r, FAULT_InvalidUri, NULL);
			return;
		}
		segment[n++][decoded] = '\0';
		p += len;
	}
	if (r->path_style)
		name_account(r, n > 0 ? segment[0] : "");
	else
		name_account(r, arena_copy(r->arena, r->host, strcspn(r->host, ".")));
	at = r->path_style;
	if (n <= at)
		return;
	r->queue = segment[at];
	r->level = LEVEL_QUEUE;
	if (n > at + 1) {
		if (strcmp(segment[at + 1], "messages") != 0 || n > at + 3) {
			request_wrong(r, FAULT_InvalidUri, NULL);
			return;
		}
		r->level = LEVEL_MESSAGES;
	}
	if (n == at + 3) {
		r->id = segment[at + 2];
		r->level = LEVEL_MESSAGE;
	}
}

static void read_version(struct request *r)
{
	const char *header = request_value(r, "x-ms-version"), *sv = request_param(r, "sv"),
		   *authorization = request_value(r, "authorization");

	if (header && !text_is_version(header))
		request_wrong(r, FAULT_InvalidHeaderValue, "x-ms-version");
	r->version = header ? header : sv;
	r->form_2008 = !header && !sv && !(authorization && strncasecmp(authorization, "bearer", 6) == 0);
}

enum fault address_read(struct request *r)
{
	const char *id;

	request_end(r);
	read_style(r);
	read_version(r);
	read_request_path(r);
	id = request_value(r, "x-ms-client-request-id");
	if (id && strlen(id) > 1024)
		request_wrong(r, FAULT_InvalidHeaderValue, "x-ms-client-request-id");
	return r->fault;
}

enum fault address_check_queue(const char *name)
{
	size_t len = strlen(name);

	if (len < 3 || len > REQUEST_QUEUE_MAX)
		return FAULT_OutOfRangeInput;
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] || name[0] == '-' || name[len - 1] == '-' ||
	    strstr(name, "--"))
		return FAULT_InvalidResourceName;
	return FAULT_NONE;
}

bool address_is_account(const char *name)
{
	size_t len = strlen(name);

	return len >= 3 && len <= REQUEST_ACCOUNT_MAX && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789")];
}
