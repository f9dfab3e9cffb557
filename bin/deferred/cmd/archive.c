/* SPDX-License-Identifier: MIT */
#include "archive.h"

#include "store/admin.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PREFIX "__purged_"

static int not_read(struct deferred_error *err)
{
	return errno == EPIPE
		       ? error_set(err, DEFERRED_EFAILED, "archive", "the command ended before it had read all rows")
		       : error_errno(err, DEFERRED_ESYSTEM, "archive", "cannot write to the command");
}

static int archive_write_row(void *command, const char *row, size_t len, struct deferred_error *err)
{
	return fwrite(row, 1, len, command) == len ? 0 : not_read(err);
}

static int archive_ended(int status, struct deferred_error *err)
{
	if (status == 0)
		return 0;
	if (status == -1)
		return error_errno(err, DEFERRED_ESYSTEM, "archive", "cannot wait for the command");
	if (WIFSIGNALED(status))
		return error_set(err, DEFERRED_EFAILED, "archive", "the command was ended by signal %d",
				 WTERMSIG(status));
	return error_set(err, DEFERRED_EFAILED, "archive", "the command ended with exit code %d", WEXITSTATUS(status));
}

static void on_pipe(int sig)
{
	(void)sig;
}

static int feed(struct pg *pg, const char *aside, const char *command, const char *name, int64_t *rows,
		struct deferred_error *err)
{
	struct sigaction no_end = { .sa_handler = on_pipe, .sa_flags = SA_RESTART },
			 before; /* ignored it would be in the command too */
	struct deferred_error why = { 0 };
	FILE *to;
	int rc, end;

	fflush(NULL);
	if (setenv("NAME", name, 1) < 0 || !(to = popen(command, "we")))
		return error_errno(err, DEFERRED_ESYSTEM, "archive", "cannot run '%.64s'", command);
	sigaction(SIGPIPE, &no_end, &before);
	rc = store_admin_copy_out(pg, aside, archive_write_row, to, rows, &why);
	if (rc == 0 && fflush(to) != 0)
		rc = not_read(&why);
	end = archive_ended(pclose(to), err); /* why it ended says more than that it has */
	sigaction(SIGPIPE, &before, NULL);
	if (end == 0)
		*err = why;
	return end < 0 ? end : rc;
}

int archive_table(struct pg *pg, const char *aside, const char *command, char name[ARCHIVE_NAME_MAX], int64_t *rows,
		  struct deferred_error *err)
{
	struct admin_purge_hold_row hold;
	int rc;

	/* It becomes part of a statement, and of a command line. */
	if (strncmp(aside, PREFIX, strlen(PREFIX)) != 0 ||
	    strspn(aside, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(aside))
		return error_set(err, DEFERRED_EINVAL, "archive",
				 "'%.64s' is not the name of a table that was set aside\nrun: deferred migrate", aside);
	snprintf(name, ARCHIVE_NAME_MAX, "%s", aside + strlen(PREFIX));
	if ((rc = pg_begin(pg, "", err)) < 0)
		return rc;
	rc = admin_purge_hold_one(pg, aside, &hold, err);
	if (rc == 0 && !hold.held)
		rc = error_set(err, DEFERRED_ESTALE, "archive",
			       "table '%s' is being archived by another purge\nwait until that has ended", name);
	if (rc == 0)
		rc = feed(pg, aside, command, name, rows, err);
	if (rc == 0)
		rc = admin_purge_archived_exec(pg, aside, *rows, err);
	if (rc == 0)
		return pg_command(pg, "commit", err);
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}
