/* SPDX-License-Identifier: MIT */
/*
 * What the function http reads itself: the first line of the input is the list http.allow, the second one http.secrets,
 * the rest are params. Params are refused with a reason, or all that goes into a request is harmless, and the text that
 * is sent as JSON is the value of the params. The list permits an address exactly if one of its items does.
 */
#include "fuzz.h"

#include "plugins/http/outbound.h"
#include "plugins/http/public_address.h"

#include <arpa/inet.h>

static char *lines[3];

static const char *setting(const struct deferred_call *call, const char *name)
{
	(void)call;
	return strcmp(name, "http.allow") == 0 ? lines[0] : strcmp(name, "http.secrets") == 0 ? lines[1] : NULL;
}

static void check_networks(char *list)
{
	static const char *const addresses[] = { "10.1.2.3", "127.0.0.1", "169.254.169.254" };
	char wrong[PUBLIC_ADDRESS_NETWORK_SIZE] = "";
	bool ok = public_address_networks_ok(list, wrong), by_list[3], by_item[3] = { 0 };
	struct sockaddr_in in[4] = { { 0 } };

	HOLDS(ok == !wrong[0] && strlen(wrong) < sizeof(wrong));
	for (size_t i = 0; i < 3; i++) {
		in[i].sin_family = AF_INET;
		HOLDS(inet_pton(AF_INET, addresses[i], &in[i].sin_addr) == 1);
		by_list[i] = public_address_ok((struct sockaddr *)&in[i], list);
		HOLDS(!public_address_ok((struct sockaddr *)&in[i], NULL));
	}
	in[3].sin_family = AF_INET;
	in[3].sin_addr.s_addr = htonl(0x08080808);
	HOLDS(public_address_ok((struct sockaddr *)&in[3], list));
	for (char *rest = list, *item; (item = strtok_r(rest, ", \t", &rest));)
		for (size_t i = 0; i < 3; i++)
			by_item[i] |= public_address_ok((struct sockaddr *)&in[i], item);
	HOLDS(memcmp(by_list, by_item, sizeof(by_list)) == 0);
}

/* Of a request that is sent. */
static void check_request(const struct outbound *o)
{
	const char *name;
	json_t *value, *json = json_object_get(o->params, "json"), *sent;

	HOLDS(o->where[0] && o->method && o->deadline_ms > 0);
	HOLDS(o->body || o->body_len == 0);
	json_object_foreach((json_t *)o->headers, name, value)
	{
		HOLDS(*name && !name[strcspn(name, " :\r\n")]);
		HOLDS(!json_string_value(value)[strcspn(json_string_value(value), "\r\n")]);
		HOLDS(strlen(json_string_value(value)) == json_string_length(value));
		HOLDS(strcasecmp(name, "Host") != 0 && strcasecmp(name, "Transfer-Encoding") != 0);
		HOLDS(outbound_header(o, name) == json_string_value(value));
	}
	if (!json)
		return;
	HOLDS(o->body >= o->call->params && o->body + o->body_len <= o->call->params + o->call->params_len);
	sent = json_loadb(o->body, o->body_len, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
	HOLDS(sent && json_equal(sent, json));
	json_decref(sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct deferred_host host = { .size = sizeof(host), .setting = setting };
	char *text = malloc(size + 1), *p = text;
	struct outbound *o = calloc(1, sizeof(*o));
	struct deferred_call call = { .size = sizeof(call), .host = &host, .fn = "http", .label = "" };

	HOLDS(text && o);
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t i = 0; i < 3; i++) {
		lines[i] = p;
		p += i < 2 ? strcspn(p, "\n") : 0;
		if (i < 2 && *p)
			*p++ = '\0';
	}
	call.params = lines[2];
	call.params_len = size - (size_t)(lines[2] - text);
	o->call = &call;
	if (strchr(lines[1], '/')) /* it would open any file */
		lines[1] = NULL;
	if (outbound_params(o) == DEFERRED_OK)
		check_request(o);
	else
		HOLDS(o->why[0]);
	check_networks(lines[0]);
	curl_url_cleanup(o->url);
	json_decref(o->params);
	free(o);
	free(text);
	return 0;
}
