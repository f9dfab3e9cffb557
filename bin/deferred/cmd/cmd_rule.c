/* SPDX-License-Identifier: MIT */
#include "cmd_rule.h"

#include "port/params.h"
#include "store/rule.h"
#include "table.h"
#include "base/text/plural.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATEMENT_TIMEOUT_MS 3600000
#define SAMPLE_DEFAULT 5
#define SAMPLE_MAX 1000
#define QUERY_BYTES_MAX (1024 * 1024)

/* ---- add -------------------------------------------------------------------------------------- */

/* Standard input as the query: given, NULL after an error was reported. */
static char *read_query(FILE *fp)
{
	char *text = malloc(QUERY_BYTES_MAX + 1);
	size_t len = text ? fread(text, 1, QUERY_BYTES_MAX + 1, fp) : 0;

	if (text && !ferror(fp) && len <= QUERY_BYTES_MAX && !memchr(text, '\0', len)) {
		text[len] = '\0';
		return text;
	}
	cli_say("write one SELECT of at most 1 MiB to standard input", "cannot read the query: %s",
		!text                   ? "out of memory"
		: ferror(fp)            ? strerror(errno)
		: len > QUERY_BYTES_MAX ? "longer than 1 MiB"
					: "NUL byte");
	free(text);
	return NULL;
}

struct adding {
	struct store_rule rule;
	struct params_text opts;
	const char *tags[CLI_TAGS_MAX];
	size_t tags_len;
};

/* One option. False: it was wrong, and reported. */
static bool add_option(const struct cli *cli, int c, struct adding *a)
{
	int64_t n = 0;
	bool ok = true;

	switch (c) {
	case 'k':
		a->rule.key_column = optarg;
		break;
	case 'u':
		params_string(&a->opts, "key_until", optarg);
		break;
	case 'P':
		a->rule.params = optarg;
		break;
	case 'q':
		a->rule.queue = optarg;
		break;
	case 'p':
		ok = cli_int(cli, "--priority", optarg, -32768, 32767, &n);
		a->rule.priority = (int)n;
		break;
	case 'S':
		ok = cli_ms(cli, "--statement-timeout", optarg, &a->rule.statement_timeout_ms);
		break;
	case 'l':
		params_string(&a->opts, "label", optarg);
		break;
	case 'd':
		ok = cli_ms(cli, "--delay", optarg, &n);
		params_string(&a->opts, "delay", optarg);
		break;
	case 'e':
		ok = cli_ms(cli, "--expires", optarg, &n);
		params_string(&a->opts, "expires", optarg);
		break;
	case 'm':
		ok = cli_int(cli, "--max-attempts", optarg, 1, 1000000, &n);
		params_string(&a->opts, "max_attempts", optarg);
		break;
	case 'T':
		ok = cli_tag(cli, optarg, a->tags, &a->tags_len);
		break;
	case 't':
		ok = cli_ms(cli, "--timeout", optarg, &n);
		params_string(&a->opts, "timeout", optarg);
		break;
	}
	return ok;
}

static int rule_store(struct cli *cli, struct adding *a, bool from_stdin)
{
	struct deferred_error err = { 0 };
	char *query = NULL, *opts = NULL;
	int rc;

	if (a->tags_len > 0)
		params_open(&a->opts, "tags", '[');
	for (size_t i = 0; i < a->tags_len; i++)
		params_string(&a->opts, NULL, a->tags[i]);
	if (a->tags_len > 0)
		params_close(&a->opts, ']');
	params_close(&a->opts, '}');
	rc = params_take(&a->opts, &opts, &err);
	if (rc == 0)
		rc = params_check(a->rule.params, strlen(a->rule.params), &err);
	if (rc < 0) {
		rc = cli_fail(cli, &err);
		goto out;
	}
	if (from_stdin) {
		a->rule.query = query = read_query(stdin);
		if (!query) {
			rc = EX_DATAERR;
			goto out;
		}
	}
	a->rule.opts = opts;
	if ((rc = rule_connect(cli)) != 0)
		goto out;
	if (store_rule_add(cli->pg, &a->rule, &err) < 0)
		rc = rule_fail(cli, &err);
	else if (cli->json)
		printf("{\"rule\": \"%s\"}\n", a->rule.name);
out:
	free(query);
	free(opts);
	return rc;
}

