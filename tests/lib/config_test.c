/* SPDX-License-Identifier: MIT */
/* Settings: precedence, types, ranges, and every kind of wrong file with the message it must give. */
#include "port/config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/config_test.XXXXXX";
static char file[sizeof(dir) + 16];

/* The last one may be read-only, which stops everybody except root. */
static void write_file(const char *text)
{
	FILE *fp;

	unlink(file);
	fp = fopen(file, "w");
	assert_non_null(fp);
	assert_int_equal(fwrite(text, 1, strlen(text), fp), strlen(text));
	assert_int_equal(fclose(fp), 0);
	assert_int_equal(chmod(file, 0600), 0);
}

/* A checkout may belong to somebody else, whose files root does not read. */
static void copy_file(const char *path)
{
	FILE *from = fopen(path, "r"), *to = fopen(file, "w");
	int c;

	assert_non_null(from);
	assert_non_null(to);
	while ((c = getc(from)) != EOF)
		putc(c, to);
	fclose(from);
	assert_int_equal(fclose(to), 0);
}

static struct config *load_file(const char *path)
{
	struct deferred_error err = { 0 };
	struct config *config = NULL;

	if (config_load(&config, path, &err) < 0)
		fail_msg("%s", err.message);
	return config;
}

static struct config *load(const char *text)
{
	write_file(text);
	return load_file(file);
}

static void every_default_is_a_valid_value_of_its_setting(void **state)
{
	struct config *config = load("");

	(void)state;
	assert_int_equal(config_int(config, "cnt"), 1);
	assert_string_equal(config_text(config, "application"), "deferred");
	assert_int_equal(config_int(config, "lease"), 60000);
	assert_int_equal(config_int(config, "kill_after"), 200);
	assert_int_equal(config_int(config, "params_max_bytes"), 1048576);
	assert_int_equal(config_int(config, "if_running"), 0);
	assert_true(config_real(config, "backoff_exponent") == 2);
	assert_false(config_flag(config, "mail.defer"));
	assert_null(config_text(config, "database.conninfo"));
	for (const struct config_setting *s = config_settings; s->name; s++)
		assert_true((s->def != NULL) == (config_text(config, s->name) != NULL));
	config_free(config);
}

static void values_of_the_file_are_read_in_their_units(void **state)
{
	struct config *config =
		load("cnt = 7 // comment\nlease = 1.5h\ntimeout = 90\nbackoff_exponent = 1.5\n"
		     "memory_limit = 64k # comment\nisolate = job\nseed = 9007199254740993\n"
		     "database { conninfo = \"dbname=x password='a b'\" }\nmail { defer = yes timeout = 200s }\n");

	(void)state;
	assert_int_equal(config_int(config, "cnt"), 7);
	assert_int_equal(config_int(config, "lease"), 5400000);
	assert_int_equal(config_int(config, "timeout"), 90000);
	assert_true(config_real(config, "backoff_exponent") == 1.5);
	assert_int_equal(config_int(config, "memory_limit"), 65536);
	assert_int_equal(config_int(config, "isolate"), 1);
	assert_int_equal(config_int(config, "seed"), 9007199254740993);
	assert_string_equal(config_text(config, "database.conninfo"), "dbname=x password='a b'");
	assert_true(config_flag(config, "mail.defer"));
	assert_string_equal(config_text(config, "mail.timeout"), "200000");
	assert_string_equal(config_path(config), file);
	config_free(config);
}

static void a_value_of_20000_bytes_is_kept_whole(void **state)
{
	char *text = malloc(20100);
	struct config *config;

	(void)state;
	strcpy(text, "pidfile = \"");
	memset(text + 11, 'x', 20000);
	strcpy(text + 20011, "\"\n");
	config = load(text);
	assert_int_equal(strlen(config_text(config, "pidfile")), 20000);
	config_free(config);
	free(text);
}

