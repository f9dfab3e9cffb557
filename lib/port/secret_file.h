/* SPDX-License-Identifier: MIT */
/* secret_file - what is for few eyes: files that hold a password or key, arguments that do. */
#ifndef SECRET_FILE_H
#define SECRET_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

/* The rule of libpq for keys: readable by its owner alone; one that belongs to root, by its group too. */
bool secret_file_ok(const struct stat *st);

/* The message after the name of such a file, with the mode for %04o, and the remedy. */
#define SECRET_FILE_WRONG "is open to others (mode %04o)"
#define SECRET_FILE_HINT "chmod 600 it; or chown root and chmod 640 it, with a group of those who read it"

/* Open the file that a setting of functions names, if few enough can read it. NULL: `why` has the reason. */
FILE *secret_file_open(const char *path, const char *setting, char *why, size_t why_size);

/* Does a connection string of libpq hold a password, rather than leave it to ~/.pgpass or a service file? */
bool secret_in_conninfo(const char *conninfo);

/* Overwrite an argument of the command line that is a connection string with a password, so that ps shows none. Copy it
 * before. */
void secret_hide_argument(char *conninfo);

#endif
