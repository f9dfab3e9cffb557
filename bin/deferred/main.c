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
	&cmd_migrate,  &cmd_add,      &cmd_ls,        &cmd_show,     &cmd_cancel,  &cmd_retry, &cmd_update,
	&cmd_wait,     &cmd_run,      &cmd_rule,      &cmd_purge,    &cmd_status,  &cmd_top,   &cmd_why,
	&cmd_queue,    &cmd_function, &cmd_functions, &cmd_doctor,   &cmd_account, &cmd_fold,  &cmd_metrics,
	&cmd_schedule, &cmd_alert,    &cmd_flow,      &cmd_simulate, &cmd_advise,  &cmd_shard, &cmd_graph,
	&cmd_index,    &cmd_spans,    &cmd_event,     &cmd_token,    &cmd_replay,  &cmd_spool,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct program_option options[] = { { "version", NULL, "print the version", CLI_OPT_VERSION }, { 0 } };

/* Manual pages that are not about a command. */
static const struct topic {
	const char *page, *section, *word, *about;
} topics[] = {
	{ "deferred", "7", "overview", "jobs, queues, workers, roles" },
	{ "deferred", "1", "options", "this program: options, filters, exit codes" },
	{ "check_deferred", "1", "worker", "the worker that cron starts" },
	{ "deferred_functions", "7", "plugins", "functions that come with deferred" },
	{ "deferred_program", "7", "program", "functions in any language: the protocol" },
	{ "deferred_sql", "3", "sql", "functions and views in SQL" },
	{ "deferred", "3", "c", "the C library" },
	{ "deferred.conf", "5", "config", "settings" },
	{ "deferred_http", "8", "http", "queues over HTTP" },
	{ "deferred_web", "8", "web", "pages for operators" },
};
#define TOPICS (sizeof(topics) / sizeof(topics[0]))

static void print_usage(FILE *fp)
{
	fputs("usage: deferred [OPTION...] COMMAND [ARGUMENT...]\n"
	      "       deferred help [TOPIC]\n\nCommands:\n",
	      fp);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(fp, "  %-9s  %s\n", commands[i]->name, commands[i]->summary);
}

static void print_topics(FILE *fp)
{
	for (size_t i = 0; i < TOPICS; i++)
		fprintf(fp, "  %s(%s)%*s%-8s  %s\n", topics[i].page, topics[i].section,
			(int)(20 - strlen(topics[i].page)), "", topics[i].word, topics[i].about);
}

static void main_print_help(void)
{
	print_usage(stdout);
	puts("\nOptions, before or after the command:");
	program_print_options(cli_common);
	program_print_options(options);
	puts("\nTopics of 'deferred help TOPIC', besides commands: a page, or its short name");
	print_topics(stdout);
}

static const struct cmd *main_find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* "sql", "deferred_sql" or "deferred_sql(3)". */
static const struct topic *find_topic(const char *word)
{
	for (size_t i = 0; i < TOPICS; i++) {
		char full[32];

		snprintf(full, sizeof(full), "%s(%s)", topics[i].page, topics[i].section);
		if (strcmp(word, topics[i].word) == 0 || strcmp(word, topics[i].page) == 0 || strcmp(word, full) == 0)
			return &topics[i];
	}
	return NULL;
}

/* A command's help, a page of the manual, or, word NULL, the help of the program. */
static int help(const char *word)
{
	const struct cmd *cmd = word ? main_find_command(word) : NULL;
	const struct topic *topic = word ? find_topic(word) : NULL;

	if (!word) {
		main_print_help();
	} else if (cmd) {
		cli_help(cmd);
	} else if (topic) {
		execlp("man", "man", topic->section, topic->page, (char *)NULL);
		cli_say("apt install man-db", "man: cannot be started (%s)", strerror(errno));
		return EX_UNAVAILABLE;
	} else {
		fprintf(stderr, "deferred: topic '%.64s' is unknown\nhint: name one of these commands or pages:", word);
		for (size_t i = 0; i < COMMANDS; i++)
			fprintf(stderr, "%s%s", i % 8 ? " " : "\n  ", commands[i]->name);
		fputs("\n", stderr);
		print_topics(stderr);
		return EX_USAGE;
	}
	return EX_OK;
}

/* Standard output may be a full disk: an answer that did not arrive is no success. */
static int close_output(const struct cli *cli, int exit_code)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return exit_code;
	cli_say(CLI_UNWRITTEN_HINT, "cannot write the answer: %s%s%s", errno ? strerror(errno) : "output error",
		cli->stored[0] ? "; " : "", cli->stored);
	return exit_code ? exit_code : EX_IOERR;
}

/* A closed standard descriptor is opened, read-only on /dev/null. Otherwise the first connection would get its number,
 * and our output. */
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
	int c, exit_code;

	hold_descriptors();
	if (completion_asked(argc, argv)) {
		cli_describe(commands, COMMANDS, options);
		for (size_t i = 0; i < TOPICS; i++)
			completion_word("deferred help", topics[i].word, topics[i].about);
		return close_output(&cli, EX_OK);
	}
	c = cli_getopt(&cli, argc, argv, options);
	if (c == CLI_OPT_HELP)
		return close_output(&cli, help(NULL));
	if (c == CLI_OPT_VERSION) {
		printf("deferred %s\n", program_version);
		return close_output(&cli, EX_OK);
	}
	if (c == CLI_OPT_BAD)
		return EX_USAGE;
	if (optind == argc) {
		print_usage(stderr);
		return EX_USAGE;
	}
	if (strcmp(argv[optind], "help") == 0)
		return close_output(&cli, help(argv[optind + 1]));
	cli.cmd = main_find_command(argv[optind]);
	if (!cli.cmd)
		return cli_usage(&cli, "command '%.64s' is unknown", argv[optind]);
	cli.role = cli.cmd->role;
	argc -= optind;
	argv += optind;
	optind = 0; /* glibc: start again, with the command in the place of the program */
	exit_code = cli.cmd->run(&cli, argc, argv);
	pg_close(cli.pg);
	config_free(cli.config);
	return close_output(&cli, exit_code);
}
