/* SPDX-License-Identifier: MIT */
/*
 * Tokens of the JSON API. A token is printed when it is made. The database stores only its SHA-256. deferred_http finds
 * the token of a request with deferred.__token_find(). It checks queues and functions with deferred.__token_allows().
 */
#include "cmd.h"

#include "program/account_key.h"
#include "rows/token.h"
#include "store/admin.h"

#include <stdio.h>
#include <string.h>

static void token_print(struct cli *cli, const char *name, struct account_token *token)
{
	snprintf(cli->stored, sizeof(cli->stored), "make it again: deferred token rotate %.57s", name);
	printf(cli->json ? "{\"token\": \"%s\", \"secret\": \"%s\"}\n" : "token:  %s\nsecret: %s\n", name, token->text);
	explicit_bzero(token, sizeof(*token));
}

enum { OPT_FUNCTIONS = 1, OPT_QUEUES, OPT_MAY, OPT_EXPIRES, OPT_GRACE };

struct token_line {
	const char *functions, *queues, *may;
	int64_t expires_ms, grace_ms; /* expires_ms 0: not given */
};

/* False: the word ends with *rc. */
static bool token_read_line(struct cli *cli, int argc, char **argv, const struct program_option *options,
			    struct token_line *line, int *rc)
{
	int c;

	*rc = EX_USAGE;
	while ((c = cli_getopt(cli, argc, argv, options)) != CLI_OPT_DONE) {
		if (c == CLI_OPT_HELP)
			*rc = EX_OK;
		if (c == CLI_OPT_HELP || c == CLI_OPT_BAD ||
		    (c == OPT_EXPIRES && !cli_ms(cli, "--expires", optarg, &line->expires_ms)) ||
		    (c == OPT_GRACE && !cli_ms(cli, "--grace", optarg, &line->grace_ms)))
			return false;
		if (c == OPT_EXPIRES && line->expires_ms == 0) {
			cli_bad_value(cli, "leave it out for a token without end", "--expires", optarg,
				      "is not a span");
			return false;
		}
		if (c == OPT_FUNCTIONS)
			line->functions = optarg;
		else if (c == OPT_QUEUES)
			line->queues = optarg;
		else if (c == OPT_MAY)
			line->may = optarg;
	}
	return cli_arguments(cli, argc, argv, "NAME") && (*rc = cli_connect(cli, true)) == EX_OK;
}

static int token_add(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "functions", "FN,...", "functions of its jobs; default: any", OPT_FUNCTIONS },
		{ "queues", "QUEUE,...", "queues of its jobs; default: any", OPT_QUEUES },
		{ "may", "RIGHT,...", "defer, read, control, work", OPT_MAY, "defer" },
		{ "expires", "SPAN", "end the token after this time; default: never", OPT_EXPIRES },
		{ 0 },
	};
	struct token_line line = { .may = "defer" };
	struct deferred_error err = { 0 };
	struct account_token token;
	int rc;

	if (!token_read_line(cli, argc, argv, options, &line, &rc))
		return rc;
	rc = account_key_token(&token, &err);
	if (rc == 0)
		rc = token_add_exec(cli->pg, argv[optind], token.sha256, sizeof(token.sha256), line.may, line.functions,
				    line.queues, line.expires_ms ? &line.expires_ms : NULL, store_admin_user(), &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	token_print(cli, argv[optind], &token);
	return EX_OK;
}

static int token_rotate(struct cli *cli, int argc, char **argv)
{
	static const struct program_option options[] = {
		{ "grace", "SPAN", "keep the present token valid for this time", OPT_GRACE, "0" },
		{ "expires", "SPAN", "end the token after this time; default: as before", OPT_EXPIRES },
		{ 0 },
	};
	struct token_line line = { 0 };
	struct deferred_error err = { 0 };
	struct account_token token;
	int rc;

	if (!token_read_line(cli, argc, argv, options, &line, &rc))
		return rc;
	rc = account_key_token(&token, &err);
	if (rc == 0)
		rc = token_rotate_exec(cli->pg, argv[optind], token.sha256, sizeof(token.sha256), line.grace_ms,
				       line.expires_ms ? &line.expires_ms : NULL, store_admin_user(), &err);
	if (rc < 0)
		return cli_fail(cli, &err);
	token_print(cli, argv[optind], &token);
	return EX_OK;
}

static int token_rm(struct cli *cli, int argc, char **argv)
{
	struct token_line line = { 0 };
	struct deferred_error err = { 0 };
	int rc;

	if (!token_read_line(cli, argc, argv, NULL, &line, &rc))
		return rc;
	if (token_rm_exec(cli->pg, argv[optind], store_admin_user(), &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		printf("{\"token\": \"%s\", \"removed\": true}\n", argv[optind]);
	return EX_OK;
}

static void print_tokens(const struct pg_result *res)
{
	static const char *const headers[] = { "TOKEN", "MAY", "FUNCTIONS", "QUEUES", "EXPIRES" };

	cli_print_columns(res, headers, 5, "tokens");
}

static int token_ls(struct cli *cli, int argc, char **argv)
{
	struct deferred_error err = { 0 };
	struct pg_result *res;
	int rc;

	if (!cli_no_words(cli, argc, argv, &rc))
		return rc;
	cli->role = "deferred_viewer";
	if ((rc = cli_connect(cli, true)) != 0)
		return rc;
	if (token_ls_exec(cli->pg, &res, &err) < 0)
		return cli_fail(cli, &err);
	return cli_list(cli, res, print_tokens);
}

static int cmd_token_run(struct cli *cli, int argc, char **argv)
{
	static const struct cli_word words[] = {
		{ "add", token_add }, { "ls", token_ls }, { "rotate", token_rotate }, { "rm", token_rm }, { 0 },
	};

	return cli_run_word(cli, words, argc, argv);
}

const struct cmd cmd_token = {
	"token",
	"add NAME [OPTION...]\n"
	"ls\n"
	"rotate NAME [OPTION...]\n"
	"rm NAME",
	"manage tokens of the JSON API",
	cmd_token_run,
	"deferred_owner",
	"add, ls, rotate and rm",
};
