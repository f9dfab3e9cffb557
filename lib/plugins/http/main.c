/* SPDX-License-Identifier: MIT */
/*
 * http - send one HTTP request.
 *
 * params  {"method": TEXT, "url": TEXT, "headers": {NAME: TEXT, ...}, "json": VALUE | "body": TEXT,
 *         "timeout": SPAN, "sign": NAME, "follow": true}
 *         deferred_functions(7) tells what each of them means.
 *
 * Rules.
 * - A producer may have no right to reach the networks of this host. An address is connected to only if it is public or
 *   http.allow lists its network. That is checked for the address of each socket, so no name server can deceive it.
 * - No params can add a header or a second request. Control characters are refused, and so are headers about the
 *   connection or the length of the body.
 * - Nothing comes from the environment: no proxy, no .netrc.
 * - The status decides as soon as it is known, even if the body breaks off. Only a success needs the whole body.
 * - A redirect is a new request that is checked again. Another host gets no headers that may be secrets.
 * - Each call opens its own connection, so a job cannot use what an earlier one has left.
 */
#include "outbound.h"

#include "base/text/base64.h"
#include "base/text/utf8.h"
#include "base/text/visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_AFTER_MAX_S 86400
#define BINARY_MAX ((size_t)6000) /* bytes whose Base64 fits into a result */

/* ---- judging ------------------------------------------------------------------------------------ */

/* A character that was cut off at the end does not make text binary. */
static size_t text_length(const struct outbound *o)
{
	size_t len = utf8_prefix(o->kept, o->kept_len);

	return o->kept_len - len < 4 && o->total_len > o->kept_len ? len : len == o->kept_len ? len : 0;
}

static void give_result(const struct outbound *o)
{
	char text[8 + BASE64_SIZE(BINARY_MAX)] = "base64:";
	size_t len = text_length(o);

	if (len || !o->kept_len) {
		o->call->host->result(o->call, o->kept, len);
		return;
	}
	base64_encode(o->kept, o->kept_len < BINARY_MAX ? o->kept_len : BINARY_MAX, text + strlen(text));
	o->call->host->result(o->call, text, strlen(text));
}

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* No status is known. */
static int judge_failure(struct outbound *o, CURLcode code)
{
	if (o->refused[0] && !o->connecting)
		return outbound_fail(
			o, DEFERRED_DEAD,
			"%s: address %s is not public; hint: set http { allow } to its network if functions "
			"may reach it",
			o->where, o->refused);
	if (code == CURLE_OK)
		o->cut = "the answer ends within its head";
	else if (code == CURLE_OUT_OF_MEMORY)
		o->cut = "a header of the answer is longer than libcurl allows, or memory ran out";
	return outbound_fail(o, DEFERRED_FAILED, "%s: %s", o->where,
			     o->cut             ? o->cut
			     : o->curl_error[0] ? o->curl_error
						: curl_easy_strerror(code));
}

