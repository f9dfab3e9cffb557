/* SPDX-License-Identifier: MIT */
/* The params of a call, each checked before anything is sent. The first fault ends the call for good. */
#include "outbound.h"

#include "base/clock.h"
#include "base/span.h"
#include "public_address.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADERS_MAX 50
#define HEADER_MAX 4000 /* bytes of a value */
#define TIMEOUT_MS 30000
#define TIMEOUT_MAX_MS 3600000

/* Visible ASCII, and blanks if `blanks`: it cannot end a line of a request. */
static bool is_printable(const char *text, size_t len, bool blanks)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] > '~' || text[i] < ' ' || (text[i] == ' ' && !blanks))
			return false;
	return true;
}

/* A text of the params; *text stays as it is if the member is not there. */
static int take_member(struct outbound *o, const char *name, const char **text, bool nul)
{
	const json_t *value = json_object_get(o->params, name);

	if (!value || json_is_null(value))
		return DEFERRED_OK;
	if (!json_is_string(value))
		return outbound_fail(o, DEFERRED_DEAD,
				     "%s: the value is not a JSON string; hint: put it in double quotes", name);
	*text = json_string_value(value);
	if (!nul && strlen(*text) != json_string_length(value))
		return outbound_fail(o, DEFERRED_DEAD, "%s: the value has a NUL character; hint: remove it", name);
	return DEFERRED_OK;
}

/* ---- URL --------------------------------------------------------------------------------------- */

int outbound_url(struct outbound *o, const char *what, const char *text)
{
	char *scheme = NULL, *host = NULL, *port = NULL;
	CURLUcode code = CURLUE_OK;
	int rc = DEFERRED_OK;

	if (!o->url && !(o->url = curl_url()))
		return outbound_fail(o, DEFERRED_FAILED, "out of memory");
	if (!is_printable(text, strlen(text), false))
		return outbound_fail(o, DEFERRED_DEAD,
				     "%s: the URL has a blank, a control character or a letter outside of ASCII; "
				     "hint: write blanks as %%20, hosts as xn--",
				     what);
	code = curl_url_set(o->url, CURLUPART_URL, text, CURLU_DISALLOW_USER);
	if (code == CURLUE_USER_NOT_ALLOWED)
		return outbound_fail(o, DEFERRED_DEAD,
				     "%s: the URL has a user or password; hint: write the header Authorization", what);
	if (code == CURLUE_OK && curl_url_get(o->url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
		rc = outbound_fail(o, DEFERRED_DEAD,
				   "%s: scheme '%.20s' is not supported; hint: write a URL with http or https", what,
				   scheme);
	if (rc == DEFERRED_OK &&
	    (code != CURLUE_OK || (code = curl_url_get(o->url, CURLUPART_HOST, &host, 0)) != CURLUE_OK ||
	     (code = curl_url_get(o->url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)) != CURLUE_OK))
		rc = outbound_fail(o, DEFERRED_DEAD,
				   "%s: the URL is invalid (%s); hint: for example https://example.org/hook", what,
				   curl_url_strerror(code));
	else if (rc == DEFERRED_OK)
		snprintf(o->where, sizeof(o->where), "%.8s://%.260s:%s", scheme, host, port);
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	return rc;
}

/* ---- headers ------------------------------------------------------------------------------------ */

const char *outbound_header(const struct outbound *o, const char *name)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)o->headers, key,
			    value) if (strcasecmp(key, name) == 0) return json_string_value(value);
	return NULL;
}

/* libcurl sets these itself, or they are about one connection (RFC 9110, 7.6.1). */
static bool is_reserved_header(const struct outbound *o, const char *name)
{
	static const char *const reserved[] = { "Connection",        "Content-Length", "Expect", "Host",
						"HTTP2-Settings",    "Keep-Alive",     "TE",     "Trailer",
						"Transfer-Encoding", "Upgrade" };

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (strcasecmp(name, reserved[i]) == 0)
			return true;
	return strncasecmp(name, "Proxy-", 6) == 0 || (o->secrets_len && strncasecmp(name, "webhook-", 8) == 0);
}

