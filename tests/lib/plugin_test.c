/* SPDX-License-Identifier: MIT */
/* Loading plugins: what is taken, what is refused and with which words, whose files are trusted. */
#include "port/plugin.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SOMEBODY 65534 /* neither root nor who runs the tests */

static char top[] = "/tmp/plugin_test.XXXXXX";
static char dir[sizeof(top) + 16]; /* the plugin folder, made anew for each test */
static char refusals[4096];        /* "FILE: TEXT\n" of the last load */
static char passed_over[NAME_MAX];

static char *path_of(const char *file)
{
	static char path[sizeof(dir) + NAME_MAX + 2];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return path;
}

/* Copy a plugin of the build under test into the folder. from: "plugins/sample" or "tests/plugins/twin_a". */
static void put(const char *from, const char *file)
{
	const char *build = getenv("DEFERRED_BUILD");
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "cp \"%.1000s/%.100s.so\" \"%s\" && chmod 755 \"%s\"",
		 build ? build : "build", from, path_of(file), path_of(file));
	assert_int_equal(system(command), 0);
}

static void put_text(const char *file, const char *text)
{
	FILE *f = fopen(path_of(file), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path_of(file), 0755), 0);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "%s/plugins", top);
	passed_over[0] = '\0';
	return mkdir(dir, 0755) || chmod(dir, 0755);
}

static int remove_folder(void **state)
{
	char command[PATH_MAX];

	(void)state;
	snprintf(command, sizeof(command), "chmod 755 %s && rm -rf %s/*", top, top);
	return system(command);
}

static void on_refused(void *data, const char *file, const char *text)
{
	size_t len = strlen(refusals);

	(void)data;
	snprintf(refusals + len, sizeof(refusals) - len, "%s: %s\n", file, text);
}

static bool on_loading(void *data, const char *file)
{
	(void)data;
	return strcmp(file, passed_over) != 0;
}

/* *set is changed only when all is loaded. */
static int load_dir(struct plugin_set **set, const char *folder, unsigned int owner, struct deferred_error *err)
{
	struct plugin_set *opened;
	int rc = plugin_open_dir(&opened, folder, owner, on_refused, NULL, err);

	if (rc < 0)
		return rc;
	rc = plugin_load_all(opened, on_loading, on_refused, NULL, err);
	if (rc == 0)
		*set = opened;
	else
		plugin_set_free(opened);
	return rc;
}

static int try_load(struct plugin_set **set, unsigned int owner, struct deferred_error *err)
{
	memset(err, 0, sizeof(*err));
	refusals[0] = '\0';
	*set = NULL;
	return load_dir(set, dir, owner, err);
}

static struct plugin_set *load(void)
{
	struct deferred_error err;
	struct plugin_set *set;

	if (try_load(&set, geteuid(), &err) < 0)
		fail_msg("%s", err.message);
	return set;
}

static void assert_load_fails_with(int code, unsigned int owner, const char *text)
{
	struct deferred_error err;
	struct plugin_set *set;

	assert_int_equal(try_load(&set, owner, &err), code);
	assert_null(set);
	if (!strstr(err.message, text))
		fail_msg("'%s' is not in '%s'", text, err.message);
	assert_true(err.hint[0]);
}

static void assert_load_fails(unsigned int owner, const char *text)
{
	assert_load_fails_with(DEFERRED_EPLUGIN, owner, text);
}

