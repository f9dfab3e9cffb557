/* SPDX-License-Identifier: MIT */
/* The words for states and outcomes are the same in C and SQL; a job owns its texts. */
#include "base/job.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_job_owns_copies_of_its_texts(void **state)
{
	char fn[] = "send_mail", label[] = "subject", params[] = "{\"a\":\"x\"}";
	struct job *job = job_new("q", fn, label, params, strlen(params));

	(void)state;
	assert_non_null(job);
	memset(fn, 0, sizeof(fn));
	memset(label, 0, sizeof(label));
	memset(params, 0, sizeof(params));
	assert_string_equal(job->fn, "send_mail");
	assert_string_equal(job->label, "subject");
	assert_string_equal(job->params, "{\"a\":\"x\"}");
	assert_int_equal(job->params_len, 9);
	assert_int_equal(job->id, 0);
	assert_null(job->next);
	free(job);
}

static void params_keep_every_byte_and_are_terminated(void **state)
{
	struct job *job = job_new("q", "f", "", "a\0b", 3);

	(void)state;
	assert_non_null(job);
	assert_memory_equal(job->params, "a\0b\0", 4);
	assert_int_equal(job->params_len, 3);
	assert_string_equal(job->label, "");
	free(job);
}

/* A blank for each run of blanks and line ends. */
static char *slurp(const char *path)
{
	char *text = calloc(1, 262144), *to = text;
	FILE *fp = fopen(path, "r");

	assert_non_null(fp);
	assert_true(fread(text, 1, 262143, fp) > 0);
	fclose(fp);
	for (const char *from = text; *from; from++)
		if (!isspace((unsigned char)*from) || to == text || to[-1] != ' ')
			*to++ = isspace((unsigned char)*from) ? ' ' : *from;
	*to = '\0';
	return text;
}

static void c_and_sql_have_the_same_outcomes(void **state)
{
	char *sql = slurp("sql/migrations/0001_tables.sql"), list[512] = "(", *check;
	static const enum job_outcome all[] = {
#define X(name, text) JOB_##name,
		JOB_OUTCOMES(X)
#undef X
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sprintf(list + strlen(list), "%s'%s'", i ? ", " : "", job_outcome_text(all[i]));
	strcat(list, ")");
	check = strstr(sql, "check (outcome in");
	assert_non_null(check);
	assert_non_null(check = strchr(check + 17, '('));
	assert_int_equal(strncmp(check, list, strlen(list)), 0);
	free(sql);
}

static void every_state_is_a_word_of_the_view(void **state)
{
	char *function = slurp("sql/functions/job/state.sql"), *view = slurp("sql/views/job.sql");
	static const enum job_state all[] = {
#define X(name, text) JOB_IS_##name,
		JOB_STATES(X)
#undef X
	};
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char word[32];

		snprintf(word, sizeof(word), "'%s'", job_state_text(all[i]));
		if (!strstr(function, word) && !strstr(view, word))
			fail_msg("state %s is unknown to SQL", word);
	}
	free(function);
	free(view);
}

static void its_parents_and_steps_are_added_behind_its_texts(void **state)
{
	struct job *job = job_new("mail", "send", "a label", "{\"a\": 1}", 8), *told;

	(void)state;
	assert_non_null(job);
	assert_string_equal(job->parents, "");
	job->id = 17;
	assert_string_equal(job->steps, "");
	told = job_add_answer(job, "{\"b\": 2}", "{\"s\": 3}");
	assert_non_null(told);
	assert_int_equal(told->id, 17);
	assert_string_equal(told->queue, "mail");
	assert_string_equal(told->fn, "send");
	assert_string_equal(told->label, "a label");
	assert_string_equal(told->params, "{\"a\": 1}");
	assert_string_equal(told->parents, "{\"b\": 2}");
	assert_int_equal(told->parents_len, 8);
	assert_string_equal(told->steps, "{\"s\": 3}");
	assert_int_equal(told->steps_len, 8);
	assert_true(told->has_steps);
	told = job_add_answer(told, "", "");
	assert_false(told->has_steps);
	free(told);
}

static void jobs_of_one_key_are_of_one_claim(void **state)
{
	const struct job a = { .receipt = 5, .key = 1 }, same = a, other_key = { .receipt = 5, .key = 2 },
			 other_claim = { .receipt = 6, .key = 1 }, no_key = { .receipt = 5 };

	(void)state;
	assert_true(job_same_key(&a, &same));
	assert_false(job_same_key(&a, &other_key));
	assert_false(job_same_key(&a, &other_claim));
	assert_false(job_same_key(&no_key, &no_key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_owns_copies_of_its_texts),
		cmocka_unit_test(params_keep_every_byte_and_are_terminated),
		cmocka_unit_test(its_parents_and_steps_are_added_behind_its_texts),
		cmocka_unit_test(jobs_of_one_key_are_of_one_claim),
		cmocka_unit_test(c_and_sql_have_the_same_outcomes),
		cmocka_unit_test(every_state_is_a_word_of_the_view),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