static int rule_add(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "key", "COLUMN", "column whose text is the key", 'k' },
		{ "key-until", "WHEN", "until 'end', or a span after the end", 'u', "end" },
		{ "params", "JSON", "members that every job gets", 'P', "{}" },
		{ "queue", "NAME", "queue of the jobs", 'q', "default" },
		{ "priority", "N", "larger ones start first", 'p', "0" },
		{ "label", "TEXT", "text for people", 'l', .empty = true },
		{ "tag", "TEXT", "word to find the jobs by; may be repeated", 'T' },
		{ "delay", "SPAN", "do not start earlier than after this time", 'd' },
		{ "expires", "SPAN", "do not start later than this", 'e' },
		{ "max-attempts", "N", "attempts before a job is dead", 'm' },
		{ "timeout", "SPAN", "limit of one attempt", 't' },
		{ "statement-timeout", "SPAN", "limit of a run of the rule", 'S', "1h" },
		{ 0 },
	};
	struct adding a = { .rule = { .params = "{}", .statement_timeout_ms = STATEMENT_TIMEOUT_MS } };
	int c, rc = EX_OK;

	params_open(&a.opts, NULL, '{');
	while (rc == EX_OK && (c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP) {
			free(a.opts.p);
			return EX_OK;
		}
		if (c == CLI_OPT_BAD || !add_option(cli, c, &a))
			rc = EX_USAGE;
	}
	if (rc == EX_OK && !cli_arguments(cli, argc, argv, "NAME FUNCTION QUERY"))
		rc = EX_USAGE;
	if (rc == EX_OK && !a.rule.key_column)
		rc = cli_misuse(cli, "name the column of the query that identifies its rows",
				"option '--key' is missing");
	if (rc != EX_OK) {
		free(a.opts.p);
		return rc;
	}
	a.rule.name = argv[optind];
	a.rule.fn = argv[optind + 1];
	a.rule.query = argv[optind + 2];
	return rule_store(cli, &a, strcmp(a.rule.query, "-") == 0);
}

/* ---- ls --------------------------------------------------------------------------------------- */

static void print_rules(const struct pg_result *res)
{
	static const char *const headers[] = { "RULE",  "FUNCTION", "QUEUE",    "OWNER",   ">LAST RUN",
					       ">TOOK", ">QUEUED",  ">SKIPPED", ">FAILED", "ERROR" };
	char age[TABLE_AGE_SIZE], took[TABLE_AGE_SIZE];
	struct table t;

	table_begin(&t, headers, 10);
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct rule_ls_row r = rule_ls_row(res, i);

		table_cell(&t, "%s", r.name);
		table_cell(&t, "%s", r.fn);
		table_cell(&t, "%s", r.queue);
		table_cell(&t, "%s", r.owner);
		table_cell(&t, r.has_last_run_s ? "%s ago" : "never", table_age(age, r.last_run_s));
		table_cell(&t, "%s", r.has_last_run_ms ? table_us(took, r.last_run_ms * 1000) : "");
		table_number(&t, r.has_last_queued, r.last_queued);
		table_number(&t, r.has_last_skipped, r.last_skipped);
		table_number(&t, r.has_last_failed, r.last_failed);
		table_cell(&t, "%s", r.last_error);
	}
	table_end_list(&t, "rules");
}

static int rule_ls(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc))
		return rc;
	if ((rc = rule_connect(cli)) != 0)
		return rc;
	if (rule_ls_exec(cli->pg, &res, &err) < 0)
		return rule_fail(cli, &err);
	return cli_list(cli, res, print_rules);
}