static void assert_refused(const char *text)
{
	const char *line = refusals;
	size_t file_len = strcspn(text, " ");

	if (strstr(refusals, text))
		return;
	/* cmocka cuts a message off after 1,023 bytes. So only the line of this file is printed. */
	while (*line && strncmp(line, text, file_len) != 0) {
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	fail_msg("'%s' is not in '%.*s'", text, (int)strcspn(line, "\n"), line);
}

/* Let a path belong to somebody who is not trusted. */
static unsigned int give_away(const char *path)
{
	assert_int_equal(lchown(path, SOMEBODY, SOMEBODY), 0);
	return 0;
}

static int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- what is found ---------------------------------------------------------------------------- */

static void a_function_is_found_by_its_name_its_full_name_and_its_aliases(void **state)
{
	struct plugin_set *set;
	const struct plugin_function *fn;

	(void)state;
	put("tests/plugins/aliases", "aliases.so");
	put("plugins/sample", "sample.so");
	set = load();
	fn = plugin_find(set, "say_name");
	assert_non_null(fn);
	assert_ptr_equal(plugin_find(set, "aliases.say_name"), fn);
	assert_ptr_equal(plugin_find(set, "say_it"), fn);
	assert_ptr_equal(plugin_find(set, "old.name"), fn);
	assert_int_equal(fn->fn.timeout_ms, 1500);
	assert_int_equal(fn->fn.max_attempts, 2);
	assert_non_null(plugin_find(set, "sample.noop"));
	assert_string_equal(refusals, "");
	plugin_set_free(set);
}

static void a_name_that_no_table_lists_is_not_found(void **state)
{
	static const char *const names[] = { "system", "exit",    "execve",    "run", "deferred_plugin",
					     "sample", "sample.", ".noop",     "",    "sample.system",
					     "noop ",  "NOOP",    "other.noop" };
	struct plugin_set *set;

	(void)state;
	put("plugins/sample", "sample.so");
	set = load();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_null(plugin_find(set, names[i]));
	plugin_set_free(set);
}

static void an_empty_folder_has_no_functions(void **state)
{
	struct plugin_set *set;

	(void)state;
	set = load();
	assert_null(plugin_find(set, "noop"));
	plugin_set_free(set);
}

static void count_name(void *data, const char *name, const struct plugin_function *fn)
{
	assert_non_null(name);
	assert_non_null(fn);
	++*(int *)data;
}

static void every_name_is_listed_once(void **state)
{
	struct plugin_set *set;
	int n = 0;

	(void)state;
	put("tests/plugins/aliases", "aliases.so");
	set = load();
	plugin_each(set, count_name, &n);
	assert_int_equal(n, 4);
	plugin_set_free(set);
}

static void the_log_gets_name_version_and_build_id(void **state)
{
	struct plugin_set *set;
	char hex[9], rest;

	(void)state;
	put("plugins/sample", "any_file_name.so");
	set = load();
	assert_int_equal(sscanf(plugin_find(set, "noop")->plugin, "sample 1.0 %8[0-9a-f]%c", hex, &rest), 1);
	assert_int_equal(strlen(hex), 8);
	plugin_set_free(set);
}

static void a_plugin_with_more_members_than_known_here_is_loaded(void **state)
{
	struct plugin_set *set;

	(void)state;
	put("tests/plugins/newer_header", "newer_header.so");
	set = load();
	assert_int_equal(plugin_find(set, "later_one")->fn.timeout_ms, 1000);
	assert_int_equal(plugin_find(set, "later_two")->fn.timeout_ms, 2000);
	plugin_set_free(set);
}

static void a_relative_folder_and_a_linked_folder_are_followed(void **state)
{
	char old[PATH_MAX], link[PATH_MAX];
	struct deferred_error err = { 0 };
	struct plugin_set *set = NULL;

	(void)state;
	put("plugins/sample", "sample.so");
	snprintf(link, sizeof(link), "%s/link", top);
	assert_int_equal(symlink("./plugins/../plugins", link), 0);
	assert_int_equal(load_dir(&set, link, geteuid(), &err), 0);
	assert_non_null(plugin_find(set, "noop"));
	plugin_set_free(set);
	assert_non_null(getcwd(old, sizeof(old)));
	assert_int_equal(chdir(top), 0);
	assert_int_equal(load_dir(&set, "plugins", geteuid(), &err), 0);
	assert_int_equal(chdir(old), 0);
	plugin_set_free(set);
}

static void nothing_stays_open_after_the_set_is_freed(void **state)
{
	int before = open_descriptors();

	(void)state;
	put("plugins/sample", "sample.so");
	put("tests/plugins/wrong_abi", "wrong_abi.so");
	put_text("text.so", "no plugin\n");
	plugin_set_free(load());
	put("tests/plugins/twin_a", "twin_a.so");
	put("tests/plugins/twin_b", "twin_b.so");
	plugin_set_free(load());
	assert_int_equal(open_descriptors(), before);
}

/* ---- what is no plugin ------------------------------------------------------------------------ */

static void what_is_no_plugin_is_refused_and_the_rest_is_loaded(void **state)
{
	struct plugin_set *set;

	(void)state;
	put("plugins/sample", "sample.so");
	put("tests/plugins/missing_symbol", "missing_symbol.so");
	put("tests/plugins/undefined_symbol", "undefined_symbol.so");
	put("tests/plugins/wrong_abi", "wrong_abi.so");
	put("tests/plugins/short_table", "short_table.so");
	put_text("text.so", "#!/bin/sh\necho hello\n");
	put_text("empty.so", "");
	put_text("README.txt", "not looked at\n");
	put_text(".hidden.so", "not looked at\n");
	assert_int_equal(mkdir(path_of("folder.so"), 0755), 0);
	assert_int_equal(mkfifo(path_of("fifo.so"), 0644), 0);
	assert_int_equal(symlink("sample.so", path_of("link.so")), 0);
	set = load();
	assert_non_null(plugin_find(set, "noop"));
	assert_refused("missing_symbol.so: it is not a plugin: it does not export deferred_plugin");
	assert_refused("undefined_symbol.so: cannot be loaded: undefined symbol: nobody_defines_this");
	assert_refused("wrong_abi.so: made for plugin ABI 2, this program has 1");
	assert_refused("short_table.so: its table has a size no version had");
	assert_refused("text.so: cannot be loaded: ");
	assert_refused("empty.so: cannot be loaded: ");
	assert_refused("folder.so: it is not a regular file");
	assert_refused("fifo.so: it is not a regular file");
	assert_refused("link.so: cannot be opened: ");
	assert_null(strstr(refusals, "README"));
	assert_null(strstr(refusals, "hidden"));
	assert_null(strstr(refusals, "sample.so:"));
	assert_null(plugin_find(set, "from_the_future"));
	plugin_set_free(set);
}

/* dlsym() finds it in what the plugin was linked with. */
static void a_table_of_a_library_the_plugin_was_linked_with_is_not_its_own(void **state)
{
	struct plugin_set *set;

	(void)state;
	put("tests/plugins/borrowed", "borrowed.so");
	set = load();
	assert_refused("borrowed.so: it is not a plugin: it does not export deferred_plugin");
	assert_null(plugin_find(set, "noop"));
	plugin_set_free(set);
}

static void a_file_can_be_passed_over_before_it_is_loaded(void **state)
{
	struct plugin_set *set;

	(void)state;
	put("tests/plugins/crash_at_load", "crash_at_load.so");
	put("plugins/sample", "sample.so");
	strcpy(passed_over, "crash_at_load.so");
	set = load();
	assert_non_null(plugin_find(set, "noop"));
	plugin_set_free(set);
}

static void note_clash(void *data, const char *name, const char *text)
{
	char *all = data;

	snprintf(all + strlen(all), 1000 - strlen(all), "%s: %s\n", name, text);
}

static void a_function_of_two_plugins_is_refused_by_both_names_and_the_rest_is_found(void **state)
{
	struct plugin_set *set;
	char clashes[1000] = "";

	(void)state;
	put("tests/plugins/twin_a", "one.so");
	put("tests/plugins/twin_b", "two.so");
	put("plugins/sample", "sample.so");
	set = load();
	assert_null(plugin_find(set, "twin"));
	assert_string_equal(plugin_find(set, "twin_b.twin")->file, "two.so");
	assert_non_null(plugin_find(set, "noop"));
	plugin_each_clash(set, note_clash, clashes);
	assert_string_equal(clashes, "twin: function 'twin' is both in plugin 'one.so' and in plugin 'two.so'\n");
	plugin_set_free(set);
}

static void a_copy_beside_the_original_names_both_files(void **state)
{
	struct plugin_set *set;
	char clashes[1000] = "";

	(void)state;
	put("plugins/sample", "sample.so");
	put("plugins/sample", "sample_old.so");
	set = load();
	assert_null(plugin_find(set, "noop"));
	assert_null(plugin_find(set, "sample.noop"));
	plugin_each_clash(set, note_clash, clashes);
	assert_non_null(strstr(clashes, "sample.noop: function 'sample.noop' is both in plugin 'sample.so' and in "
					"plugin 'sample_old.so'\n"));
	plugin_set_free(set);
}

static void one_plugin_is_loaded_by_its_name(void **state)
{
	struct deferred_error err = { 0 };
	struct plugin_set *set = NULL;

	(void)state;
	put("plugins/sample", "sample.so");
	put("tests/plugins/crash_at_load", "crash_at_load.so");
	put("tests/plugins/wrong_abi", "wrong_abi.so");
	assert_int_equal(plugin_load_one(&set, dir, "sample", geteuid(), &err), 0);
	assert_non_null(plugin_find(set, "echo"));
	plugin_set_free(set);
	assert_int_equal(plugin_load_one(&set, dir, "wrong_abi", geteuid(), &err), DEFERRED_EPLUGIN);
	assert_non_null(strstr(err.message, "/plugins/wrong_abi.so': made for plugin ABI 2"));
	error_clear(&err);
	assert_int_equal(plugin_load_one(&set, dir, "missing", geteuid(), &err), DEFERRED_EPLUGIN);
	assert_non_null(strstr(err.message, "No such file or directory"));
	assert_int_equal(plugin_load_one(&set, dir, "../sample", geteuid(), &err), DEFERRED_EINVAL);
}

/* ---- whom to trust ---------------------------------------------------------------------------- */

static void a_missing_folder_is_an_error_that_names_it(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "%s/missing", top);
	assert_load_fails(geteuid(), "/missing': No such file or directory");
}

