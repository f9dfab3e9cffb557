/* SPDX-License-Identifier: MIT */
/* Documents in bodies: how much of one is read before it is refused. */
#include "protocol/xml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* <a> and so many elements in it, each as deep as told. */
static bool parses(size_t elements, size_t depth)
{
	struct arena arena = { 0 };
	struct buf text = { 0 };
	bool ok;

	buf_text(&text, "<a>");
	for (size_t i = 0; i < elements; i++) {
		for (size_t d = 0; d < depth; d++)
			buf_text(&text, "<b>");
		for (size_t d = 0; d < depth; d++)
			buf_text(&text, "</b>");
	}
	buf_text(&text, "</a>");
	ok = xml_parse(&arena, text.p, text.len) != NULL;
	buf_clear(&text);
	arena_clear(&arena);
	return ok;
}

/* Each element costs 20 times its own bytes: half a megabyte of them, from many clients at once, would be gigabytes. */
static void a_document_has_so_many_elements_and_no_more(void **state)
{
	(void)state;
	assert_true(parses(XML_NODES_MAX - 1, 1));
	assert_false(parses(XML_NODES_MAX, 1));
	assert_false(parses(100 * XML_NODES_MAX, 1));
}

static void a_document_is_so_deep_and_no_deeper(void **state)
{
	(void)state;
	assert_true(parses(1, XML_DEPTH_MAX - 1));
	assert_false(parses(1, XML_DEPTH_MAX));
	assert_false(parses(1, 100 * XML_DEPTH_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document_has_so_many_elements_and_no_more),
		cmocka_unit_test(a_document_is_so_deep_and_no_deeper),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("http_xml", tests, NULL, NULL);
}