static void option_wins_over_environment_wins_over_file_wins_over_default(void **state)
{
	struct deferred_error err = { 0 };
	struct config *config = load("cnt = 2\nrunners = 2\nbatch = 2\n");

	(void)state;
	config_free(config);
	setenv("DEFERRED_CNT", "3", 1);
	setenv("DEFERRED_RUNNERS", "3", 1);
	setenv("DEFERRED_MAIL_HOST", "mx.example.org", 1);
	setenv("DEFERRED_DB", "dbname=env", 1);
	setenv("DEFERRED_BATCH", "", 1);
	config = load("cnt = 2\nrunners = 2\nbatch = 2\ndatabase { conninfo = \"dbname=file\" }\n");
	assert_int_equal(config_override(config, "cnt", "4", "--cnt", &err), 0);
	assert_int_equal(config_int(config, "cnt"), 4);
	assert_int_equal(config_int(config, "runners"), 3);
	assert_int_equal(config_int(config, "batch"), 2);
	assert_int_equal(config_int(config, "window"), 100);
	assert_string_equal(config_text(config, "mail.host"), "mx.example.org");
	assert_string_equal(config_text(config, "database.conninfo"), "dbname=env");
	config_free(config);
	unsetenv("DEFERRED_CNT");
	unsetenv("DEFERRED_RUNNERS");
	unsetenv("DEFERRED_MAIL_HOST");
	unsetenv("DEFERRED_DB");
	unsetenv("DEFERRED_BATCH");
}

static void a_wrong_value_names_the_variable_or_option(void **state)
{
	struct deferred_error err = { 0 };
	struct config *config = load("");

	(void)state;
	assert_int_equal(config_override(config, "cnt", "many", "--cnt", &err), DEFERRED_ECONFIG);
	assert_string_equal(err.message, "option '--cnt': value 'many' is not a whole number (0 to 1000000000)");
	assert_int_equal(config_int(config, "cnt"), 1);
	config_free(config);
	memset(&err, 0, sizeof(err));
	setenv("DEFERRED_MAIL_PORT", "65536", 1);
	assert_int_equal(config_load(&config, file, &err), DEFERRED_ECONFIG);
	assert_string_equal(err.message,
			    "environment variable DEFERRED_MAIL_PORT: value '65536' is out of range (0 to 65535)");
	unsetenv("DEFERRED_MAIL_PORT");
}

