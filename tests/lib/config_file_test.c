/* SPDX-License-Identifier: MIT */
/* The grammar of a config file. No file does harm. */
#include "port/config.h"

#include "base/random.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/config_file_test.XXXXXX";
static char file[sizeof(dir) + 16];
static struct deferred_error err;

/* NULL: refused, err says why. */
static struct config *load_bytes(const char *text, size_t len)
{
	struct config *config = NULL;
	FILE *fp = fopen(file, "w");

	assert_non_null(fp);
	assert_int_equal(fwrite(text, 1, len, fp), len);
	assert_int_equal(fclose(fp) | chmod(file, 0600), 0);
	memset(&err, 0, sizeof(err));
	if (config_load(&config, file, &err) < 0)
		assert_true(err.message[0] && err.hint[0] && !config);
	return config;
}

static struct config *load(const char *text)
{
	struct config *config = load_bytes(text, strlen(text));

	if (!config)
		fail_msg("%s: %s", text, err.message);
	return config;
}

static void refuses(const char *text, const char *message, const char *hint)
{
	char expected[512];

	snprintf(expected, sizeof(expected), "%s:%s", file, message);
	assert_null(load_bytes(text, strlen(text)));
	assert_string_equal(err.message, expected);
	assert_non_null(strstr(err.hint, hint));
}

