/* SPDX-License-Identifier: MIT */
/* Lines as Prometheus reads them, in either format. What promtool says of whole answers is asked in tests/bin and
 * tests/http. */
#include "program/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t bounds_us[] = { 2500, 1000000 };

static char *written(bool open)
{
	struct histogram h = { { 0 } };
	struct exposition e;

	assert_true(exposition_begin(&e, open));
	exposition_metric(&e, "x_total", "counter", "Some.");
	exposition_sample(&e, "",
			  (struct exposition_label[]){ { "queue", NULL }, { "fn", "a\"b\\c\nd" }, { "state", "" } }, 3);
	exposition_whole(&e, -17);
	exposition_metric(&e, "y", "gauge", "Other.");
	exposition_sample(&e, "", NULL, 0);
	exposition_seconds(&e, 1000002);
	histogram_count_us(&h, 2500);
	histogram_count_us(&h, 2501);
	histogram_count_us(&h, 5000000);
	exposition_metric(&e, "z_seconds", "histogram", "Times.");
	exposition_histogram(&e, (struct exposition_label[]){ { "op", "put" } }, 1, &h, 5005001, bounds_us, 2);
	return exposition_end(&e);
}

static void a_sample_has_the_labels_that_have_a_value_and_nothing_in_one_ends_it(void **state)
{
	char *text = written(false);

	(void)state;
	assert_string_equal(
		text, "# HELP x_total Some.\n# TYPE x_total counter\nx_total{fn=\"a\\\"b\\\\c\\nd\",state=\"\"} -17\n"
		      "# HELP y Other.\n# TYPE y gauge\ny 1.000002\n"
		      "# HELP z_seconds Times.\n# TYPE z_seconds histogram\n"
		      "z_seconds_bucket{op=\"put\",le=\"0.0025\"} 1\nz_seconds_bucket{op=\"put\",le=\"1\"} "
		      "2\nz_seconds_bucket{op=\"put\",le=\"+Inf\"} 3\n"
		      "z_seconds_sum{op=\"put\"} 5.005001\nz_seconds_count{op=\"put\"} 3\n");
	free(text);
}

static void openmetrics_names_families_and_bounds_in_its_own_way_and_ends(void **state)
{
	char *text = written(true);

	(void)state;
	assert_non_null(strstr(text, "# HELP x Some.\n# TYPE x counter\nx_total{"));
	assert_non_null(strstr(text, "le=\"0.0025\"} 1\nz_seconds_bucket{op=\"put\",le=\"1.0\"} 2\n"));
	assert_string_equal(text + strlen(text) - 7, "\n# EOF\n");
	free(text);
}

static void who_reads_openmetrics_says_so(void **state)
{
	(void)state;
	assert_true(exposition_wants_open(
		"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
	assert_false(exposition_wants_open("text/plain"));
	assert_false(exposition_wants_open(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sample_has_the_labels_that_have_a_value_and_nothing_in_one_ends_it),
		cmocka_unit_test(openmetrics_names_families_and_bounds_in_its_own_way_and_ends),
		cmocka_unit_test(who_reads_openmetrics_says_so),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("exposition", tests, NULL, NULL);
}
