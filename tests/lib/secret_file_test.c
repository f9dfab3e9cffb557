/* SPDX-License-Identifier: MIT */
/* Which files are for few eyes, and which connection strings hold a password. */
#include "port/secret_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool ok(uid_t owner, mode_t mode)
{
	struct stat st = { .st_uid = owner, .st_mode = S_IFREG | mode };

	return secret_file_ok(&st);
}

static void nobody_but_the_owner_may_do_anything_with_a_users_file(void **state)
{
	(void)state;
	assert_true(ok(1000, 0600) && ok(1000, 0400) && ok(1000, 0700));
	for (mode_t bit = 1; bit <= 040; bit *= 2)
		assert_false(ok(1000, 0600 | bit));
}

static void the_group_may_read_a_file_of_root_and_no_more(void **state)
{
	(void)state;
	assert_true(ok(0, 0600) && ok(0, 0640) && ok(0, 0440));
	for (mode_t bit = 1; bit <= 020; bit *= 2)
		assert_false(ok(0, 0640 | bit));
}

static void a_file_is_opened_only_if_few_can_read_it(void **state)
{
	char path[] = "/tmp/secret_file_test.XXXXXX", why[200];
	int fd = mkstemp(path);
	FILE *f;

	(void)state;
	assert_true(fd >= 0);
	assert_non_null(f = secret_file_open(path, "mail.password_file", why, sizeof(why)));
	fclose(f);
	assert_int_equal(fchmod(fd, 0604), 0);
	assert_null(secret_file_open(path, "mail.password_file", why, sizeof(why)));
	assert_non_null(strstr(why, "mail.password_file '/tmp/secret_file_test."));
	assert_non_null(strstr(why, "' is open to others (mode 0604); hint: chmod 600 it"));
	assert_int_equal(unlink(path), 0);
	close(fd);
	assert_null(secret_file_open(path, "http.secrets", why, sizeof(why)));
	assert_memory_equal(why, "cannot read http.secrets '", strlen("cannot read http.secrets '"));
	assert_non_null(strstr(why, "No such file or directory; hint: let the user of functions read it"));
}

static const char *const with_password[] = {
	"password=x",
	"host=h password=x user=u",
	"password = x",
	"password\t\r\n=x",
	"dbname=password password=x",
	"sslpassword=x",
	"password='a b'",
	"postgresql://u:p@h/db",
	"postgres://u:p@h",
	"postgresql://:p@h",
	"postgresql://u:p?q@h/db",
	"postgresql://u:a:b@h:5432/db",
	"postgresql://h/db?password=p",
	"postgresql://u:@h",
};
static const char *const without_password[] = {
	"",
	"host=h user=u",
	"passfile=/etc/pgpass",
	"dbname=password",
	"service=password_of_app",
	"password",
	"postgresql://h:5432/db",
	"postgresql://u@h:5432/db",
	"postgresql://u@h/a:b@c",
	"postgresql:///db?host=/run",
	"postgresql://h:5432/db?user=a@b",
	"u:p@h",
	"://",
	"postgresql://",
};

static void a_password_is_found_in_either_form_of_a_connection_string(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(with_password) / sizeof(with_password[0]); i++)
		if (!secret_in_conninfo(with_password[i]))
			fail_msg("no password in '%s'", with_password[i]);
	for (size_t i = 0; i < sizeof(without_password) / sizeof(without_password[0]); i++)
		if (secret_in_conninfo(without_password[i]))
			fail_msg("a password in '%s'", without_password[i]);
}

static void an_argument_with_a_password_is_overwritten_whole_and_no_other(void **state)
{
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(with_password) / sizeof(with_password[0]); i++) {
		size_t len = strlen(with_password[i]);

		memset(text, '#', sizeof(text));
		memcpy(text, with_password[i], len + 1);
		secret_hide_argument(text);
		assert_int_equal(strspn(text, "x"), len);
		assert_true(text[len] == '\0' && text[len + 1] == '#');
	}
	for (size_t i = 0; i < sizeof(without_password) / sizeof(without_password[0]); i++) {
		snprintf(text, sizeof(text), "%s", without_password[i]);
		secret_hide_argument(text);
		assert_string_equal(text, without_password[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_but_the_owner_may_do_anything_with_a_users_file),
		cmocka_unit_test(the_group_may_read_a_file_of_root_and_no_more),
		cmocka_unit_test(a_file_is_opened_only_if_few_can_read_it),
		cmocka_unit_test(a_password_is_found_in_either_form_of_a_connection_string),
		cmocka_unit_test(an_argument_with_a_password_is_overwritten_whole_and_no_other),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("secret_file", tests, NULL, NULL);
}
