/* SPDX-License-Identifier: MIT */
/*
 * cmd - the common part of the commands of `deferred`. A command is a descriptor in a file of its own, listed by
 * main.c. It reads its options with cli_getopt(), connects with cli_connect() and writes its answer to standard output.
 * It returns the exit code: EX_OK, the result of cli_fail(), or CLI_NOT_DONE.
 */
#ifndef CMD_H
#define CMD_H

#include "port/config.h"
#include "port/pg.h"
#include "program/program.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sysexits.h>

/* The request could not be carried out: no such job, or the job is running. */
#define CLI_NOT_DONE 1

/* The job is not stored, but kept in the spool. */
#define CLI_SPOOLED 9

/* Looking at things takes no longer than that. */
#define CLI_LOOK_MS 5000
#define CLI_SHARD_READY_MAX 10000 /* jobs of a shard are counted up to this */

struct cmd;

struct cli {
	const struct cmd *cmd;
	const char *role;     /* whose rights it takes; NULL: none */
	const char *conninfo; /* --db; NULL: not given */
	const char *config_path;
	const char *shard; /* --shard; NULL: not given */
	bool all_shards;   /* --all-shards */
	bool json;
	struct config *config;
	int64_t answer_ms, lock_ms; /* --answer-timeout, --lock-timeout; 0: not given, -1: no limit */
	struct pg *pg;
	char stored[96];   /* what was done though the answer may not arrive */
	const char *place; /* of the options that are shown: for completions, or the word of the command */
	/* Show the options instead of reading them. NULL: read them. */
	void (*show)(const char *place, const struct program_option *options);
};

struct cmd {
	const char *name;
	const char *usage;   /* what follows the name; several forms are separated by newlines */
	const char *summary; /* one line, as in its manual page */
	int (*run)(struct cli *cli, int argc, char **argv);
	const char *role;  /* as in struct cli */
	const char *words; /* its first argument is one of these, for people: "ls, set and rm"; NULL: it is anything */
	enum {
		SHARDS_ON_REQUEST,
		SHARDS_ALL,
		SHARDS_ONE,
		SHARDS_NONE
	} shards; /* asked of all of them with --all-shards; anyway; never; the command takes no database */
};

extern const struct cmd cmd_account, cmd_add, cmd_advise, cmd_alert, cmd_cancel, cmd_doctor, cmd_event, cmd_flow,
	cmd_fold, cmd_function, cmd_functions, cmd_graph, cmd_index, cmd_ls, cmd_metrics, cmd_migrate, cmd_purge,
	cmd_queue, cmd_replay, cmd_retry, cmd_rule, cmd_run, cmd_show, cmd_simulate, cmd_spans, cmd_spool, cmd_status,
	cmd_token, cmd_top, cmd_update, cmd_wait, cmd_why, cmd_schedule, cmd_shard;

/* The results of cli_getopt() besides the codes of the command's own options. */
enum {
	CLI_OPT_DONE = -1,
	CLI_OPT_HELP = 1000,
	CLI_OPT_DB,
	CLI_OPT_CONFIG,
	CLI_OPT_JSON,
	CLI_OPT_VERSION,
	CLI_OPT_BAD,
	CLI_OPT_ANSWER_TIMEOUT,
	CLI_OPT_LOCK_TIMEOUT,
	CLI_OPT_SHARD,
	CLI_OPT_ALL_SHARDS
};

/* The options that every command has. */
extern const struct program_option cli_common[];

/*
 * Next option of the command; the global ones are dealt with inside. own ends with a zero element, at most 30
 * of them. CLI_OPT_DONE: argv[optind] is the first argument. CLI_OPT_BAD: it was reported, return EX_USAGE.
 * CLI_OPT_HELP: it was printed, return EX_OK.
 */
int cli_getopt(struct cli *cli, int argc, char **argv, const struct program_option *own);

/* For a command without options of its own. False: return *code. */
bool cli_no_options(struct cli *cli, int argc, char **argv, int *code);

/* The same for a command without arguments, too. */
bool cli_no_words(struct cli *cli, int argc, char **argv, int *code);

/* Print all that completions are made of. options: those of the program, ends with a zero element. */
void cli_describe(const struct cmd *const *commands, size_t n, const struct program_option *options);

/*
 * Checks the arguments against their names, such as "NAME FUNCTION [PARAMS]" or "ID...". False: it was reported that
 * one is missing or is not expected; return EX_USAGE.
 */
bool cli_arguments(const struct cli *cli, int argc, char **argv, const char *names);

/* words ends with NULL. */
bool cli_is_one_of(const char *word, const char *const *words);

#define CLI_UNWRITTEN_HINT "free space where the answer goes, or write it elsewhere"