static void each_bad_file_is_refused_with_its_message(void **state)
{
	const char *folder = "tests/lib/config_bad";
	DIR *d = opendir(folder);
	struct dirent *entry;
	int n = 0;

	(void)state;
	assert_non_null(d);
	while ((entry = readdir(d))) {
		char path[512], expected[512], text[512] = "";
		struct deferred_error err = { 0 };
		struct config *config = NULL;
		size_t len = strlen(entry->d_name);
		FILE *fp;

		if (len < 5 || strcmp(entry->d_name + len - 5, ".conf") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%.*s.expected", folder, (int)len - 5, entry->d_name);
		fp = fopen(path, "r");
		assert_non_null(fp);
		assert_non_null(fgets(text, sizeof(text), fp));
		fclose(fp);
		text[strcspn(text, "\n")] = '\0';
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		copy_file(path);
		snprintf(expected, sizeof(expected), "%.200s%.200s", file, text);
		assert_int_equal(config_load(&config, file, &err), DEFERRED_ECONFIG);
		assert_string_equal(err.message, expected);
		assert_null(config);
		n++;
	}
	closedir(d);
	assert_true(n >= 40);
}

static void assert_unset(const char *text, const char *place)
{
	struct deferred_error err = { 0 };
	struct config *config = NULL;
	char expected[512];

	write_file(text);
	snprintf(expected, sizeof(expected), "%.200s:%s: environment variable NOPE is %s", file, place,
		 getenv("NOPE") ? "empty" : "not set");
	assert_int_equal(config_load(&config, file, &err), DEFERRED_ECONFIG);
	assert_string_equal(err.message, expected);
	assert_string_equal(err.hint, "set it, or give a default: ${NOPE:-default}");
}

static void no_setting_takes_a_variable_that_is_not_set(void **state)
{
	char text[256], place[128];

	(void)state;
	for (int empty = 0; empty < 2; empty++) {
		for (const struct config_setting *s = config_settings; s->name; s++) {
			const char *dot = strchr(s->name, '.');
			int len = dot ? (int)(dot - s->name) : 0;

			snprintf(text, sizeof(text), "cnt = 1\n%.*s %s %s = \"a${NOPE}\" %s\n", len, s->name,
				 dot ? "{" : "", dot ? dot + 1 : s->name, dot ? "}" : "");
			snprintf(place, sizeof(place), "2: setting '%s'", s->name);
			assert_unset(text, place);
		}
		assert_unset("function \"x\" { command = {\"/bin/true\", b, \"${NOPE}\"} }\n",
			     "1: setting 'function.command'");
		assert_unset("mail { to = 'x' }\nfunction \"x\" {\ncommand = /bin/true\ntimeout = ${NOPE} }\n",
			     "4: setting 'function.timeout'");
		assert_unset("settings \"p\" {\n# ${NOPE}\n a = \"${HOME}${NOPE}\"\n}\n", "3: setting 'settings.a'");
		assert_unset("schedule \"s\" { rule = \"@daily\" params =\n\"${NOPE}\" }\n",
			     "2: setting 'schedule.params'");
		assert_unset("shard \"s\" { number = 1 conninfo = \"dbname=${NOPE}\" }\n",
			     "1: setting 'shard.conninfo'");
		assert_unset("function \"${NOPE}\" { command = {/bin/true} }\n", "1: setting 'function'");
		setenv("NOPE", "", 1);
	}
	unsetenv("NOPE");
}

static void a_variable_has_its_value_or_its_default(void **state)
{
	(void)state;
	for (int empty = 0; empty < 2; empty++) {
		struct config *config = load("/* ${NOPE} */ mail { to = \"${NOPE:-}\" host = ${NOPE:-mx}\n"
					     "user = '${NOPE}' "
					     "from = \"<${YES:-no}>\" helo = \"\\${NOPE}\" } // ${NOPE}\n");

		assert_null(config_text(config, "mail.to"));
		assert_string_equal(config_text(config, "mail.host"), "mx");
		assert_string_equal(config_text(config, "mail.from"), empty ? "<yes>" : "<no>");
		assert_string_equal(config_text(config, "mail.user"), "${NOPE}");
		assert_string_equal(config_text(config, "mail.helo"), "${NOPE}");
		config_free(config);
		setenv("NOPE", "", 1);
		setenv("YES", "yes", 1);
	}
	unsetenv("NOPE");
	unsetenv("YES");
}

static void a_file_that_cannot_be_read_is_an_error_only_if_it_was_named(void **state)
{
	struct deferred_error err = { 0 };
	struct config *config = NULL;
	char expected[256];

	(void)state;
	snprintf(expected, sizeof(expected), "config file '%s/none' does not exist", dir);
	snprintf(file, sizeof(file), "%s/none", dir);
	assert_int_equal(config_load(&config, file, &err), DEFERRED_ECONFIG);
	assert_string_equal(err.message, expected);
	memset(&err, 0, sizeof(err));
	setenv("DEFERRED_CONFIG", file, 1);
	assert_int_equal(config_load(&config, NULL, &err), DEFERRED_ECONFIG);
	assert_string_equal(err.message, expected);
	unsetenv("DEFERRED_CONFIG");
	memset(&err, 0, sizeof(err));
	assert_int_equal(config_load(&config, dir, &err), DEFERRED_ECONFIG);
	assert_non_null(strstr(err.message, "Is a directory"));
	snprintf(file, sizeof(file), "%s/conf", dir);
}

static void a_file_this_user_may_not_read_comes_with_a_remedy(void **state)
{
	struct deferred_error err = { 0 };
	struct config *config = NULL;

	(void)state;
	write_file("cnt = 2\n");
	assert_int_equal(chmod(file, 0), 0);
	if (geteuid() == 0) /* who may read everything */
		assert_int_equal(chmod(dir, 0755) | seteuid(65534), 0);
	assert_int_equal(config_load(&config, file, &err), DEFERRED_ECONFIG);
	if (getuid() == 0)
		assert_int_equal(seteuid(0) | chmod(dir, 0700), 0);
	assert_int_equal(chmod(file, 0600), 0);
	assert_non_null(strstr(err.message, "Permission denied"));
	assert_string_equal(err.hint, "let this user read it, or name another file with --config or DEFERRED_CONFIG");
}

/* It could name a command for root to run. Anybody else trusts whom he trusts. */
static void root_reads_no_file_that_others_can_write(void **state)
{
	static const struct {
		uid_t owner;
		mode_t mode;
		const char *message, *hint;
	} cases[] = {
		{ 65534, 0600, " belongs to user 65534, not to root", "chown root" },
		{ 0, 0620, " is writable by others (mode 0620)", "chmod go-w" },
		{ 0, 0602, " is writable by others (mode 0602)", "chmod go-w" },
		{ 0, 0644, NULL, NULL },
	};

	(void)state;
	if (geteuid() != 0) { /* the half of it that can be seen then */
		write_file("cnt = 2\n");
		assert_int_equal(chmod(file, 0666), 0);
		config_free(load_file(file));
		assert_int_equal(chmod(file, 0600), 0);
		return;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct deferred_error err = { 0 };
		struct config *config = NULL;

		write_file("cnt = 2\n");
		assert_int_equal(chown(file, cases[i].owner, 0) | chmod(file, cases[i].mode), 0);
		assert_int_equal(config_load(&config, file, &err), cases[i].message ? DEFERRED_ECONFIG : 0);
		config_free(config);
		if (cases[i].message) {
			assert_non_null(strstr(err.message, cases[i].message));
			assert_non_null(strstr(err.hint, cases[i].hint));
		}
	}
	assert_int_equal(chmod(dir, 0755) | chmod(file, 0666) | seteuid(65534), 0);
	config_free(load_file(file));
	config_free(load_file("/dev/null"));
	assert_int_equal(seteuid(0) | chmod(dir, 0700) | chmod(file, 0600), 0);
	config_free(load_file("/dev/null"));
}

static void a_password_lies_in_no_file_that_others_can_read(void **state)
{
	static const char *const with[] = {
		"database { conninfo = \"dbname=x password=hush\" }",
		"database { conninfo = \"password = 'hush' dbname=x\" }",
		"database { conninfo = \"postgresql://me:hush@host/x\" }",
		"database { conninfo = \"postgres://host/x?user=me&password=hush\" }",
		"database { conninfo = \"sslkey=a sslpassword=hush\" }",
		"mail { password = hush }",
	};
	static const char *const without[] = {
		"database { conninfo = \"dbname=password user=x passfile=/a\" }",
		"database { conninfo = \"postgresql://me@host:5432/x\" }",
		"database { conninfo = \"postgresql://host/x?application_name=a:b@c\" }",
		"mail { user = me password_file = \"/a\" }",
		"",
	};
	static const struct {
		mode_t mode;
		bool others, root;
	} modes[] = {
		{ 0600, true, true },   { 0400, true, true },   { 0640, false, true },
		{ 0660, false, false }, { 0604, false, false }, { 0644, false, false },
	};
	struct deferred_error err;
	struct config *config;

	(void)state;
	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++)
		for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
			bool good = geteuid() == 0 ? modes[m].root : modes[m].others;

			write_file(with[i]);
			assert_int_equal(chmod(file, modes[m].mode), 0);
			memset(&err, 0, sizeof(err));
			config = NULL;
			if ((config_load(&config, file, &err) == 0) != good)
				fail_msg("%s with mode %04o: %s", with[i], (unsigned int)modes[m].mode, err.message);
			if (!good && modes[m].mode != 0660) /* root refuses that one for another reason */
				assert_non_null(strstr(err.hint, "chmod 600"));
			config_free(config);
		}
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
		write_file(without[i]);
		assert_int_equal(chmod(file, 0644), 0);
		config_free(load_file(file));
	}
}