/* Of the header Retry-After, which has seconds or a date; 0: it has neither, or the time is over. */
static int64_t retry_after_ms(const struct outbound *o)
{
	struct curl_header *header;
	int64_t s;
	char *end;

	if (curl_easy_header(o->curl, "Retry-After", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
		return 0;
	s = strtoll(header->value, &end, 10);
	if (end == header->value || *end)
		s = curl_getdate(header->value, NULL) - time(NULL);
	return s <= 0 ? 0 : (s < RETRY_AFTER_MAX_S ? s : RETRY_AFTER_MAX_S) * 1000;
}

static int judge(struct outbound *o, CURLcode code)
{
	bool again = o->status == 408 || o->status == 425 || o->status == 429 || o->status >= 500;
	int len = (int)utf8_prefix(o->kept, o->kept_len < 500 ? o->kept_len : 500);
	int64_t after_ms;

	if (!o->status)
		return judge_failure(o, code);
	if (o->status / 100 == 2) {
		if (code == CURLE_OK) {
			give_result(o);
			return DEFERRED_OK;
		}
		judge_failure(o, code);
		return o->total_len > OUTBOUND_BODY_MAX ? DEFERRED_DEAD : DEFERRED_FAILED;
	}
	if (is_redirect(o->status) && !o->follow)
		return outbound_fail(o, DEFERRED_DEAD,
				     "%s: status %ld, a redirect; hint: write the new URL, or \"follow\": true",
				     o->where, o->status);
	outbound_fail(o, 0, "%s: status %ld%s%.*s", o->where, o->status, len ? ": " : "", len, o->kept);
	if (!again)
		return DEFERRED_DEAD;
	if (!(after_ms = retry_after_ms(o)))
		return DEFERRED_FAILED;
	o->call->host->retry_after(o->call, after_ms);
	return DEFERRED_LATER;
}

/* ---- redirects ---------------------------------------------------------------------------------- */

/* The request of the next hop. *done: the answer is not a redirect that is followed. */
static int next_hop(struct outbound *o, int hops, bool *done)
{
	char *location = NULL, before[OUTBOUND_WHERE_SIZE];
	int rc;

	curl_easy_getinfo(o->curl, CURLINFO_REDIRECT_URL, &location);
	*done = !o->follow || !is_redirect(o->status) || !location;
	if (*done)
		return DEFERRED_OK;
	if (hops == OUTBOUND_REDIRECTS_MAX)
		return outbound_fail(o, DEFERRED_DEAD, "%s: status %ld after %d redirects; hint: write the last URL",
				     o->where, o->status, hops);
	snprintf(before, sizeof(before), "%s", o->where);
	rc = outbound_url(o, "redirect", location);
	if (rc == DEFERRED_OK && strcspn(before, ":") != strcspn(o->where, ":"))
		rc = outbound_fail(o, DEFERRED_DEAD,
				   "redirect from %s to %s: the scheme is another; hint: write the new URL", before,
				   o->where);
	o->elsewhere |= strcmp(before, o->where) != 0;
	/* As browsers do (RFC 9110, 15.4). */
	if (strcmp(o->method, "HEAD") != 0 &&
	    (o->status == 303 || (o->status < 303 && strcmp(o->method, "POST") == 0))) {
		o->method = "GET";
		o->body = NULL;
		o->body_len = 0;
	}
	return rc;
}

/* ---- the function ------------------------------------------------------------------------------- */

static void outbound_free(struct outbound *o)
{
	if (o->curl)
		curl_easy_cleanup(o->curl);
	curl_url_cleanup(o->url);
	json_decref(o->params);
	explicit_bzero(o->secrets, sizeof(o->secrets));
	free(o);
}

/* It quotes what a server or a producer wrote. */
static void report_why(const struct outbound *o)
{
	char text[sizeof(o->why) * 4 + VISIBLE_MAX];
	size_t len = 0;

	for (const char *p = o->why; *p; len += strlen(text + len))
		p += visible_char(p, text + len);
	o->call->host->error(o->call, text, len);
}

static int send_http(const struct deferred_call *call)
{
	struct outbound *o = calloc(1, sizeof(*o));
	CURLcode code = CURLE_OK;
	bool done = false;
	int rc;

	if (!o) {
		call->host->error(call, "out of memory", 13);
		return DEFERRED_FAILED;
	}
	o->call = call;
	rc = outbound_params(o);
	if (rc == DEFERRED_OK && !(o->curl = curl_easy_init()))
		rc = outbound_fail(o, DEFERRED_FAILED, "libcurl does not start");
	for (int hops = 0; rc == DEFERRED_OK && !done; hops++)
		if ((rc = outbound_transfer(o, &code)) == DEFERRED_OK)
			rc = next_hop(o, hops, &done);
	if (rc == DEFERRED_OK)
		rc = judge(o, code);
	if (rc != DEFERRED_OK)
		report_why(o);
	outbound_free(o);
	return rc;
}

static const struct deferred_function functions[] = {
	{ .name = "http", .run = send_http },
};

DEFERRED_PLUGIN("http", "1.0", functions);
