/* SPDX-License-Identifier: MIT */
#include "cmd.h"

#include "base/span.h"
#include "program/completion.h"
#include "program/program.h"
#include "store/migrate.h"
#include "port/secret_file.h"
#include "store/admin.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct program_option cli_common[] = {
	{ "db", "CONNINFO", "connection string of libpq", CLI_OPT_DB, "the config file" },
	{ "config", "FILE", "config file", CLI_OPT_CONFIG, DEFERRED_SYSCONFDIR "/deferred/deferred.conf" },
	{ "shard", "NAME", "which database of the config file", CLI_OPT_SHARD },
	{ "all-shards", NULL, "all databases of the config file", CLI_OPT_ALL_SHARDS },
	{ "json", NULL, "print one JSON document", CLI_OPT_JSON },
	{ "answer-timeout", "SPAN", "limit for an answer of the server", CLI_OPT_ANSWER_TIMEOUT,
	  .setting = "database.answer_timeout" },
	{ "lock-timeout", "SPAN", "limit for a lock; 0: none", CLI_OPT_LOCK_TIMEOUT,
	  .setting = "database.lock_timeout" },
	{ "help", NULL, "print this help", CLI_OPT_HELP },
	{ 0 },
};

bool cli_no_options(struct cli *cli, int argc, char **argv, int *code)
{
	int c = cli_getopt(cli, argc, argv, NULL);

	*code = c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	return c == CLI_OPT_DONE;
}

bool cli_no_words(struct cli *cli, int argc, char **argv, int *code)
{
	if (!cli_no_options(cli, argc, argv, code))
		return false;
	*code = EX_USAGE;
	return cli_arguments(cli, argc, argv, "");
}

bool cli_arguments(const struct cli *cli, int argc, char **argv, const char *names)
{
	int i = optind;

	for (; *names; names += strspn(names, " .]")) {
		const char *name = names;

		names += strcspn(names, " .]");
		if (i == argc && *name != '[') {
			cli_usage(cli, "argument %.*s is missing", (int)(names - name), name);
			return false;
		}
		i = *names == '.' ? argc : i < argc ? i + 1 : i;
	}
	if (i < argc)
		cli_usage(cli, "argument '%.64s' is not expected", argv[i]);
	return i == argc;
}

bool cli_is_one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(word, *words) != 0)
		words++;
	return *words;
}

/* A command tells the options it would read, by its own cli_getopt(). word: its first argument, NULL: none. */
static void describe_command(const struct cmd *cmd, const char *word)
{
	char place[96], *argv[] = { (char *)cmd->name, (char *)word, NULL };
	struct cli cli = { .cmd = cmd, .place = place, .show = program_describe_options };

	snprintf(place, sizeof(place), "deferred %s%s%s", cmd->name, word ? " " : "", word ? word : "");
	cmd->run(&cli, word ? 2 : 1, argv);
}

/* Of "ls, set and rm" each. */
static void describe_words(const struct cmd *cmd)
{
	char place[64], *list = strdup(cmd->words), *save = NULL;

	snprintf(place, sizeof(place), "deferred %s", cmd->name);
	for (char *w = list ? strtok_r(list, ", ", &save) : NULL; w; w = strtok_r(NULL, ", ", &save)) {
		if (strcmp(w, "and") == 0)
			continue;
		completion_word(place, w, "");
		describe_command(cmd, w);
	}
	free(list);
}

void cli_describe(const struct cmd *const *commands, size_t n, const struct program_option *options)
{
	program_describe_options("deferred", options);
	program_describe_options("deferred", cli_common);
	completion_word("deferred", "help", "print the help of a command, or open a manual page");
	for (size_t i = 0; i < n; i++) {
		completion_word("deferred", commands[i]->name, commands[i]->summary);
		completion_word("deferred help", commands[i]->name, "");
		if (commands[i]->words)
			describe_words(commands[i]);
		else
			describe_command(commands[i], NULL);
	}
}

/* Say what is wrong with the option for which program_getopt() has returned c. */
static void cli_bad_option(const struct cli *cli, int c, char **argv)
{
	const char *word = argv[optind - 1];
	bool is_long = word[0] == '-' && word[1] == '-';

	if (c == ':')
		cli_usage(cli, "option '%.64s' needs a value", word);
	else if (is_long && optopt && strchr(word, '='))
		cli_usage(cli, "option '%.*s' takes no value", (int)strcspn(word, "="), word);
	else /* of letters behind one dash optind counts the last only */
		cli_usage(cli, "option '%.64s' is unknown",
			  optopt && (is_long || word[0] != '-') ? argv[optind] : word);
}

