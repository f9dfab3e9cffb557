/* SPDX-License-Identifier: MIT */
/* What a request addresses, which operation that is, and what is refused before anybody is asked for a signature. */
#include "http/request.h"
#include "protocol/address.h"
#include "protocol/operation.h"
#include "http/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_call.h"

#define IP "\nHost: 127.0.0.1:10001"
#define V "\nx-ms-version: 2021-12-02"

static const struct {
	const char *call;
	enum fault fault;
	const char *account;
	bool secondary;
	enum request_level level;
	const char *queue, *id, *raw_path;
} addresses[] = {
	{ "GET /acct?comp=list" IP, FAULT_NONE, "acct", false, LEVEL_ACCOUNT, "", "", "/acct" },
	{ "GET /acct/?comp=list" IP, FAULT_NONE, "acct", false, LEVEL_ACCOUNT, "", "", "/acct/" },
	{ "GET /acct-secondary?comp=stats" IP, FAULT_NONE, "acct", true, LEVEL_ACCOUNT, "", "", "/acct-secondary" },
	{ "GET /acct/q1" IP, FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/q1" },
	{ "GET /acct/q1/" IP, FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/q1/" },
	{ "GET /acct/q1/messages" IP, FAULT_NONE, "acct", false, LEVEL_MESSAGES, "q1", "", "/acct/q1/messages" },
	{ "GET /acct/q1/messages/" IP, FAULT_NONE, "acct", false, LEVEL_MESSAGES, "q1", "", "/acct/q1/messages/" },
	{ "GET /acct/q1/messages/id%20x" IP, FAULT_NONE, "acct", false, LEVEL_MESSAGE, "q1", "id x",
	  "/acct/q1/messages/id%20x" },
	{ "GET /acct/q1/messages/a%2Fb" IP, FAULT_NONE, "acct", false, LEVEL_MESSAGE, "q1", "a/b",
	  "/acct/q1/messages/a%2Fb" },
	{ "GET /acct/%71%31" IP, FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/%71%31" },
	{ "GET /acct/q1"
	  "\nHost: localhost",
	  FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/q1" },
	{ "GET /acct/q1"
	  "\nHost: [::1]:10001",
	  FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/q1" },
	{ "GET /acct/q1"
	  "\nHost: host.docker.internal:1",
	  FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/q1" },
	{ "GET /acct/q1"
	  "\nHost: queues.example.net",
	  FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/q1" },
	{ "GET /acct/q1", FAULT_NONE, "acct", false, LEVEL_QUEUE, "q1", "", "/acct/q1" },
	{ "GET /q1/messages"
	  "\nHost: sally.queue.example.test",
	  FAULT_NONE, "sally", false, LEVEL_MESSAGES, "q1", "", "/q1/messages" },
	{ "GET /q1"
	  "\nHost: Sally-Secondary.Queue.example.test:80",
	  FAULT_NONE, "sally", true, LEVEL_QUEUE, "q1", "", "/q1" },
	{ "GET /?comp=list"
	  "\nHost: sally.queue.example.test",
	  FAULT_NONE, "sally", false, LEVEL_ACCOUNT, "", "", "/" },
	{ "PUT http://sally.queue.core.windows.net/myqueue/messages?messagettl=3600"
	  "\nHost: other",
	  FAULT_NONE, "sally", false, LEVEL_MESSAGES, "myqueue", "", "/myqueue/messages" },
	{ "GET http://sally.queue.core.windows.net?comp=list"
	  "\nHost: other",
	  FAULT_NONE, "sally", false, LEVEL_ACCOUNT, "", "", "/" },
	{ "GET /" IP, FAULT_NONE, "", false, LEVEL_ACCOUNT, "", "", "/" },
	{ "GET //acct" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct//messages" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q1//" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q1/other" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q1/messages/id/more" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /a/b/c/d/e/f/g/h" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q%" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q%0" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q%zz" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q%00x" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q%ff" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q%c0%af" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET *" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET acct/q1" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct/q1#x" IP, FAULT_InvalidUri, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct?a=%" IP, FAULT_InvalidQueryParameterValue, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct?a=%fe" IP, FAULT_InvalidQueryParameterValue, NULL, false, LEVEL_ACCOUNT, NULL, NULL, NULL },
	{ "GET /acct" IP "\nx-ms-version: 2021", FAULT_InvalidHeaderValue, NULL, false, LEVEL_ACCOUNT, NULL, NULL,
	  NULL },
	{ "GET /acct" IP "\nx-ms-version: 2021-13-02", FAULT_InvalidHeaderValue, NULL, false, LEVEL_ACCOUNT, NULL, NULL,
	  NULL },
	{ "GET /acct" IP "\nx-ms-version: 2008-10-27", FAULT_InvalidHeaderValue, NULL, false, LEVEL_ACCOUNT, NULL, NULL,
	  NULL },
	{ "GET /acct" IP "\nx-ms-version: 2099-01-01", FAULT_NONE, "acct", false, LEVEL_ACCOUNT, "", "", "/acct" },
};

static void the_address_is_read_from_host_and_path(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		struct arena arena = { 0 };
		struct request r;

		if (http_call(&r, &arena, addresses[i].call) != addresses[i].fault)
			fail_msg("%s: %s", addresses[i].call, fault_info(r.fault)->code);
		if (addresses[i].fault == FAULT_NONE) {
			assert_string_equal(r.account, addresses[i].account);
			assert_int_equal(r.secondary, addresses[i].secondary);
			assert_int_equal(r.level, addresses[i].level);
			assert_string_equal(r.queue, addresses[i].queue);
			assert_string_equal(r.id, addresses[i].id);
			assert_string_equal(r.raw_path, addresses[i].raw_path);
		}
		assert_false(r.broken);
		arena_clear(&arena);
	}
}

static void a_request_whose_end_is_in_doubt_is_broken(void **state)
{
	static const char *const calls[] = {
		"POST /a/q1/messages" IP "\nContent-Length: 5\nContent-Length: 5",
		"POST /a/q1/messages" IP "\nContent-Length: 5\ncontent-length: 6",
		"POST /a/q1/messages" IP "\nContent-Length: 5, 5",
		"POST /a/q1/messages" IP "\nContent-Length: +5",
		"POST /a/q1/messages" IP "\nContent-Length: 0x5",
		"POST /a/q1/messages" IP "\nContent-Length:",
		"POST /a/q1/messages" IP "\nContent-Length: -1",
		"POST /a/q1/messages" IP "\nContent-Length: 5\nTransfer-Encoding: chunked",
		"POST /a/q1/messages" IP "\nTransfer-Encoding: gzip, chunked",
		"POST /a/q1/messages" IP "\nTransfer-Encoding: identity",
		"POST /a/q1/messages" IP "\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked",
		"POST /a/q1/messages" IP "\nTransfer-Encoding: \x0b"
		"chunked",
		"POST /a/q1/messages" IP "\nContent-Length : 5",
		"POST /a/q1/messages" IP "\n Content-Length: 5",
		"POST /a/q1/messages" IP "\nContent\tLength: 5",
		"POST /a/q1/messages" IP "\n: 5",
		"POST /a/q1/messages" IP "\nX-A: a\rContent-Length: 5",
		"POST /a/q1/messages" IP IP,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct arena arena = { 0 };
		struct request r;

		assert_int_equal(http_call(&r, &arena, calls[i]), FAULT_InvalidHeaderValue);
		if (!r.broken)
			fail_msg("%s", calls[i]);
		arena_clear(&arena);
	}
}

static void headers_are_found_whatever_their_case_and_joined_where_repeated(void **state)
{
	struct arena arena = { 0 };
	struct request r;

	(void)state;
	assert_int_equal(http_call(&r, &arena,
				   "GET /a/q1?X=1&x=2&=3&y&z=%2B+%20" IP
				   "\nX-Ms-Meta-Name: \t one \nx-ms-date: d\nX-MS-META-NAME:two\nEmpty:"),
			 FAULT_NONE);
	assert_string_equal(request_value(&r, "x-ms-meta-name"), "one,two");
	assert_string_equal(request_value(&r, "x-ms-date"), "d");
	assert_string_equal(request_value(&r, "empty"), "");
	assert_null(request_value(&r, "none"));
	assert_string_equal(request_param(&r, "X"), "1");
	assert_string_equal(request_param(&r, "x"), "2");
	assert_string_equal(request_param(&r, "y"), "");
	assert_string_equal(request_param(&r, "z"), "++ ");
	assert_int_equal(request_param_times(&r, "x"), 1);
	assert_null(request_param(&r, "q"));
	arena_clear(&arena);
}

static void a_thousand_headers_are_none_too_many(void **state)
{
	struct arena arena = { 0 };
	struct request r;
	char name[32];

	(void)state;
	request_line(&r, &arena, "GET", "/a/q1", 5);
	for (int i = 0; i < 1000; i++)
		request_header(&r, name, (size_t)snprintf(name, sizeof(name), "h%d", i % 500), "v", 1);
	assert_int_equal(address_read(&r), FAULT_NONE);
	assert_int_equal(r.headers_len, 500);
	assert_string_equal(request_value(&r, "h499"), "v,v");
	arena_clear(&arena);
}

static void the_client_of_2008_is_known_by_what_it_does_not_send(void **state)
{
	static const struct {
		const char *call;
		bool form_2008;
	} calls[] = {
		{ "GET /a/q1/messages" IP, true },
		{ "GET /a/q1/messages" IP V, false },
		{ "GET /a/q1/messages?sv=2021-12-02" IP, false },
		{ "GET /a/q1/messages" IP "\nAuthorization: Bearer x", false },
		{ "GET /a/q1/messages" IP "\nAuthorization: SharedKey a:x", true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct arena arena = { 0 };
		struct request r;

		assert_int_equal(http_call(&r, &arena, calls[i].call), FAULT_NONE);
		assert_int_equal(r.form_2008, calls[i].form_2008);
		arena_clear(&arena);
	}
}

/* ---- routing */

static const struct {
	const char *call, *op; /* NULL: none */
	enum fault fault;
} routes[] = {
	{ "GET /a?comp=list" IP V, "ListQueues", 0 },
	{ "GET /a?restype=service&comp=properties" IP V, "GetServiceProperties", 0 },
	{ "PUT /a?restype=service&comp=properties" IP V, "SetServiceProperties", 0 },
	{ "GET /a-secondary?restype=service&comp=stats" IP V, "GetServiceStatistics", 0 },
	{ "POST /a?restype=service&comp=userdelegationkey" IP V, "GetUserDelegationKey", 0 },
	{ "PUT /a/q1" IP V, "CreateQueue", 0 },
	{ "DELETE /a/q1" IP V, "DeleteQueue", 0 },
	{ "GET /a/q1?comp=metadata" IP V, "GetQueueMetadata", 0 },
	{ "HEAD /a/q1?comp=metadata" IP V, "GetQueueMetadata", 0 },
	{ "PUT /a/q1?comp=metadata" IP V, "SetQueueMetadata", 0 },
	{ "GET /a/q1?comp=acl" IP V, "GetQueueACL", 0 },
	{ "HEAD /a/q1?comp=acl" IP V, "GetQueueACL", 0 },
	{ "PUT /a/q1?comp=acl" IP V, "SetQueueACL", 0 },
	{ "POST /a/q1/messages?timeout=30&whatever=x" IP V, "PutMessage", 0 },
	{ "POST /a/q1/messages" IP, "PutMessage", 0 },
	{ "GET /a/q1/messages" IP V, "GetMessages", 0 },
	{ "GET /a/q1/messages?peekonly=true" IP V, "PeekMessages", 0 },
	{ "GET /a/q1/messages?peekonly=false" IP V, "GetMessages", 0 },
	{ "GET /a/q1/messages?peekonly=True" IP V, "GetMessages", 0 },
	{ "DELETE /a/q1/messages" IP V, "ClearMessages", 0 },
	{ "PUT /a/q1/messages/x?popreceipt=y" IP V, "UpdateMessage", 0 },
	{ "DELETE /a/q1/messages/x?popreceipt=y" IP V, "DeleteMessage", 0 },
	{ "PUT /a/q1/messages?messagettl=60" IP, "PutMessage2008", 0 },
	{ "PUT /a/q1/messages" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "GET /a" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "GET /a?comp=properties" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "GET /a?restype=service&comp=foo" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "GET /a?restype=other&comp=properties" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "PUT /a?comp=list" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "PUT /a/q1?comp=foo" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "PUT /a/q1?comp=" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "PUT /a/q1?comp=metadata&comp=acl" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "GET /a/q1" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "HEAD /a/q1" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "POST /a/q1" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "DELETE /a/q1?comp=acl" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "POST /a/q1/messages?comp=foo" IP V, NULL, FAULT_InvalidQueryParameterValue },
	{ "HEAD /a/q1/messages" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "GET /a/q1/messages/x" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "POST /a/q1/messages/x" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "PATCH /a/q1/messages" IP V, NULL, FAULT_UnsupportedHttpVerb },
	{ "get /a/q1/messages" IP V, NULL, FAULT_UnsupportedHttpVerb },
};

static void each_operation_is_found_and_nothing_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		const struct operation *op;
		struct arena arena = { 0 };
		struct request r;
		enum fault fault;

		http_call(&r, &arena, routes[i].call);
		fault = operation_find(&r, &op);
		if (fault != routes[i].fault || !op != !routes[i].op || (op && strcmp(op->name, routes[i].op) != 0))
			fail_msg("%s: %s %s", routes[i].call, op ? op->name : "none", fault_info(fault)->code);
		arena_clear(&arena);
	}
}

static void names_of_queues_and_accounts_have_rules(void **state)
{
	char name[66];

	(void)state;
	assert_int_equal(address_check_queue("abc"), FAULT_NONE);
	assert_int_equal(address_check_queue("a-b-3"), FAULT_NONE);
	assert_int_equal(address_check_queue("ab"), FAULT_OutOfRangeInput);
	assert_int_equal(address_check_queue(""), FAULT_OutOfRangeInput);
	memset(name, 'a', sizeof(name));
	name[64] = '\0';
	assert_int_equal(address_check_queue(name), FAULT_OutOfRangeInput);
	name[63] = '\0';
	assert_int_equal(address_check_queue(name), FAULT_NONE);
	assert_int_equal(address_check_queue("-ab"), FAULT_InvalidResourceName);
	assert_int_equal(address_check_queue("ab-"), FAULT_InvalidResourceName);
	assert_int_equal(address_check_queue("a--b"), FAULT_InvalidResourceName);
	assert_int_equal(address_check_queue("Abc"), FAULT_InvalidResourceName);
	assert_int_equal(address_check_queue("a.b"), FAULT_InvalidResourceName);
	assert_int_equal(address_check_queue("a|b"), FAULT_InvalidResourceName);
	assert_int_equal(address_check_queue("a b"), FAULT_InvalidResourceName);
	/* The length first. */
	assert_int_equal(address_check_queue("-"), FAULT_OutOfRangeInput);
	assert_true(address_is_account("abc"));
	assert_false(address_is_account("ab"));
	assert_false(address_is_account("a-b"));
	assert_false(address_is_account("abcdefghijklmnopqrstuvwxy"));
}

/* ---- times and numbers */

static void times_are_written_and_read(void **state)
{
	char text[TEXT_RFC1123_SIZE], iso[TEXT_ISO_SIZE];
	int64_t s;

	(void)state;
	text_rfc1123(1795198532999999, text);
	assert_string_equal(text, "Fri, 20 Nov 2026 18:15:32 GMT");
	text_rfc1123(INT64_MAX, text);
	assert_string_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT");
	text_iso8601(1795198532410000, iso);
	assert_string_equal(iso, "2026-11-20T18:15:32.410Z");
	assert_true(text_rfc1123_parse("Fri, 20 Nov 2026 18:15:32 GMT", &s));
	assert_int_equal(s, 1795198532);
	for (const char *const *p =
		     (const char *const[]){ "Fri, 20 Nov 2026 18:15:32", "Fri, 32 Nov 2026 18:15:32 GMT",
					    "Fri 20 Nov 2026 18:15:32 GMT", "Fri, 29 Feb 2027 18:15:32 GMT", "",
					    "Fri, 20 Nov 2026 18:15:32 GMT ", "2026-11-20T18:15:32Z",
					    "Fri, 20 Nov 2026 24:15:32 GMT", NULL };
	     *p; p++)
		assert_false(text_rfc1123_parse(*p, &s));
	for (const char *const *p = (const char *const[]){ "2026-11-20T18:15:32Z", "2026-11-20T18:15:32.1234567Z",
							   "2026-11-20T18:15:32", NULL };
	     *p; p++) {
		assert_true(text_iso8601_parse(*p, &s));
		assert_int_equal(s, 1795198532);
	}
	assert_true(text_iso8601_parse("2026-11-20", &s));
	assert_int_equal(s, 1795132800);
	assert_true(text_iso8601_parse("2024-02-29T18:15Z", &s));
	assert_int_equal(s, 1709230500);
	for (const char *const *p =
		     (const char *const[]){ "2026-11", "2026-11-20T", "2026-11-20T18", "2026-11-20T18:15:32.Z",
					    "2026-11-20T18:15:32+01:00", "2025-02-29", "26-11-20", "2026-11-20 18:15",
					    "2026-11-20ZZ", NULL };
	     *p; p++)
		assert_false(text_iso8601_parse(*p, &s));
}

static void numbers_are_whole_and_do_not_overflow(void **state)
{
	int64_t n;

	(void)state;
	assert_true(text_whole("-1", &n));
	assert_int_equal(n, -1);
	assert_true(text_whole("9007199254740991", &n));
	assert_int_equal(n, 9007199254740991);
	assert_true(text_whole("99999999999999999999999", &n));
	assert_int_equal(n, INT64_MAX);
	assert_true(text_whole("-99999999999999999999999", &n));
	assert_int_equal(n, INT64_MIN);
	for (const char *const *p =
		     (const char *const[]){ "", "-", "+1", "1.0", "1e3", " 1", "1 ", "0x10", "--1", "one", NULL };
	     *p; p++)
		assert_false(text_whole(*p, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_address_is_read_from_host_and_path),
		cmocka_unit_test(a_request_whose_end_is_in_doubt_is_broken),
		cmocka_unit_test(headers_are_found_whatever_their_case_and_joined_where_repeated),
		cmocka_unit_test(a_thousand_headers_are_none_too_many),
		cmocka_unit_test(the_client_of_2008_is_known_by_what_it_does_not_send),
		cmocka_unit_test(each_operation_is_found_and_nothing_else),
		cmocka_unit_test(names_of_queues_and_accounts_have_rules),
		cmocka_unit_test(times_are_written_and_read),
		cmocka_unit_test(numbers_are_whole_and_do_not_overflow),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("http_request", tests, NULL, NULL);
}
