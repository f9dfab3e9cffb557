/* SPDX-License-Identifier: MIT */
/* Keys of accounts: what was encrypted comes back, anything else is refused; the key file is kept from others. */
#include "program/account_key.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/account_key_test.XXXXXX";
static char file[sizeof(dir) + 16];

static void write_file(const char *text, mode_t mode)
{
	FILE *fp;

	unlink(file);
	fp = fopen(file, "w");
	assert_non_null(fp);
	assert_int_equal(fwrite(text, 1, strlen(text), fp), strlen(text));
	assert_int_equal(fclose(fp), 0);
	assert_int_equal(chmod(file, mode), 0);
}

static void a_key_comes_back_under_the_same_name_number_and_master_only(void **state)
{
	unsigned char master[ACCOUNT_MASTER_BYTES] = { 1, 2, 3 }, key[ACCOUNT_KEY_MAX], cipher[ACCOUNT_CIPHER_MAX],
		      again[ACCOUNT_CIPHER_MAX];
	unsigned char out[ACCOUNT_KEY_MAX];
	struct deferred_error err = { 0 };
	size_t len, out_len;

	(void)state;
	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (unsigned char)(i * 7);
	for (size_t n = ACCOUNT_KEY_MIN; n <= ACCOUNT_KEY_MAX; n++) {
		assert_int_equal(account_key_encrypt(master, "acct", 2, key, n, cipher, &len, &err), 0);
		assert_int_equal(len, 1 + 12 + n + 16);
		assert_int_equal(account_key_decrypt(master, "acct", 2, cipher, len, out, &out_len, &err), 0);
		assert_int_equal(out_len, n);
		assert_memory_equal(out, key, n);
	}
	/* the same key never looks the same */
	assert_int_equal(account_key_encrypt(master, "acct", 2, key, 64, again, &len, &err), 0);
	assert_memory_not_equal(again, cipher, len);
	assert_int_equal(account_key_decrypt(master, "acct", 1, cipher, len, out, &out_len, &err), DEFERRED_ECONFIG);
	assert_int_equal(account_key_decrypt(master, "acc", 2, cipher, len, out, &out_len, NULL), DEFERRED_ECONFIG);
	assert_non_null(strstr(err.message, "key 1 of account 'acct'"));
	assert_non_null(strstr(err.hint, "rotate acct --key 1"));
	master[31] = 1;
	assert_int_equal(account_key_decrypt(master, "acct", 2, cipher, len, out, &out_len, NULL), DEFERRED_ECONFIG);
	master[31] = 0;
	for (size_t i = 0; i < len; i++) {
		cipher[i] ^= 4;
		assert_int_equal(account_key_decrypt(master, "acct", 2, cipher, len, out, &out_len, NULL),
				 DEFERRED_ECONFIG);
		cipher[i] ^= 4;
	}
	for (size_t n = 0; n < len; n++)
		assert_int_equal(account_key_decrypt(master, "acct", 2, cipher, n, out, &out_len, NULL),
				 DEFERRED_ECONFIG);
	assert_int_equal(account_key_decrypt(master, "acct", 2, cipher, len + 1000, out, &out_len, NULL),
			 DEFERRED_ECONFIG);
	assert_int_equal(account_key_decrypt(master, "acct", 2, cipher, len, out, &out_len, NULL), 0);
}

static void a_key_of_another_length_is_not_encrypted(void **state)
{
	unsigned char master[ACCOUNT_MASTER_BYTES] = { 0 }, key[80] = { 0 }, cipher[ACCOUNT_CIPHER_MAX];
	size_t len;

	(void)state;
	assert_int_equal(account_key_encrypt(master, "acct", 1, key, 15, cipher, &len, NULL), DEFERRED_EINVAL);
	assert_int_equal(account_key_encrypt(master, "acct", 1, key, 65, cipher, &len, NULL), DEFERRED_EINVAL);
}

