/* SPDX-License-Identifier: MIT */
/* What is remembered of servers: their newest timelines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lineage.h"

static char folder[] = "/tmp/lineage_test.XXXXXX";
static char pidfile[64], path[80];

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(pidfile, sizeof(pidfile), "%s/pid", folder);
	snprintf(path, sizeof(path), "%s.server", pidfile);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static void put(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	chmod(path, 0600);
}

static int check(const char *system, int64_t timeline, const char *says)
{
	struct deferred_error err = { 0 };
	int rc = lineage_check(pidfile, system, timeline, &err);

	assert_int_equal(rc < 0, says != NULL);
	if (says && !strstr(err.message, says))
		fail_msg("\"%s\" does not say \"%s\"", err.message, says);
	return rc;
}

static void a_promotion_is_remembered_and_the_one_before_it_refused(void **state)
{
	struct stat st;

	(void)state;
	check("7001", 1, NULL);
	check("7001", 1, NULL);
	check("7001", 3, NULL);
	assert_int_equal(check("7001", 2, "old primary refused: the server is on timeline 2 of system 7001"),
			 DEFERRED_ECONNECT);
	check("7001", 1, "knows of timeline 3");
	check("7002", 1, NULL);
	check("7001", 3, NULL);
	check("7001", 2, "knows of timeline 3");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	unlink(path);
	check("7001", 1, NULL);
}

static void of_many_servers_the_last_ones_are_kept(void **state)
{
	char system[24];

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(system, sizeof(system), "%d", 18000000 + i);
		check(system, 5, NULL);
	}
	check("18000099", 4, "knows of timeline 5");
	check("18000036", 4, "knows of timeline 5");
	check("18000035", 4, NULL);
}

static void what_is_no_such_file_is_no_reason_to_trust_a_server(void **state)
{
	static const char *const wrong[] = { "x", "7001", "7001 x\n", "7001 1\n7002", "-7001 1\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put(wrong[i]);
		check("7001", 1, "it is not what check_deferred writes");
	}
	put("7001 1\n");
	chmod(path, 0622);
	check("7001", 1, "that only this user may write");
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	check("7001", 1, "cannot open");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	check("7001", 1, "not a regular file");
	unlink(path);
	put("");
	check("7001", 1, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_promotion_is_remembered_and_the_one_before_it_refused),
		cmocka_unit_test(of_many_servers_the_last_ones_are_kept),
		cmocka_unit_test(what_is_no_such_file_is_no_reason_to_trust_a_server),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lineage", tests, set_up, tear_down);
}