/* Report on standard error what went wrong, and behind "hint:" what to do. */
void cli_say(const char *hint, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Report wrong usage of the command, or of the program where there is none yet; returns EX_USAGE. If hint is NULL, it
 * names the help of the command. */
int cli_misuse(const struct cli *cli, const char *hint, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define cli_usage(cli, ...) cli_misuse(cli, NULL, __VA_ARGS__)

/* The same for a value of `what`, an option such as --limit or an argument such as "job id". hint may be NULL. */
int cli_bad_value(const struct cli *cli, const char *hint, const char *what, const char *value, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* The same of a word that is none of `words`, "" or NULL: is missing. */
int cli_none_of(const struct cli *cli, const char *word, const char *words);

/* A word of a command that has several, and what does it. */
struct cli_word {
	const char *name; /* NULL: the end of a list */
	int (*run)(struct cli *cli, int argc, char **argv);
};

/* Runs the one that the first argument names, with the arguments from it on; complains if it names none. Result: exit
 * code. */
int cli_run_word(struct cli *cli, const struct cli_word *words, int argc, char **argv);

/* Print how the command is used. */
void cli_help(const struct cmd *cmd);

/* Report, with errno, that a file cannot be opened; returns EX_NOINPUT. */
int cli_no_input(const struct cli *cli, const char *path, const char *hint);

/* Report an error, and to a role that lacks the rights what to ask for; returns the exit code that goes with it. */
int cli_fail(const struct cli *cli, const struct deferred_error *err);

/* The settings. Returns 0 or the exit code, the error having been reported. */
int cli_config(struct cli *cli);

/* The connection in cli->pg. check_schema: refuse a schema this program does not know. Returns as cli_config(). */
int cli_connect(struct cli *cli, bool check_schema);

/* The same without settings and checks, instead of the connection that there is. An error is not reported. */
int cli_open(struct cli *cli, struct deferred_error *err);

/*
 * Warns on stderr when workers are known and none of them offers the function. Call it after cli_connect(). A role that
 * may not read the functions of workers gets no warning.
 */
void cli_warn_unoffered(struct cli *cli, const char *fn);

/*
 * cli_shard.c: which of several databases a command is for, where the config file has shards and no other connection is
 * given.
 *
 * cli_connect() calls cli_choose_shard() with the settings read. With --all-shards, and for commands about all shards,
 * a child process for each shard continues, one after the other. Their answers become one, and the parent ends there.
 * Returns 0 or the exit code. cli_use_shard(): use the shard of this name from here on. Returns as cli_config().
 * cli_start_child(): start a process for that shard. Returns its pid, with *fd to read from; 0 in the child, with *fd
 * to write to; -1 after a reported error. Then cli_end_child(): read all that the child writes, until it ends. The
 * caller frees *text, which ends with a NUL; NULL: nothing was written. Returns its exit code. cli_shard_of(): the
 * command is about that job, so it uses the shard of the job if none is named. Call it before cli_connect().
 * cli_check_shard(): check that the database is the one in the config file.
 */
int cli_choose_shard(struct cli *cli);
int cli_use_shard(struct cli *cli, const char *name);
pid_t cli_start_child(const char *shard, int *fd);
int cli_end_child(pid_t pid, int fd, char **text, size_t *len);
int cli_shard_of(struct cli *cli, int64_t id);
int cli_check_shard(struct cli *cli);

/* Set the time limits of the server as cli_connect() does. With takes_long, only a limit on the command line applies to
 * the following statements. */
void cli_set_limits(const struct cli *cli, bool takes_long);

/* The connection string to use, NULL: what libpq's environment says. After cli_config(). */
const char *cli_conninfo(const struct cli *cli);

/* Read an argument: a whole number in [min, max], a job id, a time span. False: it was reported, return EX_USAGE. */
bool cli_int(const struct cli *cli, const char *what, const char *text, int64_t min, int64_t max, int64_t *value);
bool cli_ms(const struct cli *cli, const char *what, const char *text, int64_t *ms);
/* A number without a unit could mean anything. */
bool cli_has_unit(const struct cli *cli, const char *what, const char *text);
/* A span, so long ago: *moment is NULL; else *ago_ms is -1, and *moment a timestamp for the database to read. */
bool cli_moment(const struct cli *cli, const char *what, const char *text, int64_t *ago_ms, const char **moment);

/* Report the database's error about a time that is no span. Returns the exit code: that of a wrong option if the time
 * is wrong. */
int cli_fail_time(const struct cli *cli, const char *what, const char *text, const struct deferred_error *err);

/* Add one --tag to a list of *len, which has room for CLI_TAGS_MAX. False: the list is full, which was reported. */
#define CLI_TAGS_MAX 32
bool cli_tag(const struct cli *cli, const char *tag, const char **tags, size_t *len);

/*
 * The params of a command: NULL is {}, "-" is standard input without line ends at its end. If they were read, *given is
 * set, and the caller frees it. NULL: it failed and was reported, *rc is the exit code.
 */
const char *cli_params(const struct cli *cli, const char *argument, char **given, int *rc);

/* The same of a file, or with "-" of standard input. *given is NULL and *rc is EX_OK before. */
const char *cli_params_of_file(const struct cli *cli, const char *path, char **given, int *rc);

/* Print the values of a column, each JSON, as one JSON array without newline. */
void cli_print_json_array(const struct pg_result *res);          /* of its column json */
void cli_print_json_rows(const struct pg_result *res, size_t n); /* the same of the first n rows */

/* Read a command line of option --limit, 'l', and arguments as cli_arguments() takes them. False: end with *rc. */
bool cli_only_limit(struct cli *cli, int argc, char **argv, const struct program_option *options, const char *usage,
		    int64_t most, int64_t *limit, int *rc);

/* Print a list, as JSON of its column json or by print, and free it. Returns EX_OK. */
int cli_list(const struct cli *cli, struct pg_result *res, void (*print)(const struct pg_result *res));

/* The first columns as they are. Each has a header; things: as table_end_list(). */
void cli_print_columns(const struct pg_result *res, const char *const *headers, int cols, const char *things);

/* With the setting spool, the first one stores entries of the spool of this host, and only reports errors. The other
 * one prints how many entries there are, as a line or a member of JSON. */
void cli_spool_drain(struct cli *cli);
void cli_spool_status(struct cli *cli);

/* Call f for each id among the arguments from optind on: cancel and retry without a filter. The options were read.
 * `done` is the JSON key and the word that says it worked. */
int cli_each_id(struct cli *cli, int argc, char **argv, const char *done,
		int (*f)(struct pg *pg, int64_t id, struct deferred_error *err));

#endif
