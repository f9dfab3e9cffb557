/* SPDX-License-Identifier: MIT */
#include "http/request.h"

#include "http/head.h"
#include "http/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define METHOD_MAX 32
#define LENGTH_DIGITS_MAX 18

enum fault request_wrong(struct request *r, enum fault fault, const char *name)
{
	if (r->fault == FAULT_NONE) {
		r->fault = fault;
		r->fault_name = name;
	}
	return r->fault;
}

/* It is unclear where the request ends. */
static void request_broken(struct request *r, enum fault fault, const char *name)
{
	r->broken = true;
	request_wrong(r, fault, name);
}

static enum request_verb verb_of(const char *method)
{
	static const char *const verbs[] = { "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH" };

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(method, verbs[i]) == 0)
			return (enum request_verb)(1 << i);
	return VERB_OTHER;
}

/* "http://host:port/path" names the host as well, and that counts more than the header. */
static const char *skip_authority(struct request *r, const char *target)
{
	size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
			: strncasecmp(target, "https://", 8) == 0 ? 8
								  : 0,
	       len;

	if (scheme == 0)
		return target;
	len = strcspn(target + scheme, "/?#");
	r->authority = arena_copy(r->arena, target + scheme, len);
	return target + scheme + len;
}

void request_line(struct request *r, struct arena *arena, const char *method, const char *target, size_t target_len)
{
	const char *path, *rest;

	*r = (struct request){ .arena = arena,
			       .method = arena_copy(arena, method, strlen(method)),
			       .verb = verb_of(method),
			       .raw_path = "/",
			       .host = "",
			       .account = "",
			       .queue = "",
			       .id = "" };
	if (memchr(target, '\0', target_len)) {
		request_wrong(r, FAULT_InvalidUri, NULL);
		return;
	}
	target = arena_copy(arena, target, target_len);
	for (const char *p = target; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '#')
			request_wrong(r, FAULT_InvalidUri, NULL);
	path = skip_authority(r, target);
	rest = strchr(path, '?');
	r->raw_path =
		rest == path || !*path ? "/" : arena_copy(arena, path, rest ? (size_t)(rest - path) : strlen(path));
	if (r->raw_path[0] != '/')
		request_wrong(r, FAULT_InvalidUri, NULL); /* "*" and "host:port" too */
	if (rest && rest[1]) {
		/* Kept as it is until request_end(): a parameter that is wrong counts less than a header that breaks
		 * the framing. */
		r->params = arena_alloc(arena, sizeof(*r->params));
		r->params[0].value = rest + 1;
		r->params_len = 1;
	}
}