static void commands_and_free_form_settings_are_handed_out(void **state)
{
	struct config *config =
		load("function \"resize\" {\n\tcommand = {\"/usr/bin/convert\", \"-\", \"out put.png\"}\n"
		     "\ttimeout = \"10s\"\n\tmax_attempts = 3\n\tbatch = 50\n\tbatch_wait = 500ms\n}\nfunction "
		     "\"plain\" { command = {\"/bin/true\"} }\n"
		     "settings \"geo\" { url = \"https://a/?b={c}\" zoom = 5 }\n");
	const struct config_command *commands;
	size_t len;

	(void)state;
	commands = config_commands(config, &len);
	assert_int_equal(len, 2);
	assert_string_equal(commands[0].name, "resize");
	assert_string_equal(commands[0].argv[0], "/usr/bin/convert");
	assert_string_equal(commands[0].argv[2], "out put.png");
	assert_null(commands[0].argv[3]);
	assert_int_equal(commands[0].timeout_ms, 10000);
	assert_int_equal(commands[0].max_attempts, 3);
	assert_int_equal(commands[0].batch, 50);
	assert_int_equal(commands[0].batch_wait_ms, 500);
	assert_int_equal(commands[1].timeout_ms, 0);
	assert_int_equal(commands[1].max_attempts, 0);
	assert_int_equal(commands[1].batch, 0);
	config_free(config);
}

