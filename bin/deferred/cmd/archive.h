/* SPDX-License-Identifier: MIT */
/*
 * archive - what `deferred purge --archive` does with one table: its rows, as CSV with a line of names in front, go to
 * the standard input of a command of the administrator's. The table goes when the command has ended with 0, and not
 * before.
 */
#ifndef ARCHIVE_H
#define ARCHIVE_H

#include "port/pg.h"

#include <stddef.h>
#include <stdint.h>

/* For a name without what it begins with. */
#define ARCHIVE_NAME_MAX 64

/*
 * aside: name of the table, as admin_purge_aside_exec() gives it; name: receives what the command finds in $NAME.
 * *rows: how many there were.
 * Returns 0, DEFERRED_ESTALE where another purge is at it, DEFERRED_EFAILED where the command did not end with 0, or
 * what the database says: then the table is there as before.
 */
int archive_table(struct pg *pg, const char *aside, const char *command, char name[ARCHIVE_NAME_MAX], int64_t *rows,
		  struct deferred_error *err);

#endif
