/* SPDX-License-Identifier: MIT */
/*
 * completion - what a program says of its own tables when its one argument is --describe: bin/completion.awk makes the
 * completions of shells of it. One line each, of five fields separated by tabs: where it stands ("deferred queue set"),
 * word or option, its name, what it takes, what it is for.
 */
#ifndef COMPLETION_H
#define COMPLETION_H

#include <stdbool.h>

/* What an option takes, if not one of few words: "a|b|c". */
#define COMPLETION_NOTHING ""
#define COMPLETION_TEXT "<text>"
#define COMPLETION_FILE "<file>"
#define COMPLETION_FOLDER "<folder>"

bool completion_asked(int argc, char **argv);

void completion_word(const char *place, const char *word, const char *what);
void completion_option(const char *place, const char *option, const char *takes, const char *what);

#endif