static void a_file_in_place_of_the_folder_is_an_error(void **state)
{
	(void)state;
	put_text("file", "");
	strcpy(dir, path_of("file"));
	assert_load_fails(geteuid(), "Not a directory");
}

static void a_file_writable_by_others_is_refused(void **state)
{
	static const mode_t modes[] = { 0775, 0757, 0666, 0620 };

	(void)state;
	put("plugins/sample", "sample.so");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod(path_of("sample.so"), modes[i]), 0);
		assert_load_fails(geteuid(), "/sample.so' is writable by others");
	}
}

static void a_folder_writable_by_others_is_refused_even_if_sticky(void **state)
{
	static const mode_t modes[] = { 0775, 0757, 01777 };

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct deferred_error err = { 0 };

		assert_int_equal(chmod(dir, modes[i]), 0);
		assert_load_fails(geteuid(), "/plugins' is writable by others");
		assert_int_equal(plugin_dir_check(dir, geteuid(), &err), DEFERRED_EPLUGIN);
	}
}

static void a_folder_above_writable_by_others_is_refused_unless_sticky(void **state)
{
	struct deferred_error err = { 0 };

	(void)state;
	assert_int_equal(chmod(top, 0777), 0);
	assert_load_fails(geteuid(), "is writable by others");
	assert_int_equal(chmod(top, 01777), 0);
	assert_int_equal(plugin_dir_check(dir, geteuid(), &err), 0);
}

