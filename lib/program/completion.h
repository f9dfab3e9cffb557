/* SPDX-License-Identifier: MIT */
/*
 * completion - the output of a program for the argument --describe, from which bin/completion.awk makes shell
 * completions. Each line has five fields separated by tabs: the command ("deferred queue set"), word or option, its
 * name, its value, its purpose.
 */
#ifndef COMPLETION_H
#define COMPLETION_H

#include <stdbool.h>

/* The value of an option; one of few words is "a|b|c". */
#define COMPLETION_NOTHING ""
#define COMPLETION_TEXT "<text>"
#define COMPLETION_FILE "<file>"
#define COMPLETION_FOLDER "<folder>"

bool completion_asked(int argc, char **argv);

void completion_word(const char *place, const char *word, const char *what);
void completion_option(const char *place, const char *option, const char *takes, const char *what);

#endif