static void a_value_is_written_in_many_ways(void **state)
{
	static const struct {
		const char *written, *read;
	} cases[] = {
		{ "word", "word" },
		{ "a//b", "a//b" },
		{ "http://a/b?c", "http://a/b?c" },
		{ "/a // comment", "/a" },
		{ "a# comment", "a" },
		{ "/* comment */ a", "a" },
		{ "/* \" { */\n// '\n# \"\na", "a" },
		{ "\r\n\ta\r\n", "a" },
		{ "a\\b", "a\\b" },
		{ "\xc3\xa9\xff", "\xc3\xa9\xff" },
		{ "\"\"", NULL },
		{ "''", NULL },
		{ "\"a b\tc\nd\re\"", "a b\tc\nd\re" },
		{ "\"a\\\n  b\"", "a  b" },
		{ "'a\\\n  b'", "a  b" },
		{ "\"# // /* {'\"", "# // /* {'" },
		{ "'# // /* {\"'", "# // /* {\"" },
		{ "\"\\a\\b\\e\\f\\n\\r\\t\\v\\q\\\"\\\\\\'\"", "\a\b\033\f\n\r\t\vq\"\\'" },
		{ "'\\a\\q\\\"\\\\\\''", "\\a\\q\\\"\\'" },
		{ "\"\\x41\\x4a4\\x4g\\xg\"", "AJ4\004gxg" },
		{ "\"\\101\\7x\\377\"", "A\007x\377" },
		{ "\"a\\0b\"", "a" },
		{ "\"$\\${$\"", "$${$" },
		{ "'${SET}'", "${SET}" },
		{ "${SET}", "a value" },
		{ "\"<${SET}>\"", "<a value>" },
		{ "${UNSET:-d e}", "d e" },
		{ "\"${UNSET:-}${SET:-x}\"", "a value" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		struct config *config;

		snprintf(text, sizeof(text), "pidfile = x\n'pidfile' = %s\n", cases[i].written);
		config = load(text);
		if (!cases[i].read)
			assert_null(config_text(config, "pidfile"));
		else
			assert_string_equal(config_text(config, "pidfile"), cases[i].read);
		config_free(config);
	}
}

static void a_file_ends_where_it_likes(void **state)
{
	static const char *const files[] = { "cnt = 7",
					     ("\xef\xbb\xbf"
					      "cnt = 7"),
					     "cnt=7#",
					     "cnt=7 //",
					     "cnt=7 /**/",
					     "cnt\r\n=\r\n7\r\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct config *config = load(files[i]);

		assert_int_equal(config_int(config, "cnt"), 7);
		config_free(config);
	}
	config_free(load(""));
	config_free(load("\xef\xbb\xbf"));
}

static int collect(void *data, const char *name, const char *value)
{
	char *text = data;

	if (strncmp(name, "settings.", 9) == 0)
		sprintf(text + strlen(text), "%s=%s ", name, value);
	return 0;
}

static void sections_may_be_repeated_and_lists_appended_to(void **state)
{
	struct config *config =
		load("mail { host = a } mail { host = b port = 25 } mail { }\n"
		     "function f { command = {/x, y} command = {} command += /bin/a command += { b, 'c d', } }\n"
		     "settings p { a = 1 \"x|y\" = 2 a = 3 }\n");
	const struct config_command *commands;
	char pairs[256] = "";
	size_t n;

	(void)state;
	assert_string_equal(config_text(config, "mail.host"), "b");
	assert_int_equal(config_int(config, "mail.port"), 25);
	commands = config_commands(config, &n);
	assert_int_equal(n, 1);
	assert_string_equal(commands[0].argv[0], "/bin/a");
	assert_string_equal(commands[0].argv[1], "b");
	assert_string_equal(commands[0].argv[2], "c d");
	assert_null(commands[0].argv[3]);
	config_each_public(config, collect, pairs);
	assert_string_equal(pairs, "settings.p.x|y=2 settings.p.a=3 ");
	config_free(config);
}

static void what_breaks_the_grammar_is_named_with_its_line(void **state)
{
	static const char quotes[] = "in quotes, such as timeout = \"5 minutes\"", any[] = "deferred.conf(5)";

	(void)state;
	refuses("cnt", "1: setting 'cnt' has no '=' before the end of the file", any);
	refuses("cnt =\n", "2: setting 'cnt' has no value before the end of the file", any);
	refuses("cnt = {1}", "1: setting 'cnt' has no value before '{'", quotes);
	refuses("cnt += 1", "1: setting 'cnt' has no '=' before '+='", any);
	refuses("timeout = 5 minutes", "1: setting 'minutes' is unknown", quotes);
	refuses("database {\nconninfo = dbname=x }", "2: unexpected '='", quotes);
	refuses("mail = 3", "1: section 'mail' has no '{' before '='", any);
	refuses("mail x {}", "1: section 'mail' has no '{' before 'x'", any);
	refuses("function {", "1: section 'function' has no title before '{'", any);
	refuses("function f { command = {/a\n/b} }", "2: setting 'function.command' has no ',' or '}' before '/b'",
		any);
	refuses("function f { command = {,} }", "1: setting 'function.command' has no value before ','", quotes);
	refuses("function f {\ncommand = {/a,\n", "2: brace is never closed", any);
	refuses("settings s { a { b = 1 } }", "1: setting 'settings.a' has no '=' before '{'", any);
	refuses("mail|host = x", "1: setting 'mail|host' is unknown", any);
	refuses("mail.host = x", "1: setting 'mail.host' is unknown", any);
	refuses("\ninclude(\"x\")", "2: setting 'include' is unknown", any);
	refuses("\"\" = x", "1: setting '' is unknown", quotes);
	refuses("user = \"\\400\"", "1: escape sequence '\\400' is not between \\0 and \\377, in octal", any);
	refuses("user = \"\\18\"", "1: escape sequence '\\18' is not between \\0 and \\377, in octal", any);
	refuses("user = \"\\1234\"", "1: escape sequence '\\1234' is not between \\0 and \\377, in octal", any);
	refuses("user = \"\n\\", "1: string is never closed", any);
	refuses("user = a${SET}", "1: 'a${': text around a variable is not in quotes", "double quotes");
	refuses("cnt = 1 /*/ x", "1: comment is never closed", any);
	refuses("cnt = 1\nuser = a*", "2: '*' is not in quotes", quotes);
	refuses("user = * /* x */ a", "1: '*' is not in quotes", quotes);
	refuses("schedule s { rule = */5 * * * * }", "1: '*' is not in quotes", quotes);
	refuses("cnt = +1", "1: '+' is not in quotes", quotes);
	refuses("cnt = 1 + ", "1: '+' is not in quotes", quotes);
}

static void files_and_values_have_a_limit(void **state)
{
	size_t size = 1 << 20;
	char *text = malloc(size + 2), *p = text;
	struct config *config;

	(void)state;
	memset(text, '\n', size + 1);
	memcpy(text, "user = '", 8);
	memset(text + 8, 'x', size - 9);
	text[size - 1] = '\'';
	assert_non_null(config = load_bytes(text, size));
	assert_int_equal(strlen(config_text(config, "user")), size - 9);
	config_free(config);
	assert_null(load_bytes(text, size + 1));
	assert_non_null(strstr(err.message, "is larger than 1048576 bytes"));
	/* The values of variables have a limit too. */
	memset(text, 'v', 100000);
	text[100000] = '\0';
	setenv("LARGE", text, 1);
	for (p = text; p < text + 200 * 19; p += 19)
		memcpy(p, "pidfile = ${LARGE}\n", 19);
	assert_null(load_bytes(text, (size_t)(p - text)));
	assert_non_null(strstr(err.message, "the values of all variables together are larger than 16777216 bytes"));
	unsetenv("LARGE");
	for (int i = 0; i < 2; i++) {
		p = text + sprintf(text, i ? "settings s {\n" : " ");
		for (int k = 0; k <= 20000; k++)
			p += sprintf(p, i ? "a%d = 1\n" : "schedule a%d {}\n", k);
		p += sprintf(p, i ? "}" : " ");
		assert_null(load_bytes(text, (size_t)(p - text)));
		assert_non_null(strstr(err.message, "more than 20000"));
	}
	free(text);
}

static void *write_later(void *path)
{
	FILE *fp = fopen(path, "w");

	fputs("cnt = 1\n", fp);
	fflush(fp);
	fputs("batch = 2\n", fp);
	fclose(fp);
	return NULL;
}

static void a_pipe_is_read_to_its_end(void **state)
{
	char path[sizeof(dir) + 16];
	struct config *config = NULL;
	pthread_t writer;

	(void)state;
	snprintf(path, sizeof(path), "%s/pipe", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_later, path), 0);
	assert_int_equal(config_load(&config, path, &err), 0);
	pthread_join(writer, NULL);
	assert_int_equal(config_int(config, "batch"), 2);
	config_free(config);
	unlink(path);
}

