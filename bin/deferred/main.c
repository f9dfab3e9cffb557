/* SPDX-License-Identifier: MIT */
/* deferred - the command of administrators: main finds the command, cmd_NAME.c does it. */
#include "cmd.h"

#include "program/completion.h"
#include "program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cmd *const commands[] = {
	&cmd_migrate, &cmd_add, &cmd_ls, &cmd_show, &cmd_cancel, &cmd_retry, &cmd_run, &cmd_rule, &cmd_purge, &cmd_status, &cmd_top, &cmd_why,
	&cmd_queue, &cmd_function, &cmd_functions, &cmd_doctor, &cmd_account, &cmd_fold, &cmd_metrics, &cmd_schedule, &cmd_alert, &cmd_flow, &cmd_history,
	&cmd_simulate, &cmd_advise, &cmd_shard, &cmd_graph, &cmd_index, &cmd_spans,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct option options[] = {
	{ "db", required_argument, NULL, CLI_OPT_DB },         { "config", required_argument, NULL, CLI_OPT_CONFIG },
	{ "answer-timeout", required_argument, NULL, CLI_OPT_ANSWER_TIMEOUT }, { "lock-timeout", required_argument, NULL, CLI_OPT_LOCK_TIMEOUT },
	{ "shard", required_argument, NULL, CLI_OPT_SHARD },   { "all-shards", no_argument, NULL, CLI_OPT_ALL_SHARDS },
	{ "json", no_argument, NULL, CLI_OPT_JSON },           { "help", no_argument, NULL, CLI_OPT_HELP },
	{ "version", no_argument, NULL, CLI_OPT_VERSION },     { 0 }
};

static void print_usage(FILE *fp)
{
	fputs("usage: deferred [--db CONNINFO] [--config FILE] [--json] [--answer-timeout SPAN] [--lock-timeout SPAN]\n"
	      "                [--shard NAME | --all-shards] COMMAND [ARGUMENT...]\n"
	      "       deferred help [COMMAND]\n"
	      "       deferred --version\n\n", fp);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(fp, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\n\"deferred COMMAND --help\" shows the arguments of a command; all is explained in deferred(1).\n", fp);
}

static const struct cmd *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* A command's, or, word NULL, the program's. */
static int help(struct cli *cli, const char *word)
{
	const struct cmd *cmd = word ? find_command(word) : NULL;

	if (word && !cmd)
		return cli_usage(cli, "unknown command \"%.64s\"", word);
	if (cmd)
		cli_help(cmd);
	else
		print_usage(stdout);
	return EX_OK;
}

/* Standard output may be a full disk: an answer that did not arrive is no success. */
static int close_output(const struct cli *cli, int exit_code)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return exit_code;
	fprintf(stderr, "deferred: cannot write the answer: %s%s%s\n", errno ? strerror(errno) : "output error", cli->stored[0] ? "; " : "", cli->stored);
	return exit_code ? exit_code : EX_IOERR;
}

/* What is closed is held, by what cannot be written to: else the first connection would get its number, and the answer. */
static void hold_descriptors(void)
{
	int fd;

	while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO)
		;
	if (fd > STDERR_FILENO)
		close(fd);
}

int main(int argc, char **argv)
{
	struct cli cli = { 0 };
	const char *meant;
	int c, exit_code;

	hold_descriptors();
	if (completion_asked(argc, argv)) {
		cli_describe(commands, COMMANDS, options);
		return close_output(&cli, EX_OK);
	}
	opterr = 0;
	while ((c = program_getopt(argc, argv, "+:h", options, &meant)) != -1) {
		switch (c) {
		case CLI_OPT_DB:
			cli_take_db(&cli, optarg);
			break;
		case CLI_OPT_CONFIG:
			cli.config_path = optarg;
			break;
		case CLI_OPT_ANSWER_TIMEOUT:
		case CLI_OPT_LOCK_TIMEOUT:
			if (!cli_take_limit(&cli, c, optarg))
				return EX_USAGE;
			break;
		case CLI_OPT_SHARD:
			cli.shard = optarg;
			break;
		case CLI_OPT_ALL_SHARDS:
			cli.all_shards = true;
			break;
		case CLI_OPT_JSON:
			cli.json = true;
			break;
		case 'h':
		case CLI_OPT_HELP:
			return close_output(&cli, help(&cli, NULL));
		case CLI_OPT_VERSION:
			puts("deferred " DEFERRED_VERSION);
			return close_output(&cli, EX_OK);
		default:
			return cli_bad_option(&cli, c, argv, meant);
		}
	}
	if (optind == argc) {
		print_usage(stderr);
		return EX_USAGE;
	}
	if (strcmp(argv[optind], "help") == 0)
		return close_output(&cli, help(&cli, argv[optind + 1]));
	cli.cmd = find_command(argv[optind]);
	if (!cli.cmd)
		return cli_usage(&cli, "unknown command \"%.64s\"", argv[optind]);
	cli.role = cli.cmd->role;
	argc -= optind;
	argv += optind;
	optind = 0; /* glibc: start anew, with the command in the place of the program */
	exit_code = cli.cmd->run(&cli, argc, argv);
	pg_close(cli.pg);
	config_free(cli.config);
	return close_output(&cli, exit_code);
}
