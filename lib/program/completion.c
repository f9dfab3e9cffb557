/* SPDX-License-Identifier: MIT */
#include "program/completion.h"

#include <stdio.h>
#include <string.h>

/* Not in the table of options, which --help shows. */
bool completion_asked(int argc, char **argv)
{
	return argc == 2 && strcmp(argv[1], "--describe") == 0;
}

void completion_word(const char *place, const char *word, const char *what)
{
	printf("%s\tword\t%s\t\t%s\n", place, word, what);
}

void completion_option(const char *place, const char *option, const char *takes, const char *what)
{
	printf("%s\toption\t--%s\t%s\t%s\n", place, option, takes, what);
}
