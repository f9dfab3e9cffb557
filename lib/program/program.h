/* SPDX-License-Identifier: MIT */
/*
 * program - the beginning that check_deferred and deferred_http share: options that are settings by another name,
 * complaints in the log, the three standard descriptors.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "port/config.h"
#include "base/error.h"

#include <getopt.h>
#include <stddef.h>

#define PROGRAM_OPTIONS_MAX 32

/* The parser, --help and the completions of shells read the same table. A table ends with a zero element. */
struct program_option {
	const char *name;         /* without "--" */
	const char *arg;          /* what --help calls the value; FILE and DIR complete as such; NULL: a flag */
	const char *text;         /* for --help */
	int code;                 /* what getopt_long() returns; 0: its place in the table */
	const char *def;          /* default; NULL: none, or that of the setting */
	const char *const *words; /* values, ends with NULL; NULL: anything, or the choices of the setting */
	const char *setting;      /* of config_table.c; NULL: none */
	bool empty;               /* the empty text is a value, such as "none" */
};

/*
 * getopt_long() for both tables, with letters that contain ":". It refuses abbreviations, since a new option would
 * break the scripts that use one. It refuses an empty value, which is often a shell variable that is not set. Then it
 * has printed why, and returns PROGRAM_REFUSED.
 */
#define PROGRAM_REFUSED (-2)
int program_getopt(const char *program, int argc, char **argv, const char *letters, const struct program_option *own,
		   const struct program_option *more);

/* Print one line for each option, at most 80 columns wide if the text is short enough. */
void program_print_options(const struct program_option *options);

/* The same for completions: place is as in completion.h. */
void program_describe_options(const char *place, const struct program_option *options);

/* For --version. bin/version.sh writes the file, and only programs are linked with it. */
extern const char program_version[];

struct program {
	const char *name;
	const char *about;                    /* one sentence for --help */
	const char *manual;                   /* page (section) */
	const char *version;                  /* program_version */
	const struct program_option *options; /* at most PROGRAM_OPTIONS_MAX, each with a setting */
	const char
		*list; /* the option that may be repeated and makes a list; of others the last one counts. NULL: none */
};

/* The options of the command line. They live as long as the program, because reading the settings again applies them
 * again. */
struct program_line {
	const struct program *program;
	char *given[PROGRAM_OPTIONS_MAX]; /* values in the order of the options; NULL: not given */
	const char *config_path;          /* NULL: the usual file */
};

/*
 * Read the command line; --help and --version answer by themselves. Returns -1 to go on, else the exit code to leave
 * with.
 * Either way `line` is to be freed.
 */
int program_read_line(struct program_line *line, const struct program *program, int argc, char **argv);
void program_free_line(struct program_line *line);

/* Config file and environment, then the options. Returns 0, or an exit code with err. *config is to be freed either
 * way. */
int program_load_config(const struct program_line *line, struct config **config, struct deferred_error *err);

/* Log what went wrong, and its remedy. Returns exit_code. */
int program_complain(const struct deferred_error *err, int exit_code);

/* Log lines of the level that the settings say, and what is more important. */
void program_set_log_level(const struct config *config);

/* First of all: cron, or a careless script, may start us with a standard descriptor closed, and a socket would get its
 * number. */
void program_open_descriptors(void);

/* Our memory holds passwords and keys. No core of it is written. Other processes of our user, such as functions, can
 * neither read it nor take our descriptors. */
void program_keep_secrets(void);

#endif