static int collect(void *data, const char *name, const char *value)
{
	char *text = data;

	strcat(strcat(strcat(strcat(text, name), "="), value), "\n");
	return 0;
}

static void runners_are_told_everything_but_the_database(void **state)
{
	struct config *config =
		load("database { conninfo = \"password=secret\" }\nmail { password = hush to = \"a@b\" }\n"
		     "otlp { headers = \"api-key=secret\" }\nhttp { allow = \"::1\" tls_key = \"k\" }\nsettings "
		     "\"geo\" { zoom = 5 }\n");
	char text[8192] = "";

	(void)state;
	assert_int_equal(config_each_public(config, collect, text), 0);
	assert_null(strstr(text, "database"));
	assert_null(strstr(text, "secret"));
	assert_non_null(strstr(text, "mail.password=hush\n"));
	assert_non_null(strstr(text, "mail.timeout=60000\n"));
	assert_non_null(strstr(text, "settings.geo.zoom=5\n"));
	assert_non_null(strstr(text, "http.allow=::1\n"));
	assert_null(strstr(text, "http.tls_key"));
	assert_null(strstr(text, "http.listen"));
	assert_null(strstr(text, "mail.user="));
	config_free(config);
}

/* Text of a file from the source tree. Given. */
static char *slurp(const char *path)
{
	char *text = calloc(1, 65536);
	FILE *fp = fopen(path, "r");

	assert_non_null(fp);
	assert_true(fread(text, 1, 65535, fp) > 0);
	fclose(fp);
	return text;
}