static const char *header_wrong(const struct outbound *o, const char *name, const json_t *value)
{
	size_t same = 0;
	const char *key;
	json_t *other;

	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("!#$%&'*+-.^_`|~", *p))
			return "has a name with a blank, a colon or another character that no name has";
	if (!*name)
		return "has an empty name";
	if (is_reserved_header(o, name))
		return "cannot be set";
	if (!json_is_string(value))
		return "has a value that is not a JSON string";
	if (json_string_length(value) > HEADER_MAX)
		return "has a value of more than 4000 bytes";
	if (!is_printable(json_string_value(value), json_string_length(value), true))
		return "has a value with a control character or a letter outside of ASCII";
	json_object_foreach((json_t *)o->headers, key, other) same += strcasecmp(key, name) == 0;
	return same > 1 ? "is there twice" : NULL;
}

static int take_request_headers(struct outbound *o)
{
	const json_t *headers = json_object_get(o->params, "headers");
	const char *name, *wrong;
	json_t *value;

	if (!headers || json_is_null(headers))
		return DEFERRED_OK;
	if (!json_is_object(headers) || json_object_size(headers) > HEADERS_MAX)
		return outbound_fail(o, DEFERRED_DEAD,
				     "headers: the value is not an object of at most %d headers; hint: for example "
				     "{\"Authorization\": \"Bearer 123\"}",
				     HEADERS_MAX);
	o->headers = headers;
	json_object_foreach(
		(json_t *)headers, name,
		value) if ((wrong = header_wrong(o, name,
						 value))) return outbound_fail(o, DEFERRED_DEAD,
									       "headers: '%.100s' %s; hint: "
									       "deferred_functions(7) has the rules",
									       name, wrong);
	return DEFERRED_OK;
}

/* ---- body --------------------------------------------------------------------------------------- */

/*
 * The value of a member as it stands in the text of params, which jansson has accepted. So numbers keep all digits, and
 * members keep their order. False: the name is written with escapes.
 */
static bool member_text(const struct outbound *o, const char *quoted_name, const char **value, size_t *value_len)
{
	const char *text = o->call->params, *end = text + o->call->params_len, *begin = NULL, *name = text;
	size_t depth = 0, name_len = strlen(quoted_name);

	for (const char *p = text; p < end; p++) {
		if (*p == '"') {
			if (depth == 1 && !begin)
				name = p;
			while (++p < end && *p != '"')
				p += *p == '\\';
		} else if (*p == ':' && depth == 1) {
			begin = p + 1;
		} else if (depth == 1 && (*p == ',' || *p == '}')) {
			if (begin && strncmp(name, quoted_name, name_len) == 0) {
				while (begin < p && isspace((unsigned char)*begin))
					begin++;
				while (p > begin && isspace((unsigned char)p[-1]))
					p--;
				*value = begin;
				*value_len = (size_t)(p - begin);
				return true;
			}
			begin = NULL;
		} else if (*p == '{' || *p == '[') {
			depth++;
		} else if (*p == '}' || *p == ']') {
			depth--;
		}
	}
	return false;
}

static int take_body(struct outbound *o)
{
	bool json = json_object_get(o->params, "json") != NULL;
	int rc;

	if ((rc = take_member(o, "body", &o->body, true)) != DEFERRED_OK)
		return rc;
	if (json && o->body)
		return outbound_fail(o, DEFERRED_DEAD, "json and body are both set; hint: remove one");
	if (json && !member_text(o, "\"json\"", &o->body, &o->body_len))
		return outbound_fail(o, DEFERRED_DEAD, "json: the name is written with escapes; hint: write \"json\"");
	if (o->body && !json)
		o->body_len = json_string_length(json_object_get(o->params, "body"));
	o->body_type = json ? "application/json" : "text/plain; charset=UTF-8";
	return DEFERRED_OK;
}

static int take_method(struct outbound *o)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };
	size_t i = 0, n = sizeof(methods) / sizeof(methods[0]);
	int rc;

	o->method = o->body ? "POST" : "GET";
	if ((rc = take_member(o, "method", &o->method, false)) != DEFERRED_OK)
		return rc;
	while (i < n && strcmp(methods[i], o->method) != 0)
		i++;
	if (i == n)
		return outbound_fail(
			o, DEFERRED_DEAD,
			"method: '%.20s' is not supported; hint: write GET, HEAD, POST, PUT, PATCH, DELETE or "
			"OPTIONS",
			o->method);
	if (i < 2 && o->body)
		return outbound_fail(o, DEFERRED_DEAD,
				     "method: %s takes no body; hint: remove json or body, or write POST", o->method);
	return DEFERRED_OK;
}