static void a_file_of_somebody_else_is_refused(void **state)
{
	(void)state;
	put("plugins/sample", "sample.so");
	assert_load_fails(give_away(path_of("sample.so")), "belongs to user");
}

static void a_folder_of_somebody_else_is_refused(void **state)
{
	(void)state;
	assert_load_fails(give_away(dir), "belongs to user");
}

static void a_link_of_somebody_else_is_refused(void **state)
{
	char link[PATH_MAX];

	(void)state;
	snprintf(link, sizeof(link), "%s/link", top);
	assert_int_equal(symlink(dir, link), 0);
	strcpy(dir, link);
	assert_load_fails(give_away(link), "belongs to user");
}

static void a_second_user_may_own_the_folder_if_it_is_named(void **state)
{
	struct deferred_error err = { 0 };
	struct stat st;

	(void)state;
	give_away(dir);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(plugin_dir_check(dir, st.st_uid, &err), 0);
}

static void links_in_a_circle_end_in_an_error(void **state)
{
	char link[PATH_MAX];

	(void)state;
	snprintf(link, sizeof(link), "%s/link", top);
	assert_int_equal(symlink("link", link), 0);
	strcpy(dir, link);
	assert_load_fails(geteuid(), "Too many levels of symbolic links");
}

#define FOR_ROOT 4
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_function_is_found_by_its_name_its_full_name_and_its_aliases),
		TEST(a_name_that_no_table_lists_is_not_found),
		TEST(an_empty_folder_has_no_functions),
		TEST(every_name_is_listed_once),
		TEST(the_log_gets_name_version_and_build_id),
		TEST(a_plugin_with_more_members_than_known_here_is_loaded),
		TEST(a_relative_folder_and_a_linked_folder_are_followed),
		TEST(nothing_stays_open_after_the_set_is_freed),
		TEST(what_is_no_plugin_is_refused_and_the_rest_is_loaded),
		TEST(a_table_of_a_library_the_plugin_was_linked_with_is_not_its_own),
		TEST(a_file_can_be_passed_over_before_it_is_loaded),
		TEST(a_function_of_two_plugins_is_refused_by_both_names_and_the_rest_is_found),
		TEST(a_copy_beside_the_original_names_both_files),
		TEST(one_plugin_is_loaded_by_its_name),
		TEST(a_missing_folder_is_an_error_that_names_it),
		TEST(a_file_in_place_of_the_folder_is_an_error),
		TEST(a_file_writable_by_others_is_refused),
		TEST(a_folder_writable_by_others_is_refused_even_if_sticky),
		TEST(a_folder_above_writable_by_others_is_refused_unless_sticky),
		TEST(links_in_a_circle_end_in_an_error),
		/* Only root can give a file away: the last FOR_ROOT are run by root alone. */
		TEST(a_file_of_somebody_else_is_refused),
		TEST(a_folder_of_somebody_else_is_refused),
		TEST(a_link_of_somebody_else_is_refused),
		TEST(a_second_user_may_own_the_folder_if_it_is_named),
	};
	size_t n = sizeof(tests) / sizeof(tests[0]) - (geteuid() == 0 ? 0 : FOR_ROOT);
	int failed;

	if (!mkdtemp(top) || chmod(top, 0755) < 0) {
		perror(top);
		return 1;
	}
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = _cmocka_run_group_tests("plugin", tests, n, NULL, NULL);
	rmdir(top);
	return failed;
}