/* ---- test ------------------------------------------------------------------------------------- */

static void print_test(const struct pg_result *res)
{
	struct rule_look_row r = rule_look_row(res, 0);
	char *plan = table_clean(r.plan, 0, 2);

	printf("about %.0f row%s\n\n%s\n", r.estimate, plural((int64_t)r.estimate), plan);
	free(plan);
	if (pg_rows(res) > 1)
		printf("\nfirst rows, as key and params:\n");
	for (size_t i = 1; i < pg_rows(res); i++) {
		struct rule_look_row each = rule_look_row(res, i);
		char *key = table_clean(!each.key ? "NULL" : each.key, 60, TABLE_ONE_LINE);
		char *params = table_clean(each.params, 0, TABLE_ONE_LINE);

		printf("%s\t%s\n", key, params);
		free(key);
		free(params);
	}
}

static void print_test_json(const char *name, const struct pg_result *res)
{
	struct rule_look_row r;

	r = rule_look_row(res, 0);
	printf("{\"rule\": \"%s\", \"estimate\": %.0f, \"plan\": %s, \"jobs\": [", name, r.estimate, r.plan_json);
	for (size_t i = 1; i < pg_rows(res); i++) {
		struct rule_look_row each = rule_look_row(res, i);

		printf("%s%s", i > 1 ? ",\n " : "", each.plan_json);
	}
	puts("]}");
}

static int rule_test(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "limit", "N", "rows to print", 'l', "5" },
		{ 0 },
	};
	struct deferred_error err = { 0 };
	struct pg_result *res = NULL;
	int64_t limit = SAMPLE_DEFAULT;
	int c, rc;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c != 'l')
			return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (!cli_int(cli, "--limit", optarg, 0, SAMPLE_MAX, &limit))
			return EX_USAGE;
	}
	if (!cli_arguments(cli, argc, argv, "NAME"))
		return EX_USAGE;
	if ((rc = rule_connect(cli)) != 0)
		return rc;
	if (store_rule_test(cli->pg, argv[optind], (int)limit, &res, &err) < 0)
		rc = rule_fail(cli, &err);
	else if (cli->json)
		print_test_json(argv[optind], res);
	else
		print_test(res);
	pg_result_free(res);
	return rc;
}

/* ---- rm --------------------------------------------------------------------------------------- */

static int rule_rm(struct cli *cli, int argc, char **argv)
{
	const char *between = "[";
	int rc;

	if (!cli_no_options(cli, argc, argv, &rc))
		return rc;
	if (!cli_arguments(cli, argc, argv, "NAME..."))
		return EX_USAGE;
	if ((rc = rule_connect(cli)) != 0)
		return rc;
	for (int i = optind; i < argc && !pg_broken(cli->pg); i++) {
		struct deferred_error err = { 0 };

		if (rule_remove_exec(cli->pg, argv[i], &err) < 0) {
			int failed = rule_fail(cli, &err);

			rc = rc == EX_OK ? failed : rc;
		} else if (cli->json) {
			printf("%s{\"rule\": \"%s\", \"removed\": true}", between, argv[i]);
			between = ",\n ";
		}
	}
	if (cli->json)
		printf("%s]\n", *between == '[' ? between : "");
	return rc;
}

/* ---- the group -------------------------------------------------------------------------------- */

static int cmd_rule_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "add", rule_add },
		{ "ls", rule_ls },
		{ "test", rule_test },
		{ "run", rule_run },
		{ "rm", rule_rm },
		{ 0 },
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_rule = {
	"rule",
	"add NAME FN QUERY|- --key COLUMN [OPTION...]\n"
	"ls\n"
	"test NAME [--limit N]\n"
	"run [--flow ID] [NAME...]\n"
	"rm NAME...",
	"make jobs of the rows of stored queries",
	cmd_rule_run,
	"deferred_producer",
	"add, ls, test, run and rm",
};