/* --db: taken out of what ps shows if there is a password in it. */
static void cli_take_db(struct cli *cli, char *argument)
{
	static char *copy; /* of the last one */

	free(copy);
	cli->conninfo = argument;
	if (!(copy = strdup(argument)))
		return;
	cli->conninfo = copy;
	secret_hide_argument(argument);
}

/* --answer-timeout, --lock-timeout. False: it was reported. */
static bool cli_take_limit(struct cli *cli, int c, const char *text)
{
	int64_t ms;

	if (!cli_ms(cli, c == CLI_OPT_ANSWER_TIMEOUT ? "--answer-timeout" : "--lock-timeout", text, &ms))
		return false;
	*(c == CLI_OPT_ANSWER_TIMEOUT ? &cli->answer_ms : &cli->lock_ms) = ms > 0 ? ms : -1;
	return true;
}

static int next_option(struct cli *cli, int argc, char **argv, const struct program_option *own)
{
	int c;

	while ((c = program_getopt("deferred", argc, argv, cli->cmd ? ":h" : "+:h", own, cli_common)) != -1) {
		switch (c) {
		case CLI_OPT_DB:
			cli_take_db(cli, optarg);
			break;
		case CLI_OPT_CONFIG:
			cli->config_path = optarg;
			break;
		case CLI_OPT_ANSWER_TIMEOUT:
		case CLI_OPT_LOCK_TIMEOUT:
			if (!cli_take_limit(cli, c, optarg))
				return CLI_OPT_BAD;
			break;
		case CLI_OPT_SHARD:
			cli->shard = optarg;
			break;
		case CLI_OPT_ALL_SHARDS:
			cli->all_shards = true;
			break;
		case CLI_OPT_JSON:
			cli->json = true;
			break;
		case 'h':
		case CLI_OPT_HELP:
			if (cli->cmd)
				cli_help(cli->cmd);
			return CLI_OPT_HELP;
		case ':':
		case '?':
			cli_bad_option(cli, c, argv);
			return CLI_OPT_BAD;
		case PROGRAM_REFUSED:
			return CLI_OPT_BAD;
		default:
			return c;
		}
	}
	if (cli->cmd && cli->cmd->shards == SHARDS_NONE && (cli->conninfo || cli->shard || cli->all_shards)) {
		cli_misuse(cli, "leave the option out", "option '%s' has no effect on command '%s'",
			   cli->conninfo ? "--db"
			   : cli->shard  ? "--shard"
					 : "--all-shards",
			   cli->cmd->name);
		return CLI_OPT_BAD;
	}
	return CLI_OPT_DONE;
}

int cli_getopt(struct cli *cli, int argc, char **argv, const struct program_option *own)
{
	static const struct program_option none[] = { { 0 } };

	own = own ? own : none;
	if (cli->show) {
		cli->show(cli->place, own);
		if (cli->show == program_describe_options)
			cli->show(cli->place, cli_common);
		return CLI_OPT_HELP;
	}
	return next_option(cli, argc, argv, own);
}

/* As pg_set_limits() takes it. */
static int cli_limit(int64_t given, const struct config *config, const char *setting)
{
	int64_t ms = given ? given : config_int(config, setting);

	return ms < 0 ? 0 : ms < INT32_MAX ? (int)ms : INT32_MAX;
}

void cli_set_limits(const struct cli *cli, bool takes_long)
{
	pg_set_limits(cli->pg,
		      takes_long && !cli->answer_ms ? 0
						    : cli_limit(cli->answer_ms, cli->config, "database.answer_timeout"),
		      cli_limit(cli->lock_ms, cli->config, "database.lock_timeout"));
}

int cli_run_word(struct cli *cli, const struct cli_word *words, int argc, char **argv)
{
	int c;

	for (; cli->show && argc == 1 && words->name; words++) {
		cli->place = words->name;
		words->run(cli, 1, argv);
	}
	for (; argc > 1 && words->name; words++)
		if (strcmp(argv[1], words->name) == 0)
			return words->run(cli, argc - 1, argv + 1);
	if (argc > 1 && argv[1][0] == '-' && (c = cli_getopt(cli, argc, argv, NULL)) != CLI_OPT_DONE)
		return c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
	return cli->show ? EX_OK : cli_none_of(cli, argv[1], cli->cmd->words);
}

/* Of a command, or of one of its words, which place is then. */
static void print_options(const char *place, const struct program_option *options)
{
	if (!options->name)
		return;
	printf(*place ? "\nOptions of %s:\n" : "\nOptions:\n", place);
	program_print_options(options);
}

