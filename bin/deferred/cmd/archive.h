/* SPDX-License-Identifier: MIT */
/*
 * archive - `deferred purge --archive` for one table. A command of the administrator gets its rows on standard input,
 * as CSV with a line of names. The table is dropped only after the command has ended with 0.
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
 * *rows: how many there were. Returns 0; DEFERRED_ESTALE if another purge archives the table; DEFERRED_EFAILED if the
 * command did not end with 0; or a database error. After an error the table is unchanged.
 */
int archive_table(struct pg *pg, const char *aside, const char *command, char name[ARCHIVE_NAME_MAX], int64_t *rows,
		  struct deferred_error *err);

#endif
