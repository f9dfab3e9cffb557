/* SPDX-License-Identifier: MIT */
/*
 * config - settings: one table (config_table.c), one place to look them up.
 *
 * Precedence: command-line option, environment (DEFERRED_ and the name in capitals, "." as "_"),
 * config file, default. A value is checked against type and range wherever it comes from; the error
 * names the place.
 *
 * Names are those of the file; a member of a section is "section.member" ("mail.host").
 */
#ifndef CONFIG_H
#define CONFIG_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum config_type {
	CONFIG_TEXT,
	CONFIG_INT,
	CONFIG_REAL,
	CONFIG_FLAG,  /* 1/0, true/false, yes/no, on/off */
	CONFIG_MS,    /* time span (base/span.h) */
	CONFIG_BYTES, /* size: 512 64k 10m 1g (powers of 1024) */
	CONFIG_RANGE, /* whole number, or two of them: 4, 1..16 */
	CONFIG_CHOICE /* one of the words in `choices` */
};

struct config_setting {
	const char *name;
	enum config_type type;
	const char *def;     /* default as text; NULL: none */
	double min, max;     /* of the number in the base unit; both 0: no limit */
	const char *choices; /* "a|b|c" */
	const char *env;     /* NULL: derived from name; "": none */
	const char *what;    /* one sentence */
};
extern const struct config_setting config_settings[]; /* ends with name == NULL */

struct config;

/* A function that is a command, section `function "NAME" { command = {...} ... }`, or one of a program, section
 * `function "NAME" { program = "PROGRAM" ... }`. */
struct config_command {
	const char *name;
	const char *const *argv;      /* ends with NULL; argv[0] is an absolute path; of the program, if there is one */
	const char *program;          /* NULL: it is a command */
	int64_t timeout_ms;           /* 0: default */
	int32_t max_attempts;         /* 0: default */
	int32_t batch, batch_wait_ms; /* jobs that it takes at once, and how long a job waits for others; 0: one */
	bool new_privileges;          /* setuid programs gain rights in it */
	bool progress_resets;         /* an attempt that saved a new step does not count */
};

/* A process that executes many jobs: section `program "NAME" { command = {...} ... }`. */
#define CONFIG_PROGRAMS_MAX 32
struct config_program {
	const char *name;
	const char *const *argv;  /* as above */
	const char *const *watch; /* ends with NULL: absolute paths */
	const char *directory;    /* NULL: that of commands */
	int64_t max_jobs;         /* of one process; 0: no limit; -1: not set */
	int64_t max_memory;       /* bytes after a job; 0: no limit */
	int64_t start_timeout_ms;
	int64_t timeout_ms;   /* of functions that announce none; 0: default */
	int32_t max_attempts; /* the same */
	bool declared; /* some section `function` names it: it offers those functions, and is started when called */
};

/*
 * Read the config file and the environment. path NULL: DEFERRED_CONFIG, else
 * /etc/deferred/deferred.conf, which may be missing; a file named explicitly may not. As root only a file that nobody
 * else can write is read.
 * Returns 0 or DEFERRED_ECONFIG.
 */
int config_load(struct config **config, const char *path, struct deferred_error *err);
void config_free(struct config *config);

/* Set by the command line: wins over all else. `option` is how the user wrote it ("--cnt"). Returns 0 or
 * DEFERRED_ECONFIG, with the option named. */
int config_override(struct config *config, const char *name, const char *value, const char *option,
		    struct deferred_error *err);

/* Values. The name must be one of the table with the matching type. Text may be NULL; the text of a number is
 * the number in its base unit, of a flag 1 or 0. */
const char *config_text(const struct config *config, const char *name);
int64_t config_int(const struct config *config,
		   const char *name); /* INT, MS, BYTES, FLAG; CHOICE: index of the word; RANGE: upper end */
int64_t config_range_min(const struct config *config, const char *name); /* RANGE: lower end */
double config_real(const struct config *config, const char *name);
bool config_flag(const struct config *config, const char *name);

/* Setting balance: fills in group, at most size - 1 bytes, and range. False: not set. */
bool config_balance(const struct config *config, char *group, size_t size, int64_t *range);

/* Setting alert.late_queues, a queue at each call, *at NULL at the first. False: there is no more. */
#define CONFIG_QUEUE_SIZE 89
bool config_late_queue(const struct config *config, const char **at, char name[static CONFIG_QUEUE_SIZE], int64_t *ms);

/* Was it set somewhere, or is this the default? */
bool config_given(const struct config *config, const char *name);

/* Free-form settings of plugins: section `settings "PLUGIN" { NAME = value }`; name "settings.PLUGIN.NAME". */

/* Call f with every setting a runner may know: all of the table but database.*, http.*, web.*, otlp.*, alert.* and
 * breaker.*, and the free-form ones. Of http.* it may know those of the function http. */
int config_each_public(const struct config *config, int (*f)(void *data, const char *name, const char *value),
		       void *data);

const struct config_command *config_commands(const struct config *config, size_t *len);
const struct config_program *config_programs(const struct config *config, size_t *len);
bool config_has_functions(const struct config *config); /* is there a command or a program? */

/*
 * A section with a title. A recurring job is `schedule "NAME" { rule = "..." function = "..." ... }`. The database
 * checks its members when `deferred schedule sync` stores them.
 */
struct config_section {
	char *name;
	int line; /* of the file, at its end */
	struct config_member {
		char *name, *value;
	} * members;
	size_t len;
};
const struct config_section *config_schedules(const struct config *config, size_t *len);

/*
 * One of several databases: section `shard "NAME" { number = 3 conninfo = "..." accepting = 1 }`. conninfo and
 * accepting may be missing there: none, and 1.
 * Which of them to use says the setting database.shard; then database.conninfo is what the section has.
 */
struct config_shard {
	const char *name, *conninfo;
	int number;
	bool accepting; /* jobs that may go to any shard, or have a route, go here too */
};
const struct config_shard *config_shards(const struct config *config, size_t *len);

/* The one to use; NULL: none was named. */
const struct config_shard *config_shard(const struct config *config);

/* Shards count where no other connection is given, by database.conninfo. */
bool config_by_shards(const struct config *config);

/* After an override of database.shard. Returns 0 or DEFERRED_ECONFIG: there is no such section. */
int config_use_shard(struct config *config, struct deferred_error *err);

/* Setting pidfile, else the default; borrowed, buf or the setting. */
const char *config_pidfile(const struct config *config, char *buf, size_t size);

/* Setting plugin_dir, else the folder of the stock plugins. */
const char *config_plugin_dir(const struct config *config);

/* Setting http.key_file, else the file in the folder of the config file. */
const char *config_key_file(const struct config *config);

/* File that was read; NULL if none. */
const char *config_path(const struct config *config);

/* Parse a time span as the settings do. Returns 0 or DEFERRED_EINVAL; err does not repeat the text. */
int config_parse_ms(const char *text, int64_t *ms, struct deferred_error *err);

/* Parse a number as the settings do: digits, perhaps a point and digits. Returns 0 or DEFERRED_EINVAL. */
int config_parse_real(const char *text, double *number);

#endif