void cli_help(const struct cmd *cmd)
{
	struct cli cli = { .cmd = cmd, .place = "", .show = print_options };
	char *argv[] = { (char *)cmd->name, NULL };
	const char *line = cmd->usage;

	for (const char *begin = "usage:"; line; begin = "      ") {
		printf("%s deferred %s%s%.*s\n", begin, cmd->name, *line ? " " : "", (int)strcspn(line, "\n"), line);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	puts(cmd->summary);
	cmd->run(&cli, 1, argv);
	puts("\nOptions of all commands:");
	program_print_options(cli_common);
	printf("\nSee deferred-%s(1).\n", cmd->name);
}

int cli_open(struct cli *cli, struct deferred_error *err)
{
	int rc;

	pg_close(cli->pg);
	cli->pg = NULL;
	rc = pg_open(&cli->pg, cli_conninfo(cli), "deferred", err);
	if (rc < 0)
		return rc;
	/* Few statements are sent twice, and the query of a rule may have taken the name of one. */
	pg_set_unnamed(cli->pg);
	pg_set_transactions(cli->pg);
	cli_set_limits(cli, false);
	return pg_pin(cli->pg, err);
}

int cli_connect(struct cli *cli, bool check_schema)
{
	struct deferred_error err = { 0 };
	int rc = cli_config(cli);

	if (rc == 0)
		rc = cli_choose_shard(cli);
	if (rc != 0)
		return rc;
	if (cli_open(cli, &err) < 0)
		return cli_fail(cli, &err);
	if (!check_schema)
		return 0;
	return migrate_check(cli->pg, &err) < 0 ? cli_fail(cli, &err) : cli_check_shard(cli);
}

void cli_warn_unoffered(struct cli *cli, const char *fn)
{
	struct deferred_error err = { 0 };
	struct function_unoffered_row r;

	if (function_unoffered_one(cli->pg, fn, &r, &err) == 0 && r.unoffered)
		fprintf(stderr,
			"deferred: function '%.64s': no worker offers it\n"
			"hint: deferred functions lists those that workers offer\n",
			fn);
}

bool cli_int(const struct cli *cli, const char *what, const char *text, int64_t min, int64_t max, int64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	/* strtoll() would take blanks and a plus sign in front. */
	if (strchr(" \t\n\r\v\f+", text[0]) || *end || end == text || errno == ERANGE || *value < min || *value > max) {
		cli_bad_value(cli, NULL, what, text, "is not a whole number from %" PRId64 " to %" PRId64, min, max);
		return false;
	}
	return true;
}

bool cli_tag(const struct cli *cli, const char *tag, const char **tags, size_t *len)
{
	if (*len == CLI_TAGS_MAX) {
		cli_bad_value(cli, "use at most 32 tags", "--tag", tag, "is one tag more than %d", CLI_TAGS_MAX);
		return false;
	}
	tags[(*len)++] = tag;
	return true;
}

bool cli_has_unit(const struct cli *cli, const char *what, const char *text)
{
	if (!span_lacks_unit(text))
		return true;
	cli_bad_value(cli, SPAN_HINT, what, text, "has no unit");
	return false;
}

bool cli_moment(const struct cli *cli, const char *what, const char *text, int64_t *ago_ms, const char **moment)
{
	struct deferred_error err = { 0 };

	*moment = config_parse_ms(text, ago_ms, &err) < 0 ? text : NULL;
	if (*moment)
		*ago_ms = -1;
	if (*moment && span_is_calendar(text)) {
		cli_bad_value(cli, NULL, what, text, "%s", err.message);
		return false;
	}
	return cli_has_unit(cli, what, text);
}

bool cli_ms(const struct cli *cli, const char *what, const char *text, int64_t *ms)
{
	struct deferred_error err = { 0 };

	if (!cli_has_unit(cli, what, text))
		return false;
	if (config_parse_ms(text, ms, &err) < 0) {
		cli_bad_value(cli, NULL, what, text, "%s", err.message);
		return false;
	}
	return true;
}

int cli_fail_time(const struct cli *cli, const char *what, const char *text, const struct deferred_error *err)
{
	if (strncmp(err->sqlstate, "22", 2) != 0)
		return cli_fail(cli, err);
	return cli_bad_value(cli, "write how long ago, such as 10min, 2h or 30d, or a time such as '2026-01-31 14:30'",
			     what, text, "is not a time");
}

static const char *cli_read_params(const struct cli *cli, FILE *in, const char *name, char **given, int *rc)
{
	struct deferred_error err = { 0 };
	size_t cap = 0;
	ssize_t len;

	errno = 0;
	len = getdelim(given, &cap, '\0', in);
	if (len > 0 && !(*given)[len - 1]) {
		error_set(&err, DEFERRED_EINVAL, "params", "%s has a NUL byte", name);
	} else if (ferror(in) || (len < 0 && !feof(in))) {
		error_errno(&err, DEFERRED_ESYSTEM, "params", "cannot read %s", name);
	} else if (len < 0) {
		error_set(&err, DEFERRED_EINVAL, "params", "%s is empty", name);
		error_hint(&err, "a call without params is deferred without '-'");
	} else {
		while (len > 0 && strchr("\r\n", (*given)[len - 1]))
			(*given)[--len] = '\0';
		return *given;
	}
	free(*given);
	*given = NULL;
	*rc = cli_fail(cli, &err);
	return NULL;
}

const char *cli_params(const struct cli *cli, const char *argument, char **given, int *rc)
{
	*given = NULL;
	*rc = EX_OK;
	if (!argument || strcmp(argument, "-") != 0)
		return argument ? argument : "{}";
	return cli_read_params(cli, stdin, "standard input", given, rc);
}

const char *cli_params_of_file(const struct cli *cli, const char *path, char **given, int *rc)
{
	FILE *in = strcmp(path, "-") == 0 ? NULL : fopen(path, "re");
	const char *params;

	if (!in && strcmp(path, "-") != 0) {
		*rc = cli_no_input(cli, path, "correct the path, or pass - to read standard input");
		return NULL;
	}
	if (!in)
		return cli_params(cli, path, given, rc);
	params = cli_read_params(cli, in, "the file", given, rc);
	fclose(in);
	return params;
}

void cli_print_json_rows(const struct pg_result *res, size_t n)
{
	int col = pg_column(res, "json");

	putchar('[');
	for (size_t i = 0; i < n; i++)
		printf("%s%s", i ? ",\n " : "", pg_text(res, i, col, NULL));
	putchar(']');
}

void cli_print_json_array(const struct pg_result *res)
{
	cli_print_json_rows(res, pg_rows(res));
}

bool cli_only_limit(struct cli *cli, int argc, char **argv, const struct program_option *options, const char *usage,
		    int64_t most, int64_t *limit, int *rc)
{
	int c;

	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		*rc = c == CLI_OPT_HELP ? EX_OK : EX_USAGE;
		if (c != 'l' || !cli_int(cli, "--limit", optarg, 1, most, limit))
			return false;
	}
	*rc = EX_USAGE;
	return cli_arguments(cli, argc, argv, usage);
}