static void keys_are_base64_and_nothing_else(void **state)
{
	static const char *const bad[] = {
		"",
		"AAAA",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=",
		" AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= ",
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8-",
		"AAECAwQFBgcICQoLDA0O====",
		"====",
		"=AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
		"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGwAAAAAA",
	};
	unsigned char key[ACCOUNT_KEY_MAX];
	char text[ACCOUNT_KEY_TEXT];
	size_t len = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(account_key_parse(bad[i], key, &len));
	assert_int_equal(len, 7);
	assert_true(account_key_parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", key, &len));
	assert_int_equal(len, 32);
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(key[i], i);
	assert_true(account_key_parse(
		"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==", key, &len));
	assert_int_equal(len, 64);
	account_key_text(text, key, len);
	assert_string_equal(text,
			    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==");
}

static void the_key_file_is_made_once_and_is_ours_alone(void **state)
{
	unsigned char master[ACCOUNT_MASTER_BYTES], again[ACCOUNT_MASTER_BYTES];
	struct deferred_error err = { 0 };
	struct stat st;

	(void)state;
	unlink(file);
	assert_int_equal(account_key_load(file, master, &err), DEFERRED_ENOTFOUND);
	assert_non_null(strstr(err.hint, "deferred account add"));
	error_clear(&err);
	umask(0);
	assert_int_equal(account_key_make(file, &err), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(account_key_load(file, master, &err), 0);
	assert_int_equal(account_key_make(file, &err), 0);
	assert_int_equal(account_key_load(file, again, &err), 0);
	assert_memory_equal(master, again, sizeof(master));
	assert_int_equal(account_key_make("/nonexistent/folder/key", &err), DEFERRED_ESYSTEM);
	assert_non_null(strstr(err.message, "'/nonexistent/folder/key'"));
}

static void expect_refusal(const char *what)
{
	unsigned char master[ACCOUNT_MASTER_BYTES];
	struct deferred_error err = { 0 };

	assert_int_equal(account_key_load(file, master, &err), DEFERRED_ECONFIG);
	if (!strstr(err.message, what) || !strstr(err.message, file))
		fail_msg("%s", err.message);
}

static void a_key_file_that_others_may_reach_or_that_is_none_is_refused(void **state)
{
	static const char good[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
	static const mode_t bad[] = { 0644, 0604, 0620, 0660, 0602, 0601, 0777 };
	unsigned char master[ACCOUNT_MASTER_BYTES];

	(void)state;
	write_file(good, 0600);
	assert_int_equal(account_key_load(file, master, NULL), 0);
	assert_int_equal(master[31], 31);
	write_file(good, 0640);
	assert_int_equal(account_key_load(file, master, NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file(good, bad[i]);
		expect_refusal("mode 0");
	}
	write_file("", 0600);
	expect_refusal("does not hold a key");
	write_file("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==\n", 0600);
	expect_refusal("does not hold a key");
	write_file(
		"not base64 at all, and rather long, rather long, rather long, rather long, rather long, rather long",
		0600);
	expect_refusal("does not hold a key");
	unlink(file);
	assert_int_equal(symlink("/etc/passwd", file), 0);
	expect_refusal("symbolic link");
	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	expect_refusal("not a regular file");
	unlink(file);
	assert_int_equal(mkdir(file, 0700), 0);
	expect_refusal("not a regular file");
	rmdir(file);
	if (geteuid() == 0) {
		write_file(good, 0600);
		assert_int_equal(chown(file, 12345, 12345), 0);
		expect_refusal("belongs to another user (uid 12345)");
	}
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/http.key", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_comes_back_under_the_same_name_number_and_master_only),
		cmocka_unit_test(a_key_of_another_length_is_not_encrypted),
		cmocka_unit_test(keys_are_base64_and_nothing_else),
		cmocka_unit_test(the_key_file_is_made_once_and_is_ours_alone),
		cmocka_unit_test(a_key_file_that_others_may_reach_or_that_is_none_is_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("account_key", tests, set_up, tear_down);
}
