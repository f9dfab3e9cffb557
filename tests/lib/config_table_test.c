/* SPDX-License-Identifier: MIT */
/* The table of settings is well-formed: what config.c and the reader take for granted of it. */
#include "port/config.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t section_len(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot ? (size_t)(dot - name) : 0;
}

static bool same_section(const char *a, const char *b)
{
	return section_len(a) == section_len(b) && memcmp(a, b, section_len(a)) == 0;
}

static void names_are_words_of_small_letters_with_one_section_at_most(void **state)
{
	(void)state;
	for (const struct config_setting *s = config_settings; s->name; s++) {
		const char *leaf = section_len(s->name) ? s->name + section_len(s->name) + 1 : s->name;

		if (s->name[strspn(s->name, "abcdefghijklmnopqrstuvwxyz_.")] || !islower((unsigned char)s->name[0]) ||
		    !islower((unsigned char)leaf[0]) || strchr(leaf, '.') || strncmp(s->name, "settings.", 9) == 0)
			fail_msg("\"%s\" is no name", s->name);
	}
}

/* The environment writes "." and "_" alike. */
static void no_two_settings_share_a_name_or_a_variable(void **state)
{
	(void)state;
	for (const struct config_setting *s = config_settings; s->name; s++)
		for (const struct config_setting *t = s + 1; t->name; t++) {
			char one[64], other[64];

			snprintf(one, sizeof(one), "%s", s->name);
			snprintf(other, sizeof(other), "%s", t->name);
			for (char *p = one; (p = strchr(p, '.'));)
				*p = '_';
			for (char *p = other; (p = strchr(p, '.'));)
				*p = '_';
			if (strcmp(one, other) == 0)
				fail_msg("%s and %s are one variable", s->name, t->name);
		}
}

static void the_members_of_a_section_stand_together(void **state)
{
	(void)state;
	for (const struct config_setting *s = config_settings; s->name; s++)
		for (const struct config_setting *t = s; section_len(s->name) && t > config_settings; t--)
			if (same_section(s->name, t[-1].name) && !same_section(s->name, s[-1].name))
				fail_msg("%s stands apart from %s", s->name, t[-1].name);
}

static bool number_of(const struct config_setting *s, double *number)
{
	struct deferred_error err = { 0 };
	int64_t ms;
	char *end;

	if (s->type == CONFIG_MS) {
		if (config_parse_ms(s->def, &ms, &err) < 0)
			return false;
		*number = (double)ms;
		return true;
	}
	*number = strtod(s->def, &end);
	if (s->type == CONFIG_BYTES && *end)
		*number *= *end == 'k' ? 0x1p10 : *end == 'm' ? 0x1p20 : 0x1p30;
	return end != s->def && (s->type == CONFIG_BYTES || !*end);
}

static void a_number_has_a_range_and_its_default_lies_in_it(void **state)
{
	(void)state;
	for (const struct config_setting *s = config_settings; s->name; s++) {
		double number;

		if (s->type == CONFIG_TEXT || s->type == CONFIG_FLAG || s->type == CONFIG_CHOICE) {
			assert_true(s->min == 0 && s->max == 0);
			continue;
		}
		if (!s->def || !number_of(s, &number) || s->min < 0 || s->min >= s->max || number < s->min ||
		    number > s->max)
			fail_msg("%s = %s, from %g to %g", s->name, s->def ? s->def : "none", s->min, s->max);
		/* What is added to clocks and counted in nanoseconds must fit. */
		if (s->max > (s->type == CONFIG_MS ? 365 * 24 * 3600e3 : 9.2e18))
			fail_msg("%s up to %g", s->name, s->max);
	}
}

static void the_default_of_a_choice_is_one_of_its_words_and_of_a_flag_0_or_1(void **state)
{
	(void)state;
	for (const struct config_setting *s = config_settings; s->name; s++) {
		bool found = false;

		if (s->type == CONFIG_FLAG)
			assert_true(strcmp(s->def, "0") == 0 || strcmp(s->def, "1") == 0);
		assert_true((s->type == CONFIG_CHOICE) == (s->choices != NULL));
		for (const char *word = s->choices; word; word = strchr(word, '|') ? strchr(word, '|') + 1 : NULL) {
			size_t len = strcspn(word, "|");

			assert_true(len > 0);
			found |= s->def && strlen(s->def) == len && memcmp(s->def, word, len) == 0;
		}
		if (s->choices && !found)
			fail_msg("%s = %s of %s", s->name, s->def ? s->def : "none", s->choices);
	}
}

/* Each of these would be a hole if it were the other way round. */
static void what_opens_a_door_is_shut_unless_it_is_opened(void **state)
{
	static const char *const shut[][2] = {
		{ "allow_root", "0" },
		{ "mail.plain_login", "0" },
		{ "http.listen", "127.0.0.1:10001" },
		{ "mail.attachment_dir", NULL },
		{ "sample.dir", NULL },
		{ "http.listen_tls", NULL },
		{ "http.access_log", NULL },
		{ "user", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(shut) / sizeof(shut[0]); i++) {
		const struct config_setting *s = config_settings;

		while (s->name && strcmp(s->name, shut[i][0]) != 0)
			s++;
		assert_non_null(s->name);
		if (shut[i][1] ? !s->def || strcmp(s->def, shut[i][1]) != 0 : s->def != NULL)
			fail_msg("%s = %s", s->name, s->def ? s->def : "none");
	}
}

static void each_says_in_one_sentence_what_it_is(void **state)
{
	(void)state;
	for (const struct config_setting *s = config_settings; s->name; s++)
		if (!s->what || strlen(s->what) < 8 || strpbrk(s->what, "\n\t") || s->what[strlen(s->what) - 1] == '.')
			fail_msg("%s: \"%s\"", s->name, s->what ? s->what : "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_words_of_small_letters_with_one_section_at_most),
		cmocka_unit_test(no_two_settings_share_a_name_or_a_variable),
		cmocka_unit_test(the_members_of_a_section_stand_together),
		cmocka_unit_test(a_number_has_a_range_and_its_default_lies_in_it),
		cmocka_unit_test(the_default_of_a_choice_is_one_of_its_words_and_of_a_flag_0_or_1),
		cmocka_unit_test(what_opens_a_door_is_shut_unless_it_is_opened),
		cmocka_unit_test(each_says_in_one_sentence_what_it_is),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("config_table", tests, NULL, NULL);
}
