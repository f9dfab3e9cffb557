/* SPDX-License-Identifier: MIT */
/* Signatures as the published test vectors of Standard Webhooks have them. */
#include "plugins/http/webhook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECRET "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define ID "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define BODY "{\"test\": 2432232314}"

static void the_published_vector_comes_out(void **state)
{
	struct webhook_secret secret;
	char signature[WEBHOOK_SIGNATURE_SIZE];

	(void)state;
	assert_true(webhook_secret_read("whsec_" SECRET, &secret));
	assert_int_equal(secret.len, 24);
	assert_true(webhook_sign(&secret, ID, 1614265330, BODY, strlen(BODY), signature));
	assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/* None can be changed, and the body may contain NUL bytes. */
static void every_part_counts(void **state)
{
	static const struct {
		const char *id;
		long long timestamp;
		const char *body;
		size_t len;
	} others[] = { { "msg_x", 1614265330, BODY, sizeof(BODY) - 1 },
		       { ID, 1614265331, BODY, sizeof(BODY) - 1 },
		       { ID, 1614265330, BODY, sizeof(BODY) - 2 },
		       { ID, 1614265330, "", 0 },
		       { ID, 1614265330, "a\0b", 3 },
		       { ID, 1614265330, "a\0c", 3 } };
	char signatures[sizeof(others) / sizeof(others[0])][WEBHOOK_SIGNATURE_SIZE];
	struct webhook_secret secret;

	(void)state;
	assert_true(webhook_secret_read("whsec_" SECRET, &secret));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_true(webhook_sign(&secret, others[i].id, others[i].timestamp, others[i].body, others[i].len,
					 signatures[i]));
		assert_int_equal(strlen(signatures[i]), WEBHOOK_SIGNATURE_SIZE - 1);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(signatures[i], signatures[k]);
	}
}

static void secrets_have_the_form_of_the_specification(void **state)
{
	static const char *const wrong[] = { "",
					     "whsec_",
					     SECRET,
					     "whsk_" SECRET,
					     "whsec_" SECRET "*",
					     "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==", /* 23 bytes at most */
					     "whsec_" SECRET SECRET SECRET };
	struct webhook_secret secret;
	char text[200];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (webhook_secret_read(wrong[i], &secret))
			fail_msg("%s", wrong[i]);
	/* 64 bytes fit, and 65 do not. */
	snprintf(text, sizeof(text), "whsec_%s%s%.20sQQ==", SECRET, SECRET, SECRET);
	assert_true(webhook_secret_read(text, &secret));
	assert_int_equal(secret.len, 64);
	snprintf(text, sizeof(text), "whsec_%s%s%.20sQUE=", SECRET, SECRET, SECRET);
	assert_false(webhook_secret_read(text, &secret));
	memset(text, 'A', sizeof(text) - 1);
	memcpy(text, "whsec_", 6);
	text[sizeof(text) - 1] = '\0';
	assert_false(webhook_secret_read(text, &secret));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_vector_comes_out),
		cmocka_unit_test(every_part_counts),
		cmocka_unit_test(secrets_have_the_form_of_the_specification),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}