static size_t put_quoted(char *to, const char *value)
{
	char *p = to;

	for (*p++ = '"'; *value; value++) {
		if (strchr("\"\\$", *value))
			*p++ = '\\';
		*p++ = *value;
	}
	*p++ = '"';
	return (size_t)(p - to);
}

static void any_text_survives_being_written_and_read(void **state)
{
	static const char *const names[] = { "pidfile", "queue", "plugin_dir", "user" };
	uint64_t random = 1;

	(void)state;
	for (int round = 0; round < 300; round++) {
		char values[4][64] = { "" }, text[1024], *p = text;
		struct config *config;

		for (int i = 0; i < 4; i++) {
			size_t len = random_next(&random) % 63;

			for (size_t k = 0; k < len; k++)
				values[i][k] = random_next(&random) % 3 ? (char)(1 + random_next(&random) % 255)
									: "\"'\\${}#/*\n"[random_next(&random) % 10];
			p += sprintf(p, "%s = ", names[i]);
			p += put_quoted(p, values[i]);
			*p++ = random_next(&random) % 2 ? ' ' : '\n';
		}
		assert_non_null(config = load_bytes(text, (size_t)(p - text)));
		for (int i = 0; i < 4; i++) {
			const char *read = config_text(config, names[i]);

			assert_string_equal(read ? read : "", values[i]);
		}
		config_free(config);
	}
}

static void any_bytes_are_read_or_refused(void **state)
{
	static const char *const parts[] = { "cnt", "mail", "function", "settings", "shard",  "command",      "number",
					     "=",   "+=",   "{",        "}",        ",",      "\"",           "'",
					     "\\",  "${",   "SET",      ":-",       "/*",     "*/",           "//",
					     "#",   "\n",   " ",        "1",        "/bin/a", "\xef\xbb\xbf", "(" };
	uint64_t random = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		char text[512];
		size_t len = 0;

		for (size_t n = random_next(&random) % 40; n > 0; n--) {
			const char *part = parts[random_next(&random) % (sizeof(parts) / sizeof(parts[0]))];

			len += (size_t)sprintf(text + len, "%s", part);
			if (random_next(&random) % 16 == 0)
				text[len++] = (char)random_next(&random);
		}
		config_free(load_bytes(text, len));
	}
}

static int set_up(void **state)
{
	(void)state;
	setenv("SET", "a value", 1);
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/conf", dir);
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
		cmocka_unit_test(a_value_is_written_in_many_ways),
		cmocka_unit_test(a_file_ends_where_it_likes),
		cmocka_unit_test(sections_may_be_repeated_and_lists_appended_to),
		cmocka_unit_test(what_breaks_the_grammar_is_named_with_its_line),
		cmocka_unit_test(files_and_values_have_a_limit),
		cmocka_unit_test(a_pipe_is_read_to_its_end),
		cmocka_unit_test(any_text_survives_being_written_and_read),
		cmocka_unit_test(any_bytes_are_read_or_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("config_file", tests, set_up, tear_down);
}