/* "mail.host" stands in section mail of the sample as "#\thost = ..."; at the top as "#cnt = 1". */
static void sample_and_man_page_name_each_setting_with_its_default(void **state)
{
	char *sample = slurp("cron/deferred.conf"), *page = slurp("cron/deferred.conf.5");
	int in_sample = 0, in_page = 0, in_table = 0;

	(void)state;
	for (const struct config_setting *s = config_settings; s->name; s++, in_table++) {
		const char *dot = strrchr(s->name, '.'), *leaf = dot ? dot + 1 : s->name;
		char line[256];

		if (s->def)
			snprintf(line, sizeof(line), s->type == CONFIG_TEXT ? "\n#%s%s = \"%s\"\n" : "\n#%s%s = %s\n",
				 dot ? "\t" : "", leaf, s->def);
		else
			snprintf(line, sizeof(line), "\n#%s%s = \"\"\n", dot ? "\t" : "", leaf);
		if (!strstr(sample, line))
			fail_msg("cron/deferred.conf has no line%s", line);
		snprintf(line, sizeof(line), "\n.It Ic %s ", s->name);
		if (!strstr(page, line))
			fail_msg("cron/deferred.conf.5 has no line%s", line);
		if (s->def) {
			snprintf(line, sizeof(line), "\n.It Ic %s = Ar %s\n", s->name, s->def);
			if (!strstr(page, line))
				fail_msg("cron/deferred.conf.5 has no line%s", line);
		}
	}
	for (const char *p = sample; (p = strstr(p, "\n#")); p++) {
		const char *eq = strpbrk(p + 1, "=\n");

		in_sample += *eq == '=' && p[2] != ' ' && p[2] != '#' && strncmp(p, "\n#\t\t", 4) != 0;
	}
	for (const char *p = page; (p = strstr(p, "\n.It Ic ")); p++)
		in_page++;
	assert_int_equal(in_sample, in_table);
	assert_int_equal(in_page, in_table);
	free(sample);
	free(page);
}

static void the_sample_is_a_valid_file_with_and_without_its_comment_marks(void **state)
{
	char *sample = slurp("cron/deferred.conf"), *p = sample, *q = sample;
	struct config *config;

	(void)state;
	config = load(sample);
	config_free(config);
	/* "# text" explains, "#name = value" is a setting. */
	for (bool start = true; *p; start = *p++ == '\n')
		if (!(start && *p == '#' && p[1] != ' ' && p[1] != '\n' && p[1] != '#'))
			*q++ = *p;
	*q = '\0';
	config = load(sample);
	config_free(config);
	free(sample);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/conf", dir);
	for (const struct config_setting *s = config_settings; s->name; s++) {
		char name[64] = "DEFERRED_";

		for (size_t i = 0; s->name[i]; i++)
			name[9 + i] = s->name[i] == '.'
					      ? '_'
					      : (char)(s->name[i] - (s->name[i] >= 'a' && s->name[i] <= 'z' ? 32 : 0));
		unsetenv(name);
	}
	unsetenv("DEFERRED_CONFIG");
	return unsetenv("DEFERRED_DB");
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
		cmocka_unit_test(every_default_is_a_valid_value_of_its_setting),
		cmocka_unit_test(values_of_the_file_are_read_in_their_units),
		cmocka_unit_test(a_value_of_20000_bytes_is_kept_whole),
		cmocka_unit_test(option_wins_over_environment_wins_over_file_wins_over_default),
		cmocka_unit_test(a_wrong_value_names_the_variable_or_option),
		cmocka_unit_test(each_bad_file_is_refused_with_its_message),
		cmocka_unit_test(no_setting_takes_a_variable_that_is_not_set),
		cmocka_unit_test(a_variable_has_its_value_or_its_default),
		cmocka_unit_test(a_file_that_cannot_be_read_is_an_error_only_if_it_was_named),
		cmocka_unit_test(a_file_this_user_may_not_read_comes_with_a_remedy),
		cmocka_unit_test(root_reads_no_file_that_others_can_write),
		cmocka_unit_test(a_password_lies_in_no_file_that_others_can_read),
		cmocka_unit_test(commands_and_free_form_settings_are_handed_out),
		cmocka_unit_test(runners_are_told_everything_but_the_database),
		cmocka_unit_test(sample_and_man_page_name_each_setting_with_its_default),
		cmocka_unit_test(the_sample_is_a_valid_file_with_and_without_its_comment_marks),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("config", tests, set_up, tear_down);
}