int cli_list(const struct cli *cli, struct pg_result *res, void (*print)(const struct pg_result *res))
{
	if (cli->json) {
		cli_print_json_array(res);
		putchar('\n');
	} else {
		print(res);
	}
	pg_result_free(res);
	return EX_OK;
}

void cli_print_columns(const struct pg_result *res, const char *const *headers, int cols, const char *things)
{
	struct table t;

	table_begin(&t, headers, cols);
	for (size_t i = 0; i < pg_rows(res); i++)
		for (int c = 0; c < cols; c++)
			table_cell(&t, "%s", pg_text(res, i, c, NULL));
	table_end_list(&t, things);
}

int cli_each_id(struct cli *cli, int argc, char **argv, const char *done,
		int (*f)(struct pg *pg, int64_t id, struct deferred_error *err))
{
	int exit_code = EX_OK, rc;
	int64_t id;

	if (optind == argc)
		return cli_misuse(cli, "give ids, such as 17 18, or a filter, such as --fn send_mail",
				  "job ids or a filter are missing");
	for (int i = optind; i < argc; i++) {
		if (!cli_int(cli, "job id", argv[i], 1, INT64_MAX, &id))
			return EX_USAGE;
		if ((rc = cli_shard_of(cli, id)) != 0)
			return rc;
	}
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	if (cli->json)
		putchar('[');
	for (int i = optind; i < argc && !pg_broken(cli->pg); i++) {
		struct deferred_error err = { 0 };

		id = strtoll(argv[i], NULL, 10);
		rc = f(cli->pg, id, &err);
		if (cli->json)
			printf("%s{\"id\": %" PRId64 ", \"%s\": %s}", i == optind ? "" : ",\n ", id, done,
			       rc == 0 ? "true" : "false");
		else if (rc == 0)
			printf("%" PRId64 " %s\n", id, done);
		if (rc < 0) {
			rc = cli_fail(cli, &err);
			exit_code = exit_code == EX_OK ? rc : exit_code;
		}
	}
	if (cli->json)
		puts("]");
	return exit_code;
}
