/* SPDX-License-Identifier: MIT */
/*
 * config_reader - the text of a config file, read by a program of its own, deferred_config.
 *
 * libconfuse, which knows the grammar, ends its process when memory is short, or crashes. In an application that is not
 * ours to end; so it runs in a child, and what comes back is a list of texts. Whether the child ended well is not
 * asked: applications ignore
 * SIGCHLD, or wait for children of ours. What counts is whether the answer is whole.
 */
#ifndef CONFIG_READER_H
#define CONFIG_READER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The answer: records, each of a letter and the texts named here, all of them with a NUL. Numbers are digits.
 *
 *     s LINE NAME VALUE        a setting                       c TEXT            a word of the command of the last
 *     function v LINE NAME VALUE        a value of a function, to check t TEXT, m TEXT    its timeout, its max_attempts
 *     n                        the last function may gain rights
 *     f NAME                   a function                      p PLUGIN NAME VALUE    a free-form setting
 *     S NAME               a schedule                      o NAME VALUE      a member of the last schedule
 *     H NAME NUMBER CONNINFO   a shard                     h FLAG            1: it accepts jobs; of the last shard
 *     e LINE TEXT HINT         wrong: the last record          .                 the last record
 */

/*
 * Have text read.
 *
 * answer  receives the records, perhaps not all of them: without a last record the child has died; given: free()
 *
 * Returns 0, DEFERRED_ENOMEM, or DEFERRED_ESYSTEM where the program cannot be started, or does not answer.
 */
int config_reader_run(const char *text, size_t len, char **answer, size_t *answer_len, struct deferred_error *err);

/* The answer was whole: the next time the same text is read without a child. For who sends mails, which have it read
 * for each. */
void config_reader_keep(const char *text, size_t len, const char *answer, size_t answer_len);

/* Does ${NAME} in the file have a value? An empty variable has none. */
bool config_reader_knows(const char *name, size_t len);

/* For programs of ours: deferred_config may lie beside the running one, where both were built. Else it is where it was
 * installed, or in the folder that the environment variable DEFERRED_LIBEXEC_DIR names. */
void config_reader_beside_program(void);

/* So long an answer may take. */
extern int config_reader_patience_ms;

#endif