void request_header(struct request *r, const char *name, size_t name_len, const char *value, size_t value_len)
{
	struct request_header *h;
	bool blank_after = false;
	char *lower;

	while (value_len > 0 && (*value == ' ' || *value == '\t'))
		value++, value_len--;
	while (value_len > 0 && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
		value_len--, blank_after = true;
	if (r->headers_len == r->headers_cap) {
		struct request_header *more =
			arena_alloc(r->arena, (r->headers_cap ? r->headers_cap * 2 : 32) * sizeof(*more));

		if (r->headers_len > 0)
			memcpy(more, r->headers, r->headers_len * sizeof(*more));
		r->headers = more;
		r->headers_cap = r->headers_cap ? r->headers_cap * 2 : 32;
	}
	h = &r->headers[r->headers_len];
	h->order = r->headers_len++;
	h->times = 1;
	h->blank_after = blank_after;
	h->spelt = arena_copy(r->arena, name, name_len);
	h->value = arena_copy(r->arena, value, value_len);
	lower = arena_copy(r->arena, name, name_len);
	for (char *p = lower; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	h->name = lower;
	for (size_t i = 0; i < name_len; i++)
		if (!head_is_token(name[i]))
			request_broken(r, FAULT_InvalidHeaderValue, h->spelt);
	for (size_t i = 0; i < value_len; i++)
		if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
			request_broken(r, FAULT_InvalidHeaderValue, h->spelt);
	if (name_len == 0)
		request_broken(r, FAULT_InvalidHeaderValue, h->spelt);
}

/* "METHOD TARGET HTTP/1.x". False: it is something else. */
static bool parse_line(struct request *r, struct arena *arena, const char *line, size_t len)
{
	const char *end = line + len, *target = memchr(line, ' ', len), *version;
	size_t method_len = target ? (size_t)(target++ - line) : 0;
	char method[METHOD_MAX + 1];

	if (method_len == 0 || method_len > METHOD_MAX || !(version = memchr(target, ' ', (size_t)(end - target))))
		return false;
	memcpy(method, line, method_len);
	method[method_len] = '\0';
	for (size_t i = 0; i < method_len; i++)
		if (!head_is_token(method[i]))
			return false;
	for (const char *p = target; p < version; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	if (version == target || end - version != 9 || memcmp(version, " HTTP/", 6) != 0 ||
	    !isdigit((unsigned char)version[6]) || version[7] != '.' || !isdigit((unsigned char)version[8]))
		return false;
	request_line(r, arena, method, target, (size_t)(version - target));
	r->minor = version[8] != '0';
	if (version[6] != '1') {
		r->fault = FAULT_NONE;
		request_broken(r, FAULT_InvalidInput, NULL);
		r->fault_status = 505;
	}
	return true;
}

void request_head(struct request *r, struct arena *arena, const char *head, size_t len)
{
	const char *end = head + len, *line_end = memchr(head, '\r', len);

	if (!parse_line(r, arena, head, (size_t)(line_end - head))) {
		request_line(r, arena, "", "/", 1);
		request_broken(r, FAULT_InvalidInput, NULL);
	}
	for (const char *line = line_end + 2; *line != '\r'; line = line_end + 2) {
		const char *colon;

		line_end = memchr(line, '\r', (size_t)(end - line));
		colon = memchr(line, ':', (size_t)(line_end - line));
		if (!colon)
			request_broken(r, FAULT_InvalidHeaderValue, NULL);
		else
			request_header(r, line, (size_t)(colon - line), colon + 1, (size_t)(line_end - colon) - 1);
	}
}

static int compare_headers(const void *a, const void *b)
{
	const struct request_header *x = a, *y = b;
	int d = strcmp(x->name, y->name);

	return d != 0 ? d : x->order < y->order ? -1 : 1;
}

static void sort_headers(struct request *r)
{
	size_t n = 0;

	if (r->headers_len == 0)
		return;
	qsort(r->headers, r->headers_len, sizeof(*r->headers), compare_headers);
	for (size_t i = 0; i < r->headers_len; n++) {
		struct request_header *first = &r->headers[n];
		struct buf joined = { 0 };

		*first = r->headers[i];
		if (++i < r->headers_len && strcmp(r->headers[i].name, first->name) == 0) {
			buf_text(&joined, first->value);
			for (; i < r->headers_len && strcmp(r->headers[i].name, first->name) == 0; i++) {
				buf_add(&joined, ",", 1);
				buf_text(&joined, r->headers[i].value);
				first->times++;
			}
			first->value = arena_copy(r->arena, joined.p, joined.len);
			buf_clear(&joined);
		}
	}
	r->headers_len = n;
}

static int find_by_name(const void *key, const void *element)
{
	return strcmp(key, ((const struct request_header *)element)->name);
}

static const struct request_header *find_header(const struct request *r, const char *name)
{
	return r->headers_len > 0 ? bsearch(name, r->headers, r->headers_len, sizeof(*r->headers), find_by_name) : NULL;
}

const char *request_value(const struct request *r, const char *name)
{
	const struct request_header *h = find_header(r, name);

	return h ? h->value : NULL;
}

const char *request_param(const struct request *r, const char *name)
{
	for (size_t i = 0; i < r->params_len; i++)
		if (strcmp(r->params[i].name, name) == 0)
			return r->params[i].value;
	return NULL;
}

size_t request_param_times(const struct request *r, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < r->params_len; i++)
		n += strcmp(r->params[i].name, name) == 0;
	return n;
}

/* A proxy in front of us may have taken the other of two lengths, or the length instead of the chunks. */
static void check_framing(struct request *r)
{
	static const char *const once[] = { "content-length", "transfer-encoding", "host", "expect" };
	const char *coding = request_value(r, "transfer-encoding"), *length = request_value(r, "content-length");

	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
		const struct request_header *h = find_header(r, once[i]);

		if (h && (h->times > 1 || (h->blank_after && i < 2)))
			request_broken(r, FAULT_InvalidHeaderValue, h->spelt);
	}
	if (coding && (length || r->minor == 0 || strcasecmp(coding, "chunked") != 0))
		request_broken(r, FAULT_InvalidHeaderValue, "Transfer-Encoding");
	if (length && (!*length || length[strspn(length, "0123456789")]))
		request_broken(r, FAULT_InvalidHeaderValue, "Content-Length");
	if (r->minor > 0 && !request_value(r, "host"))
		request_broken(r, FAULT_MissingRequiredHeader, NULL);
	r->chunked = coding != NULL;
	if (length)
		r->length = strlen(length) > LENGTH_DIGITS_MAX ? UINT64_MAX : strtoull(length, NULL, 10);
}

static void read_params(struct request *r)
{
	const char *query = r->params_len > 0 ? r->params[0].value : "";
	size_t n = 1;

	for (const char *p = query; *p; p++)
		n += *p == '&';
	r->params = arena_alloc(r->arena, n * sizeof(*r->params));
	r->params_len = 0;
	while (*query) {
		size_t len = strcspn(query, "&"), name_len = strcspn(query, "&=");
		char *name = arena_copy(r->arena, query, name_len);
		char *value = name_len < len ? arena_copy(r->arena, query + name_len + 1, len - name_len - 1)
					     : arena_copy(r->arena, "", 0);
		long n_len = text_percent_decode(name, name_len), v_len = text_percent_decode(value, strlen(value));

		query += len + (query[len] == '&');
		if (len == 0)
			continue;
		if (n_len < 0 || v_len < 0) {
			request_wrong(r, FAULT_InvalidQueryParameterValue, n_len < 0 ? NULL : name);
			continue;
		}
		name[n_len] = '\0';
		value[v_len] = '\0';
		r->params[r->params_len++] = (struct request_param){ name, value };
	}
}

static void read_host(struct request *r)
{
	const char *authority = r->authority ? r->authority : request_value(r, "host");
	size_t len;
	char *host;

	r->authority = authority ? authority : "";
	len = r->authority[0] == '[' ? strcspn(r->authority, "]") + 1 : strcspn(r->authority, ":");
	if (len > strlen(r->authority))
		len = strlen(r->authority);
	host = arena_copy(r->arena, r->authority, len);
	for (char *p = host; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	r->host = host;
}

enum fault request_end(struct request *r)
{
	sort_headers(r);
	check_framing(r);
	read_params(r);
	read_host(r);
	return r->fault;
}