/* ---- the rest ----------------------------------------------------------------------------------- */

static int take_time_limit(struct outbound *o)
{
	const json_t *value = json_object_get(o->params, "timeout");
	int64_t most = o->call->timeout_ms - o->call->timeout_ms / 10;
	double ms = TIMEOUT_MS;
	bool ok = true;

	if (json_is_number(value))
		ms = json_number_value(value) * 1000;
	else if (value && !json_is_null(value))
		ok = json_is_string(value) && span_parse(json_string_value(value), &ms);
	if (!ok || !(ms >= 1000 && ms <= TIMEOUT_MAX_MS))
		return outbound_fail(o, DEFERRED_DEAD,
				     "timeout: the value is not a time span from 1s to 1h; hint: for example \"10s\"");
	/* End the attempt here, while its reason is known. */
	if (o->call->timeout_ms > 0 && ms > (double)most)
		ms = (double)most;
	o->deadline_ms = clock_ms() + (int64_t)ms;
	return DEFERRED_OK;
}

static int take_follow(struct outbound *o)
{
	const json_t *value = json_object_get(o->params, "follow");

	o->follow = json_is_true(value);
	if (!value || json_is_boolean(value) || json_is_null(value))
		return DEFERRED_OK;
	return outbound_fail(o, DEFERRED_DEAD,
			     "follow: the value is not true or false; hint: write one of them without quotes");
}

static int take_allow(struct outbound *o)
{
	char wrong[PUBLIC_ADDRESS_NETWORK_SIZE];

	o->allow = outbound_setting(o, "http.allow");
	if (!o->allow || public_address_networks_ok(o->allow, wrong))
		return DEFERRED_OK;
	return outbound_fail(o, DEFERRED_UNREADY,
			     "setting 'http.allow': '%s' is not a network; hint: for example \"10.1.0.0/16, fd00::/8\"",
			     wrong);
}

static const char *unknown_member(const json_t *params)
{
	static const char *const known[] = { "method", "url", "headers", "json", "body", "timeout", "sign", "follow" };
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)params, name, value)
	{
		size_t i = 0, n = sizeof(known) / sizeof(known[0]);

		while (i < n && strcmp(name, known[i]) != 0)
			i++;
		if (i == n)
			return name;
	}
	return NULL;
}

int outbound_params(struct outbound *o)
{
	const char *url = NULL, *sign = NULL, *member;
	json_error_t why;
	int rc;

	o->params = json_loadb(o->call->params, o->call->params_len,
			       JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
	if (!o->params || !json_is_object(o->params))
		return outbound_fail(o, DEFERRED_DEAD,
				     "params are not a JSON object: %s; hint: for example {\"url\": "
				     "\"https://example.org/hook\", \"json\": {}}",
				     o->params ? "another JSON value was given" : why.text);
	if ((member = unknown_member(o->params)))
		return outbound_fail(o, DEFERRED_DEAD,
				     "field '%.100s' is unknown; hint: deferred_functions(7) lists the fields", member);
	if ((rc = take_member(o, "url", &url, false)) != DEFERRED_OK ||
	    (rc = take_member(o, "sign", &sign, false)) != DEFERRED_OK)
		return rc;
	if (!url)
		return outbound_fail(o, DEFERRED_DEAD,
				     "url is missing; hint: for example \"https://example.org/hook\"");
	if ((rc = outbound_url(o, "url", url)) != DEFERRED_OK || (rc = take_body(o)) != DEFERRED_OK ||
	    (rc = take_method(o)) != DEFERRED_OK || (rc = take_time_limit(o)) != DEFERRED_OK ||
	    (rc = take_follow(o)) != DEFERRED_OK || (rc = take_allow(o)) != DEFERRED_OK ||
	    (sign && (rc = outbound_secrets(o, sign)) != DEFERRED_OK))
		return rc;
	return take_request_headers(o);
}
