/* SPDX-License-Identifier: MIT */
/* One request by libcurl, which takes nothing from the environment. An answer has limits of size and time. */
#include "outbound.h"

#include "base/clock.h"
#include "public_address.h"

#include <deferred.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

/* The address is the one that libcurl connects to, whatever the name server said before or says next. */
static curl_socket_t open_public(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct outbound *o = user;

	if (purpose != CURLSOCKTYPE_IPCXN || !public_address_ok(&address->addr, o->allow)) {
		if (getnameinfo(&address->addr, address->addrlen, o->refused, sizeof(o->refused), NULL, 0,
				NI_NUMERICHOST) != 0)
			snprintf(o->refused, sizeof(o->refused), "of family %d", address->family);
		return CURL_SOCKET_BAD;
	}
	o->connecting = true;
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Each line of a head, those of 1xx answers too. */
static size_t on_head(char *line, size_t size, size_t n, void *user)
{
	struct outbound *o = user;
	long status = 0;

	(void)size;
	o->head_len += n;
	if (o->head_len > OUTBOUND_HEAD_MAX) {
		o->cut = "the heads of the answer have more than 64 KiB";
		return 0;
	}
	if (line[0] == '\r' || line[0] == '\n') {
		curl_easy_getinfo(o->curl, CURLINFO_RESPONSE_CODE, &status);
		if (status >= 200)
			o->status = status;
	}
	return n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *user)
{
	struct outbound *o = user;
	size_t room = sizeof(o->kept) - o->kept_len, kept = n < room ? n : room;

	(void)size;
	memcpy(o->kept + o->kept_len, bytes, kept);
	o->kept_len += kept;
	o->total_len += n;
	if (o->total_len > OUTBOUND_BODY_MAX)
		o->cut = "the answer has more than 16 MiB";
	/* Only the first bytes of an error are quoted. */
	else if (o->status / 100 != 2 && o->kept_len == sizeof(o->kept))
		o->cut = "the rest was not read";
	return o->cut ? 0 : n;
}

static bool add_line(struct curl_slist **list, const char *name, const char *value)
{
	struct curl_slist *longer;
	char *line = NULL;

	/* For libcurl, "NAME;" is a header without a value, and "NAME:" is none. */
	if (asprintf(&line, "%s%s%s", name, value && !*value ? ";" : ": ", value ? value : "") < 0)
		return false;
	longer = curl_slist_append(*list, line);
	free(line);
	if (longer)
		*list = longer;
	return longer != NULL;
}

/* The id is the same in each attempt. created_at_us tells the jobs of two databases apart. */
static bool add_signatures(const struct outbound *o, struct curl_slist **list)
{
	char id[64], at[32], signatures[OUTBOUND_SECRETS_MAX * WEBHOOK_SIGNATURE_SIZE] = "";
	char *end = signatures;
	long long now = (long long)time(NULL);

	snprintf(id, sizeof(id), "job_%lld_%lld", (long long)o->call->id,
		 o->call->id ? (long long)o->call->created_at_us : now);
	snprintf(at, sizeof(at), "%lld", now);
	for (size_t i = 0; i < o->secrets_len; i++) {
		if (i)
			*end++ = ' ';
		if (!webhook_sign(&o->secrets[i], id, now, o->body ? o->body : "", o->body_len, end))
			return false;
		end += strlen(end);
	}
	return add_line(list, "webhook-id", id) && add_line(list, "webhook-timestamp", at) &&
	       add_line(list, "webhook-signature", signatures);
}

/* Any other header may be a secret of the first host. */
static bool is_for_every_host(const char *name)
{
	return strcasecmp(name, "Accept") == 0 || strcasecmp(name, "Content-Type") == 0 ||
	       strcasecmp(name, "User-Agent") == 0;
}

static bool add_request_headers(const struct outbound *o, struct curl_slist **list)
{
	const char *name;
	json_t *value;
	/* libcurl would wait for 100 Continue before a large body. */
	bool ok = add_line(list, "Expect", NULL);

	json_object_foreach((json_t *)o->headers, name, value) if (ok && (!o->elsewhere || is_for_every_host(name)))
		ok = add_line(list, name, json_string_value(value));
	/* libcurl would call the body a form. */
	if (ok && !outbound_header(o, "Content-Type"))
		ok = add_line(list, "Content-Type", o->body ? o->body_type : NULL);
	return ok && (!o->secrets_len || add_signatures(o, list));
}

static void set_request(const struct outbound *o, CURL *curl)
{
	bool with_body = o->body || strcmp(o->method, "PUT") == 0 || strcmp(o->method, "PATCH") == 0 ||
			 strcmp(o->method, "POST") == 0;

	curl_easy_setopt(curl, CURLOPT_CURLU, o->url);
	if (with_body) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)o->body_len);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, o->body ? o->body : "");
	}
	if (strcmp(o->method, "HEAD") == 0)
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, o->method);
}

static void set_limits(struct outbound *o, CURL *curl)
{
	const char *ca = outbound_setting(o, "http.ca_file");
	int64_t left = o->deadline_ms - clock_ms();

	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* none of the environment either */
	curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_public);
	curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, o);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
	if (ca)
		curl_easy_setopt(curl, CURLOPT_CAINFO, ca);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(left > 1 ? left : 1));
	/* A name server that does not answer would hold up the end of the call otherwise. */
	curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_head);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, o);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, o);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, o->curl_error);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "deferred/" DEFERRED_VERSION);
}

int outbound_transfer(struct outbound *o, CURLcode *code)
{
	struct curl_slist *headers = NULL;
	int rc = DEFERRED_OK;

	o->status = 0;
	o->head_len = o->total_len = o->kept_len = 0;
	o->cut = NULL;
	o->refused[0] = o->curl_error[0] = '\0';
	o->connecting = false;
	/* The connection stays for the next request of this call. */
	curl_easy_reset(o->curl);
	if (add_request_headers(o, &headers)) {
		set_limits(o, o->curl);
		set_request(o, o->curl);
		curl_easy_setopt(o->curl, CURLOPT_HTTPHEADER, headers);
		*code = curl_easy_perform(o->curl);
	} else {
		rc = outbound_fail(o, DEFERRED_FAILED, "out of memory");
	}
	curl_slist_free_all(headers);
	return rc;
}
